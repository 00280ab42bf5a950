//! The account beside a naive model of it: lists of calls, added up anew for every question.

use proptest::prelude::*;

use super::{tests::RULES, *};

#[derive(Debug, Clone)]
enum Event {
    Ask(Ask, u64, u64, u64),
    Settle(usize, Option<(u64, u64)>, bool),
    Grant(u64),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let how = prop_oneof![Just(Ask::Work), Just(Ask::Final), Just(Ask::Whole)];
    prop_oneof![
        4 => (how, 0..200_u64, 0..400_u64, 0..2_u64).prop_map(|(how, i, o, s)| Event::Ask(how, i, o, s)),
        4 => (any::<usize>(), prop::option::of((0..300_u64, 0..600_u64)), any::<bool>())
            .prop_map(|(n, used, exact)| Event::Settle(n, used, exact)),
        1 => (0..200_u64).prop_map(Event::Grant),
        1 => (0..20_u64).prop_map(Event::Wait),
    ]
}

/// Everything that ever happened.
#[derive(Default)]
struct Model {
    open: Vec<Amount>,
    settled: Vec<Amount>,
    granted: u64,
    elapsed: u64,
}

impl Model {
    fn limit(&self, limits: &Limits, dimension: Dimension) -> Option<i128> {
        let granted = if dimension == Dimension::Tokens { i128::from(self.granted) } else { 0 };
        Some(i128::from(limits.of(dimension)?) + granted)
    }

    fn spent(&self, dimension: Dimension) -> i128 {
        self.settled.iter().map(|amount| i128::from(amount.of(dimension))).sum()
    }

    fn used(&self, dimension: Dimension) -> i128 {
        self.spent(dimension) + self.open.iter().map(|amount| i128::from(amount.of(dimension))).sum::<i128>()
    }

    fn passes(&self, limits: &Limits, ask: Ask, need: &Need) -> bool {
        let amount = need.amount();
        let late = limits.wall_time.is_some_and(|limit| u128::from(self.elapsed) >= u128::from(limit.as_secs()));
        if late {
            return false;
        }
        for dimension in Dimension::SUMMED {
            let Some(limit) = self.limit(limits, dimension) else { continue };
            let is_step = dimension == Dimension::Steps;
            if (need.steps > 0 || !is_step) && self.spent(dimension) >= limit {
                return false;
            }
            let soft = if is_step { 100 } else { i128::from(RULES.soft_percent) };
            if ask == Ask::Work && self.used(dimension) * 100 >= limit * soft {
                return false;
            }
            let last = match dimension {
                Dimension::Input => i128::from(need.input) + 128,
                Dimension::Output => i128::from(need.output.min(10)),
                Dimension::Tokens => i128::from(need.input) + 128 + i128::from(need.output.min(10)),
                _ => 0,
            };
            // Rounded up.
            let share = (limit * i128::from(RULES.kept_back_percent) + 99) / 100;
            let kept = if ask == Ask::Work && !is_step { share.max(last) } else { 0 };
            let output = if ask == Ask::Final { need.output.min(RULES.least_answer) } else { need.output };
            let wanted = match dimension {
                Dimension::Output => i128::from(output),
                Dimension::Tokens => i128::from(need.input + output),
                _ => i128::from(amount.of(dimension)),
            };
            if wanted > 0 && self.used(dimension) + wanted > limit - kept {
                return false;
            }
        }
        let soft_time = limits.wall_time.is_some_and(|limit| {
            u128::from(self.elapsed) * 100 >= u128::from(limit.as_secs()) * u128::from(RULES.soft_percent)
        });
        ask != Ask::Work || !soft_time
    }
}

proptest! {
    #[test]
    fn an_account_is_its_calls_added_up(
        limits in (
            prop::option::of(0..1_500_u64),
            prop::option::of(0..1_500_u64),
            prop::option::of(0..3_000_u64),
            prop::option::of(0..6_u64),
            prop::option::of(0..200_u64),
        ),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let limits = Limits {
            input_tokens: limits.0,
            output_tokens: limits.1,
            tokens: limits.2,
            nano_dollars: None,
            steps: limits.3,
            wall_time: limits.4.map(Duration::from_secs),
        };
        let begun = Instant::now();
        let mut state = State::new(limits, begun);
        let mut model = Model::default();
        for event in events {
            let now = begun + Duration::from_secs(model.elapsed);
            match event {
                Event::Ask(ask, input, output, steps) => {
                    let mut need = Need { input, output, steps, pricing: Pricing::Free };
                    let expected = model.passes(&limits, ask, &need);
                    let passed = state.admit(ask, &mut need, now, &RULES).is_ok();
                    prop_assert_eq!(passed, expected, "{:?} {:?}", ask, need);
                    if passed {
                        prop_assert!(ask == Ask::Final || need.output == output);
                        state.reserve(&need.amount(), now);
                        model.open.push(need.amount());
                        for dimension in Dimension::SUMMED {
                            // A call that uses nothing of it may stand beside a debt.
                            if let Some(limit) = model.limit(&limits, dimension).filter(|_| need.amount().of(dimension) > 0) {
                                prop_assert!(model.used(dimension) <= limit, "{} of {}", model.used(dimension), limit);
                            }
                        }
                    }
                }
                Event::Settle(n, used, exact) if !model.open.is_empty() => {
                    let reserved = model.open.swap_remove(n % model.open.len());
                    let settlement = match used {
                        None => Settlement::NotSent,
                        Some((input, output)) => {
                            let amount = Amount::tokens(input, output).steps(reserved.steps);
                            model.settled.push(amount);
                            if exact { Settlement::Exact(amount) } else { Settlement::AtLeast(amount) }
                        }
                    };
                    state.settle(&reserved, &settlement);
                }
                Event::Settle(..) => {}
                Event::Grant(tokens) => {
                    state.grant(&Amount { tokens, ..Amount::default() });
                    model.granted += tokens;
                }
                Event::Wait(seconds) => model.elapsed += seconds,
            }
            let balance = state.balance(begun + Duration::from_secs(model.elapsed));
            for dimension in Dimension::SUMMED {
                prop_assert_eq!(i128::from(balance.spent.of(dimension)), model.spent(dimension));
                let remaining = model.limit(&limits, dimension).map(|limit| limit - model.used(dimension));
                prop_assert_eq!(balance.remaining(dimension), remaining);
            }
        }
        for open in std::mem::take(&mut model.open) {
            state.settle(&open, &Settlement::NotSent);
        }
        prop_assert_eq!(state.balance(begun).reserved, Amount::default());
    }
}
