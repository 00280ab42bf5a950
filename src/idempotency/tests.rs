use std::{convert::Infallible, io, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::{advance, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::{
    body::WatchedBody,
    call::{ActionId, Call, Effect},
    classify::classify_fn,
    error::{Error, Refusal, Rejected},
    reason::Reason,
    testing::{Scripted, Step},
};

type Write = (u128, u64);

fn named() -> impl Judged {
    classify_fn(name as fn(&Write) -> Call).judge(judge as fn(&Reason) -> Reason)
}

trait Judged: crate::classify::Classifier<Write, Reason, Response = Reason> + Clone + Send + Sync + 'static {}
impl<C: crate::classify::Classifier<Write, Reason, Response = Reason> + Clone + Send + Sync + 'static> Judged for C {}

fn name((id, what): &Write) -> Call {
    let effect = if *what == 0 { Effect::ReadOnly } else { Effect::Consequential };
    Call::to("crm").run("run").effect(effect).action(ActionId::from_key(*id)).fingerprint(*what)
}

fn judge(reason: &Reason) -> Reason {
    *reason
}

fn run() -> Call {
    Call::new().run("run")
}

fn refusal(result: Result<Reason, Error>) -> Option<Refusal> {
    result.err().and_then(|error| error.rejected().map(Rejected::code))
}

#[tokio::test(start_paused = true)]
async fn each_class_of_outcome_decides_what_the_same_write_gets() {
    let answers = [Reason::Completed, Reason::ConnectFailed, Reason::RateLimited, Reason::Timeout, Reason::EmptyAnswer];
    for first in answers {
        let crm = Scripted::new([Step::answer(first), Step::answer(Reason::Completed)]);
        let service = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named()).layer(crm.clone());
        assert_eq!(service.clone().oneshot((1, 50)).await.expect("an answer"), first);
        let second = service.oneshot((1, 50)).await;
        let sent = crm.take_requests().len();
        match first {
            Reason::Completed => assert_eq!((second.ok(), sent), (Some(Reason::Completed), 1)),
            Reason::ConnectFailed | Reason::RateLimited => {
                assert_eq!((second.ok(), sent), (Some(Reason::Completed), 2))
            }
            _ => assert_eq!((refusal(second), sent), (Some(Refusal::InDoubt), 1), "{first}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_pass_and_another_request_under_the_same_id_is_refused() {
    let crm = Scripted::new((0..3).map(|_| Step::answer(Reason::Completed)));
    let service = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named()).layer(crm.clone());
    for read in [(1, 0), (1, 0), (1, 50)] {
        assert!(service.clone().oneshot(read).await.is_ok());
    }
    assert_eq!(refusal(service.oneshot((1, 51)).await), Some(Refusal::ActionConflict));
    assert_eq!(crm.take_requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_is_not_sent_beside_itself_and_one_given_up_is_in_doubt() {
    let layer = IdempotencyLayer::new(IdempotencyConfig::default().lease(Duration::from_secs(60))).classifier(named());
    let crm = Scripted::new([Step::stall(), Step::answer(Reason::Completed)]);
    let service = layer.layer(crm.clone());
    let mut first = Box::pin(service.clone().oneshot((1, 50)));
    assert!(timeout(Duration::from_secs(1), &mut first).await.is_err());
    // Another service of the layer knows of it too.
    let beside = layer.layer(crm.clone()).oneshot((1, 50)).await;
    assert_eq!(
        beside.as_ref().err().and_then(Error::rejected).and_then(Rejected::retry_after),
        Some(Duration::from_secs(59))
    );
    assert_eq!(refusal(beside), Some(Refusal::InProgress));
    drop(first);
    assert_eq!(refusal(service.clone().oneshot((1, 50)).await), Some(Refusal::InDoubt));
    assert_eq!(layer.handle().in_doubt(&run()), [ActionId::from_key(1)]);
    assert!(layer.handle().reconciled(&run(), ActionId::from_key(1), true));
    assert_eq!(refusal(service.oneshot((1, 50)).await), Some(Refusal::AlreadyDone));
    assert_eq!(crm.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_leaves_its_write_in_doubt_as_the_inner_service_was_called() {
    let layer = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named());
    let mut service = layer.layer(Scripted::new([Step::answer(Reason::Completed)]));
    let service = service.ready().await.expect("ready");
    drop(tower::Service::call(service, (1, 50)));
    assert_eq!(layer.handle().in_doubt(&run()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_leaves_a_write_in_doubt_and_its_late_answer_still_counts() {
    let layer = IdempotencyLayer::new(IdempotencyConfig::default().lease(Duration::from_secs(60))).classifier(named());
    let slow = Scripted::new([Step::answer(Reason::Completed).after(Duration::from_secs(90))]);
    let service = layer.layer(slow);
    let first = tokio::spawn(service.clone().oneshot((1, 50)));
    tokio::task::yield_now().await;
    advance(Duration::from_secs(60)).await;
    assert_eq!(refusal(service.clone().oneshot((1, 50)).await), Some(Refusal::InDoubt));
    assert!(first.await.expect("no panic").is_ok());
    assert_eq!(service.oneshot((1, 50)).await.ok(), Some(Reason::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_is_looked_up_before_it_is_sent_again() {
    for (found, sent, second) in [
        (Found::Applied, 1, Err(Refusal::AlreadyDone)),
        (Found::NotApplied, 2, Ok(Reason::Completed)),
        (Found::Unknown, 1, Err(Refusal::InDoubt)),
    ] {
        let look_up = service_fn(move |call: Call| async move {
            assert_eq!(call.action_id(), Some(ActionId::from_key(1)));
            Ok::<_, Infallible>(found)
        });
        let layer = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named()).look_up(look_up);
        let crm = Scripted::new([Step::answer(Reason::Timeout), Step::answer(Reason::Completed)]);
        let service = layer.layer(crm.clone());
        assert_eq!(service.clone().oneshot((1, 50)).await.ok(), Some(Reason::Timeout));
        let again = service.oneshot((1, 50)).await;
        match second {
            Ok(reason) => assert_eq!(again.ok(), Some(reason)),
            Err(code) => assert_eq!(refusal(again), Some(code)),
        }
        assert_eq!(crm.take_requests().len(), sent, "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_fails_or_is_given_up_finds_nothing_out() {
    let fails = service_fn(|_: Call| async { Err::<Found, _>(io::Error::from(io::ErrorKind::TimedOut)) });
    let layer = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named()).look_up(fails);
    let crm = Scripted::new([Step::answer(Reason::Timeout)]);
    let service = layer.layer(crm.clone());
    assert!(service.clone().oneshot((1, 50)).await.is_ok());
    assert_eq!(refusal(service.clone().oneshot((1, 50)).await), Some(Refusal::InDoubt));

    let hangs = layer.look_up(service_fn(|_: Call| std::future::pending::<Result<Found, Infallible>>()));
    let given_up = timeout(Duration::from_secs(1), hangs.layer(crm.clone()).oneshot((1, 50))).await;
    assert!(given_up.is_err());
    assert_eq!(hangs.handle().in_doubt(&run()).len(), 1);
    assert_eq!(crm.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_further_in_means_that_nothing_was_sent_unless_an_attempt_before_it_was() {
    for (last, second) in [(None, Refusal::Open), (Some(Reason::Timeout), Refusal::InDoubt)] {
        let refuses = service_fn(move |write: Write| async move {
            let rejected = Rejected::new("semantic_breaker", Refusal::Open, crate::Scope::TARGET, &name(&write));
            let rejected = match last {
                Some(last) => rejected.with_last(last.into()),
                None => rejected,
            };
            Err::<Reason, Error>(rejected.into())
        });
        let service = IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named()).layer(refuses);
        assert_eq!(refusal(service.clone().oneshot((1, 50)).await), Some(Refusal::Open));
        assert_eq!(refusal(service.oneshot((1, 50)).await), Some(second));
    }
}

#[tokio::test(start_paused = true)]
async fn runs_and_tenants_do_not_share_their_ids_and_a_full_run_is_refused() {
    let by_tenant = classify_fn(|(id, tenant): &Write| {
        let call = Call::to("crm").tenant(&tenant.to_string()).run("run").effect(Effect::Sensitive);
        call.action(ActionId::from_key(*id))
    });
    let layer = IdempotencyLayer::new(IdempotencyConfig::default().max_per_run(2))
        .classifier(by_tenant.judge(judge as fn(&Reason) -> Reason));
    let crm = Scripted::new((0..5).map(|_| Step::answer(Reason::Completed)));
    let service = layer.layer(crm.clone());
    for write in [(1, 1), (1, 2), (2, 1)] {
        assert!(service.clone().oneshot(write).await.is_ok());
    }
    assert_eq!(refusal(service.clone().oneshot((3, 1)).await), Some(Refusal::TooManyWrites));
    assert!(service.oneshot((3, 2)).await.is_ok());
    assert_eq!(crm.take_requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_http_answer_is_given_again_if_it_lies_in_memory() {
    let named = crate::classify::classify_http(|_: &crate::classify::RequestHead<'_>, call: Call| {
        call.run("run").effect(Effect::Sensitive).action(ActionId::from_key(1))
    });
    let layer =
        IdempotencyLayer::new(IdempotencyConfig::default()).classifier(named).remember(HttpAnswers::up_to(1_024));
    let mut sent = 0;
    let service = layer.layer(service_fn(move |_: Request<String>| {
        sent += 1;
        let body = WatchedBody::from(format!("receipt {sent}"));
        std::future::ready(Ok::<_, Infallible>(
            Response::builder().status(201).header("etag", "7").body(body).expect("a response"),
        ))
    }));
    let mut service = tower::ServiceBuilder::new().service(service);
    for _ in 0..2 {
        let answer = service.ready().await.expect("ready");
        let answer = tower::Service::call(answer, Request::post("/refunds").body(String::new()).expect("a request"));
        let answer = answer.await.expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.headers()["etag"].as_bytes()), (201, &b"7"[..]));
        assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "receipt 1");
    }
}

#[test]
fn impossible_values_are_named_and_refuse_every_write() {
    for (config, field) in [
        (IdempotencyConfig::default().lease(Duration::ZERO), "lease"),
        (IdempotencyConfig::default().keep_for(Duration::ZERO), "keep_for"),
        (IdempotencyConfig::default().max_per_run(0), "max_per_run"),
    ] {
        assert_eq!(
            IdempotencyLayer::try_new(config).err().map(|error| error.field().to_owned()).as_deref(),
            Some(field)
        );
    }
}
