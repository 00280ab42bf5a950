//! Prints what happens, one line for each run of equal outcomes.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;
use tower_belay::{Reason, Refusal, events::Transition, semantic_breaker::State};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered,
    Failed(Reason),
    Refused(Refusal),
}

pub(crate) struct Timeline {
    start: Instant,
    run: Mutex<Vec<(f32, Outcome)>>,
}

impl Timeline {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), run: Mutex::default() })
    }

    /// A call ended.
    pub(crate) fn call(&self, outcome: Outcome) {
        let mut run = self.run();
        let now = self.now();
        if let (Some((began, _)), Some((_, last))) = (run.first(), run.last()) {
            let goes_on = if is_of_ramp(*last) && is_of_ramp(outcome) && is_mixed(&run, outcome) {
                now - began < 0.75
            } else {
                *last == outcome
            };
            if !goes_on {
                print(&mut run);
            }
        }
        run.push((now, outcome));
    }

    /// The breaker changed its state.
    pub(crate) fn turns(&self, transition: &Transition) {
        print(&mut self.run());
        // What opened it is told where it opens, and not again on the way back.
        let opens = transition.signal.filter(|_| transition.to == State::Open);
        let signal = opens.map_or(String::new(), |signal| format!(" ({signal})"));
        println!("{:>6.2} s  breaker: {} → {}{signal}", self.now(), transition.from, transition.to);
    }

    pub(crate) fn end(&self) {
        print(&mut self.run());
    }

    fn now(&self) -> f32 {
        self.start.elapsed().as_secs_f32()
    }

    fn run(&self) -> MutexGuard<'_, Vec<(f32, Outcome)>> {
        self.run.lock().expect("nothing panics while it prints")
    }
}

/// While it recovers, a breaker lets some calls pass and refuses others: those are told together.
fn is_of_ramp(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Answered | Outcome::Refused(Refusal::Recovering))
}

fn is_mixed(run: &[(f32, Outcome)], next: Outcome) -> bool {
    let is_refused = |outcome: Outcome| outcome == Outcome::Refused(Refusal::Recovering);
    is_refused(next) || run.iter().any(|(_, outcome)| is_refused(*outcome))
}

fn print(run: &mut Vec<(f32, Outcome)>) {
    if let Some((from, outcome)) = run.first() {
        let answered = run.iter().filter(|(_, outcome)| *outcome == Outcome::Answered).count();
        let what = match outcome {
            _ if answered > 0 && answered < run.len() => {
                format!("recovering: {answered} answered, {} refused", run.len() - answered)
            }
            Outcome::Answered => "answered".to_owned(),
            Outcome::Failed(reason) => format!("sent and failed: {reason}"),
            Outcome::Refused(code) => format!("refused, nothing sent: {code}"),
        };
        println!("{from:>6.2} s  {:>3} × {what}", run.len());
    }
    run.clear();
}
