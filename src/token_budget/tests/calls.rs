//! What one call reserves, and what is booked of it.

use super::*;

#[tokio::test]
async fn a_call_passes_while_there_is_room_and_is_refused_after() {
    let layer = layer(tokens(220));
    let inner = echo();
    let mut service = layer.layer(inner.clone());
    for _ in 0..3 {
        service.ready().await.expect("ready").call(ASK).await.expect("room for it");
    }
    assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (150, 0));
    let refused = service.ready().await.expect("ready").call(ASK).await.expect_err("150 and 100 are more than 220");
    let rejected = refused.rejected().expect("a refusal");
    assert_eq!((rejected.code(), rejected.scope()), (Refusal::BudgetSpent, Scope::RUN));
    let evidence = refused.find::<Exhausted>().expect("its source").to_string();
    assert_eq!(evidence, "tokens of the run: 150 spent and 0 reserved of 220");
    assert_eq!(inner.calls(), 3, "nothing was sent");
    let fits = Ask { max: 70, ..ASK };
    assert!(service.ready().await.expect("ready").call(fits).await.is_ok());
}

#[tokio::test]
async fn calls_at_the_same_time_share_what_is_left() {
    let layer = layer(tokens(250));
    let inner = Scripted::by(|ask: &Ask| Step::answer(*ask).after(Duration::from_millis(1)));
    let service = layer.layer(inner);
    let answers = futures_util::future::join_all((0..20).map(|_| service.clone().oneshot(ASK))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (100, 0));
}

#[tokio::test]
async fn usage_that_nobody_states_is_what_was_reserved() {
    let layer = layer(Budget::off());
    let service = layer.layer(echo());
    service.oneshot(Ask { uses: None, ..ASK }).await.expect("an answer");
    let balance = layer.handle().run(&run()).expect("an account");
    assert_eq!((balance.spent.tokens, balance.uncertain.tokens, balance.reserved.tokens), (100, 100, 0));
}

#[tokio::test]
async fn more_than_was_reserved_is_a_debt_and_stays_one() {
    let layer = layer(tokens(200));
    let service = layer.layer(echo());
    service.clone().oneshot(Ask { uses: Some(900), ..ASK }).await.expect("an answer");
    let handle = layer.handle();
    assert_eq!(handle.run(&run()).and_then(|run| run.remaining(Dimension::Tokens)), Some(-700));
    assert_eq!(code(service.clone().oneshot(Ask { max: 0, ..ASK }).await), Some(Refusal::BudgetSpent));
    handle.grant(Level::Run, &run(), Amount::tokens(0, 700));
    assert_eq!(code(service.clone().oneshot(Ask { max: 0, ..ASK }).await), Some(Refusal::BudgetSpent));
    handle.grant(Level::Run, &run(), Amount::tokens(0, 100));
    assert!(service.oneshot(ASK).await.is_ok());
}

#[tokio::test]
async fn what_was_not_sent_costs_nothing() {
    let refused = || Error::from(Rejected::new("inner", Refusal::Open, Scope::TARGET, &Call::new()));
    for (error, booked) in [
        (refused(), 0),
        (Error::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)), 0),
        (Failure::new(Reason::RateLimited).into(), 0),
        (Failure::new(Reason::ServerError).into(), 0),
        (Failure::new(Reason::Timeout).into(), 100),
        (Error::new(std::fmt::Error), 100),
        (Failure::new(Verdict::new(Reason::SchemaViolation).with_usage(used(7))).into(), 7),
        (Failure::new(Verdict::new(Reason::Cut).with_usage(used(7))).into(), 100),
        (Failure::new(Verdict::new(Reason::Cut).with_usage(used(170))).into(), 170),
    ] {
        let name = format!("{error:?}");
        let layer = layer(Budget::off());
        let inner = Scripted::<Ask, Ask>::new([Step::fail(error)]);
        assert!(layer.layer(inner).oneshot(ASK).await.is_err());
        assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (booked, 0), "{name}");
    }
}

#[tokio::test]
async fn a_future_that_is_dropped_books_what_it_reserved() {
    let layer = layer(Budget::off());
    let service = layer.layer(Scripted::<Ask, Ask>::new([Step::stall(), Step::stall()]));
    let never_polled = service.clone().oneshot(ASK);
    drop(never_polled);
    assert_eq!(spent(&layer.handle()), 0, "`oneshot` had not called");
    let mut service = service;
    let call = service.ready().await.expect("ready").call(ASK);
    assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (0, 100));
    drop(call);
    assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (100, 0));
}

fn stream(
    body: BodyScript,
) -> impl Service<Request<String>, Response = Response<BodyScript>, Error = BoxError> + Clone {
    let body = Arc::new(Mutex::new(Some(body)));
    service_fn(move |_: Request<String>| {
        let body = body.lock().expect("no panic").take().expect("one answer");
        async move { Ok::<_, BoxError>(Response::new(body)) }
    })
}

#[tokio::test]
async fn a_stream_is_booked_at_its_end_and_whole_if_its_reader_goes_away() {
    for reads_all in [true, false] {
        let layer = TokenBudgetLayer::new(Budget::off()).classifier(classify_http(|_, _| run().estimate(40)));
        let service = layer.layer(stream(BodyScript::new().data("one").data("two")));
        let mut body = service.oneshot(Request::new(String::new())).await.expect("a head").into_body();
        assert!(body.frame().await.is_some());
        assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (0, 1_064));
        if reads_all {
            body.collect().await.expect("the rest");
        } else {
            drop(body);
        }
        let balance = layer.handle().run(&run()).expect("an account");
        assert_eq!((balance.spent.tokens, balance.reserved.tokens), (1_064, 0));
        assert_eq!(balance.uncertain, balance.spent);
    }
}

