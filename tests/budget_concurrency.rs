//! Many tasks on one budget, with every way in which a call can end.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{Request, Response};
use tower::{BoxError, Layer, Service, service_fn};
use tower_belay::{
    Budget, BudgetHandle, Call, Error, Failure, Reason, TokenBudgetLayer, Usage, Verdict, classify_fn, classify_http,
    testing::BodyScript,
    token_budget::{Amount, Dimension, Estimated, Level, Limits, estimate_fn},
};

const TASKS: u64 = 64;
const CALLS: u64 = 10_000;
const RUNS: u64 = 16;
const AGENTS: u64 = 4;
/// What a call may use at most, and what is reserved for it.
const MAX: u64 = 100;

/// A small generator, so that every task is different and every run of the test the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Clone, Copy)]
struct Ask {
    run: u64,
    uses: u64,
    ends: Ends,
}

#[derive(Clone, Copy)]
enum Ends {
    WithUsage,
    WithoutUsage,
    NotSent,
    Timeout,
    Never,
}

fn of(run: u64) -> Call {
    Call::to("llm").tenant("t").agent(&format!("agent {}", run % AGENTS)).run(&format!("run {run}"))
}

/// What ought to have been booked, and how much of it is exact.
#[derive(Default)]
struct Expected {
    spent: [AtomicU64; RUNS as usize],
    uncertain: AtomicU64,
}

fn poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A reservation looks at accounts and changes them under their locks, all of which it holds until all have agreed: there
/// is no step between two of them that another thread could see, so a model of interleavings (`loom`, `shuttle`) has
/// none to try. What is left to go wrong is a call that is booked twice, or never, or somewhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_ends_calls_the_sums_are_equal_at_every_level_and_nothing_stays_reserved() {
    // So much that some runs, some agents and the tenant run out of it, each at times.
    let budget = Budget::default()
        .run(Limits::default().tokens(1_200_000))
        .agent(Limits::default().tokens(4_500_000))
        .tenant(Limits::default().tokens(17_000_000));
    let handle = BudgetHandle::new(budget);
    let expected = Arc::new(Expected::default());
    let names: Arc<Vec<Call>> = Arc::new((0..RUNS).map(of).collect());
    let tasks: Vec<_> =
        (0..TASKS).map(|task| tokio::spawn(work(task, handle.clone(), names.clone(), expected.clone()))).collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await.expect("no panic");
    }

    let mut runs = Amount::default();
    for run in 0..RUNS {
        let balance = handle.run(&of(run)).expect("an account");
        assert_eq!(balance.reserved, Amount::default());
        assert_eq!(balance.spent.tokens, expected.spent[run as usize].load(Ordering::SeqCst));
        assert!(balance.remaining(Dimension::Tokens).is_some_and(|left| left >= 0), "{balance:?}");
        runs = Amount::tokens(0, runs.output_tokens + balance.spent.output_tokens);
    }
    let agents: u64 = (0..AGENTS).map(|agent| handle.agent(&of(agent)).expect("an account").spent.tokens).sum();
    let tenant = handle.tenant(&of(0)).expect("an account");
    assert_eq!((runs.tokens, agents, tenant.reserved), (tenant.spent.tokens, tenant.spent.tokens, Amount::default()));
    assert_eq!(tenant.uncertain.tokens, expected.uncertain.load(Ordering::SeqCst));
    assert!(
        tenant.spent.tokens <= 17_000_000
            && handle.all(Level::Agent).iter().all(|(_, it)| it.spent.tokens <= 4_500_000)
    );
    assert!(sent > TASKS * CALLS / 4 && sent < TASKS * CALLS, "some passed and some were refused: {sent}");
}

async fn work(task: u64, handle: BudgetHandle, names: Arc<Vec<Call>>, expected: Arc<Expected>) -> u64 {
    let layer = TokenBudgetLayer::with_handle(&handle);
    let judge = |answer: &Option<u64>| Verdict::completed().with_usage(answer.map(used));
    let measured = estimate_fn(|_: &Ask| Estimated::new(0, MAX));
    let own = names.clone();
    let by_run = classify_fn(move |ask: &Ask| own[ask.run as usize].clone()).judge(judge);
    let mut model = layer.classifier(by_run).estimate(measured).layer(service_fn(answer));
    let streams = TokenBudgetLayer::with_handle(&handle)
        .classifier(classify_http(|head, _| head.extensions.get::<Call>().cloned().unwrap_or_default().estimate(0)));
    let measured = estimate_fn(|_: &Request<()>| Estimated::new(0, MAX));
    let mut streams = streams.estimate(measured).layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(BodyScript::new().data("one").data("two")))
    }));
    let mut dice = Dice(task);
    let mut sent = 0;
    for _ in 0..CALLS {
        let run = dice.roll(RUNS);
        let book = |tokens: u64, is_certain: bool| {
            expected.spent[run as usize].fetch_add(tokens, Ordering::SeqCst);
            if !is_certain {
                expected.uncertain.fetch_add(tokens, Ordering::SeqCst);
            }
        };
        let uses = dice.roll(MAX + 1);
        let kind = dice.roll(10);
        if kind >= 8 {
            let mut request = Request::new(());
            request.extensions_mut().insert(names[run as usize].clone());
            let future = ready(&mut streams).call(request);
            let Ok(response) = future.await else { continue };
            sent += 1;
            if kind == 8 {
                tokio::task::yield_now().await;
                drop(response);
            } else {
                let body = http_body_util::BodyExt::collect(response.into_body());
                body.await.expect("a whole answer");
            }
            book(MAX, false);
            continue;
        }
        let ends = match kind {
            0..=3 => Ends::WithUsage,
            4 => Ends::WithoutUsage,
            5 => Ends::NotSent,
            6 => Ends::Timeout,
            _ => Ends::Never,
        };
        let mut future = Box::pin(ready(&mut model).call(Ask { run, uses, ends }));
        let outcome = match poll(&mut future) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending if matches!(ends, Ends::Never) => None,
            Poll::Pending => Some(future.as_mut().await),
        };
        match outcome {
            None => {
                tokio::task::yield_now().await;
                drop(future);
                sent += 1;
                book(MAX, false);
            }
            Some(Ok(Some(used))) => {
                sent += 1;
                book(used, true);
            }
            Some(Ok(None)) => {
                sent += 1;
                book(MAX, false);
            }
            Some(Err(error)) if error.rejected().is_some() => {}
            Some(Err(error)) => {
                sent += 1;
                match error.failure().map(Failure::reason) {
                    Some(Reason::ConnectFailed) => {}
                    _ => book(MAX, false),
                }
            }
        }
    }
    sent
}

fn ready<S: Service<Req>, Req>(service: &mut S) -> &mut S {
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    service
}

async fn answer(ask: Ask) -> Result<Option<u64>, BoxError> {
    if ask.uses.is_multiple_of(3) {
        tokio::task::yield_now().await;
    }
    match ask.ends {
        Ends::WithUsage => Ok(Some(ask.uses)),
        Ends::WithoutUsage => Ok(None),
        Ends::NotSent => Err(Error::from(Failure::new(Reason::ConnectFailed)).into()),
        Ends::Timeout => Err(Error::from(Failure::new(Reason::Timeout)).into()),
        Ends::Never => std::future::pending().await,
    }
}

fn used(output: u64) -> Usage {
    let mut usage = Usage::default();
    (usage.input_tokens, usage.output_tokens) = (Some(0), Some(output));
    usage
}

/// Runs that begin and end all the time, under parents that others close.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_come_and_go_leave_all_they_spent_with_their_tenant() {
    let handle = BudgetHandle::new(Budget::off());
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let handle = handle.clone();
            tokio::spawn(async move {
                let by_run =
                    classify_fn(|run: &Call| run.clone()).judge(|_: &()| Verdict::completed().with_usage(used(1)));
                let mut model = TokenBudgetLayer::with_handle(&handle)
                    .classifier(by_run)
                    .layer(service_fn(|_: Call| async { Ok::<_, Infallible>(()) }));
                for n in 0..2_000_u64 {
                    let parent = Call::new().tenant("t").run(&format!("parent {}", n % 7));
                    let child = Call::new().tenant("t").run(&format!("child {task} {}", n % 50));
                    let _ = handle.sub(&parent, &child, Limits::default());
                    ready(&mut model).call(child.clone()).await.expect("no limit");
                    match n % 5 {
                        0 => drop(handle.close(&child)),
                        1 => drop(handle.close(&parent)),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("no deadlock").expect("no panic");
    }
    let tenant = handle.tenant(&Call::new().tenant("t")).expect("an account");
    assert_eq!((tenant.spent.tokens, tenant.reserved), (16_000, Amount::default()));
}

/// Threads that all want the last of a run's budget at the same moment, over and over.
#[test]
fn where_there_is_room_for_one_call_one_of_four_passes() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 20_000;
    let handle = BudgetHandle::new(Budget::default().run(Limits::default().tokens(MAX)));
    let passed = AtomicU64::new(0);
    let at = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let measured = estimate_fn(|_: &Call| Estimated::new(0, MAX));
                let mut model = TokenBudgetLayer::with_handle(&handle)
                    .classifier(classify_fn(|run: &Call| run.clone()))
                    .estimate(measured)
                    .layer(service_fn(|_: Call| async { Ok::<_, Infallible>(()) }));
                for round in 0..ROUNDS {
                    let run = of(round);
                    let call = ready(&mut model);
                    // All are here before one goes on.
                    at.fetch_add(1, Ordering::SeqCst);
                    while at.load(Ordering::SeqCst) < (round + 1) * THREADS as u64 {
                        std::thread::yield_now();
                    }
                    let mut future = Box::pin(call.call(run));
                    if matches!(poll(&mut future), Poll::Ready(Ok(()))) {
                        passed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    // What they used nobody stated: it is all that was reserved.
    let tenant = handle.tenant(&of(0)).expect("an account");
    assert_eq!((passed.into_inner(), tenant.spent.tokens), (ROUNDS, ROUNDS * MAX));
}

/// Of accounts that many make at the same moment there is one each.
#[test]
fn a_tenant_that_many_begin_at_once_has_one_account() {
    const THREADS: usize = 4;
    for tenant in 0..2_000 {
        let handle = BudgetHandle::new(Budget::off());
        let call = Call::new().tenant(&format!("{tenant}")).agent("a").run("r");
        let barrier = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    handle.grant(Level::Tenant, &call, Amount::tokens(0, 1));
                    handle.grant(Level::Agent, &call, Amount::tokens(0, 1));
                    handle.grant(Level::Run, &call, Amount::tokens(0, 1));
                });
            }
        });
        for level in [Level::Tenant, Level::Agent, Level::Run] {
            assert_eq!(handle.all(level).len(), 1, "{level}");
        }
    }
}