#[tokio::test]
async fn an_answer_that_was_read_further_in_is_booked_exactly() {
    let layer = TokenBudgetLayer::new(Budget::off()).classifier(classify_http(|_, _| run()));
    let service = layer.layer(service_fn(|_: Request<String>| async {
        let verdict = Verdict::completed().with_usage(used(33));
        Ok::<_, BoxError>(Response::new(WatchedBody::judged("hi".into(), verdict)))
    }));
    service.oneshot(Request::new("a body of 21 letters".into())).await.expect("an answer");
    let balance = layer.handle().run(&run()).expect("an account");
    assert_eq!((balance.spent, balance.uncertain), (Amount::tokens(0, 33), Amount::default()));
}

#[tokio::test]
async fn money_is_counted_by_the_table_and_what_is_not_in_it_is_refused() {
    // A dollar and four dollars for a million.
    let prices = PriceTable::default().model("m", Price::new(1_000_000_000, 4_000_000_000).reasoning(8_000_000_000));
    let budget = Budget::default().tenant(Limits::default().nano_dollars(1_000_000)).prices(prices);
    let layer = layer(budget.clone());
    let service = layer.layer(echo());
    service.clone().oneshot(ASK).await.expect("an answer");
    let tenant = |handle: &BudgetHandle| handle.tenant(&run()).map(|tenant| tenant.spent.nano_dollars);
    assert_eq!(tenant(&layer.handle()), Some(50 * 4_000));
    // As reasoning it would cost 800,000.
    assert!(service.clone().oneshot(Ask { max: 100, ..ASK }).await.is_ok());
    assert_eq!(code(service.oneshot(Ask { max: 100, ..ASK }).await), Some(Refusal::BudgetSpent));

    let unknown = budget.clone().prices(PriceTable::default());
    assert_eq!(code(self::layer(unknown.clone()).layer(echo()).oneshot(ASK).await), Some(Refusal::Unpriced));
    let allowed = self::layer(unknown.unpriced(Unpriced::Allow));
    assert!(allowed.layer(echo()).oneshot(ASK).await.is_ok());
    assert_eq!((tenant(&allowed.handle()), spent(&allowed.handle())), (Some(0), 50));
}

#[tokio::test(start_paused = true)]
async fn no_call_starts_after_the_time_of_a_run() {
    let layer = layer(Budget::default().run(Limits::default().wall_time(Duration::from_secs(60))));
    let service = layer.layer(echo());
    assert!(service.clone().oneshot(ASK).await.is_ok());
    advance(Duration::from_secs(59)).await;
    assert!(service.clone().oneshot(ASK).await.is_ok());
    advance(Duration::from_secs(1)).await;
    assert_eq!(code(service.clone().oneshot(ASK).await), Some(Refusal::TimeSpent));
    // A laptop that slept for a year.
    advance(Duration::from_secs(365 * 86_400)).await;
    assert_eq!(code(service.clone().oneshot(ASK).await), Some(Refusal::TimeSpent));
    assert!(service.oneshot(Ask { run: "another", ..ASK }).await.is_ok());
}

#[tokio::test]
async fn a_refusal_strands_no_readiness() {
    let inner = tower::limit::ConcurrencyLimit::new(echo(), 1);
    let mut service = layer(tokens(0)).layer(inner.clone());
    assert_eq!(code(service.ready().await.expect("ready").call(ASK).await), Some(Refusal::BudgetSpent));
    let mut other = inner;
    assert!(futures_util::FutureExt::now_or_never(other.ready()).is_some(), "the only permit came back");
}

#[tokio::test]
async fn readiness_is_the_inner_services() {
    let (mut service, mut handle) = mock::spawn_with::<Ask, Ask, _, _>(|mock| layer(Budget::off()).layer(mock));
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    let call = service.call(ASK);
    let (request, answer) = handle.next_request().await.expect("it was sent");
    answer.send_response(request);
    assert!(call.await.is_ok());
}

#[tokio::test]
async fn an_impossible_configuration_refuses_every_call_until_it_is_replaced() {
    let bad = tokens(1_000).soft_percent(101);
    let layer = layer(bad.clone());
    let service = layer.layer(echo());
    assert_eq!(code(service.clone().oneshot(ASK).await), Some(Refusal::Misconfigured));
    assert!(self::layer(bad.clone()).dry_run().layer(echo()).oneshot(ASK).await.is_ok());
    assert_eq!(layer.handle().update(bad).expect_err("invalid").field(), "soft_percent");
    layer.handle().update(tokens(1_000)).expect("valid");
    assert!(service.oneshot(ASK).await.is_ok());
}

#[tokio::test]
async fn a_dry_run_counts_and_reports_and_lets_everything_pass() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let layer = layer(tokens(120)).dry_run().listener(move |event: &Event<'_>| {
        if let Event::WouldRefuse(rejected) = event {
            heard.lock().expect("no panic").push(rejected.code());
        }
    });
    let service = layer.layer(echo());
    for _ in 0..4 {
        assert!(service.clone().oneshot(ASK).await.is_ok());
    }
    assert_eq!((spent(&layer.handle()), reserved(&layer.handle())), (200, 0));
    assert_eq!(*told.lock().expect("no panic"), [Refusal::BudgetSpent; 3]);
}
