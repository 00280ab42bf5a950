//! The soft stop, and other signals.

use super::*;

/// What was signalled, and by what.
type Told = Arc<Mutex<Vec<(SignalKind, Level)>>>;

fn told<C, A, E>(layer: TokenBudgetLayer<C, A, E>) -> (TokenBudgetLayer<C, A, E>, Told) {
    let told = Told::default();
    let heard = told.clone();
    let layer = layer.listener(move |event: &Event<'_>| {
        if let Event::Budget(signal) = event {
            heard.lock().expect("no panic").push((signal.kind, signal.level));
        }
    });
    (layer, told)
}

fn finishes(ask: &Ask, amendment: &Amendment) -> Option<Ask> {
    let Amendment::FinishUp(FinishUp { text, max_output_tokens, .. }) = amendment else { return None };
    assert!(text.contains(&format!("about {max_output_tokens} tokens are left")), "{text}");
    Some(Ask { max: *max_output_tokens, uses: Some(*max_output_tokens), has_tools: false, ..*ask })
}

#[tokio::test]
async fn from_eighty_percent_on_requests_ask_for_a_final_answer_that_can_be_paid() {
    let (layer, told) = told(layer(tokens(1_000)).amend(amend_fn(finishes)));
    let inner = echo();
    let service = layer.layer(inner.clone());
    let big = Ask { max: 400, uses: Some(400), ..ASK };
    service.clone().oneshot(big).await.expect("400 spent");
    service.clone().oneshot(big).await.expect("800 spent");
    assert!(inner.take_requests().iter().all(|ask| ask.has_tools) && told.lock().expect("no panic").is_empty());

    service.clone().oneshot(big).await.expect("a final answer");
    let [last] = inner.take_requests()[..] else { panic!("one request") };
    // 1,000 less 800 spent, less what asking for it may add.
    assert_eq!((last.has_tools, last.max), (false, 72));
    assert_eq!(*told.lock().expect("no panic"), [(SignalKind::SoftStop, Level::Run)]);
    let balance = layer.handle().run(&run()).expect("an account");
    assert!(balance.finishing && balance.spent.tokens <= 1_000 && balance.reserved.tokens == 0);

    // There is not enough left for another, and no further call starts.
    assert_eq!(code(service.clone().oneshot(big).await), Some(Refusal::BudgetSpent));
    assert_eq!(told.lock().expect("no panic").len(), 1, "once");
    layer.handle().grant(Level::Run, &run(), Amount::tokens(0, 2_000));
    service.oneshot(big).await.expect("granted");
    assert!(inner.take_requests()[0].has_tools);
}

#[tokio::test]
async fn a_call_that_would_use_what_is_kept_back_becomes_the_final_one() {
    let layer = layer(tokens(1_000)).amend(amend_fn(finishes));
    let inner = echo();
    let service = layer.layer(inner.clone());
    service.clone().oneshot(Ask { max: 901, ..ASK }).await.expect("a final answer");
    assert_eq!(inner.take_requests()[0].max, 872);
    // 1,000 less what asking again would add, and the least answer.
    let small = Ask { run: "small", max: 1_000 - 128 - 64, ..ASK };
    service.oneshot(small).await.expect("all but what is kept back");
    assert_eq!(inner.take_requests(), [small]);
}

#[tokio::test]
async fn what_could_be_the_last_request_is_not_sent_with_its_tools_when_there_is_no_room_for_that() {
    let layer = layer(tokens(1_000)).amend(amend_fn(finishes));
    let inner = echo();
    let service = layer.layer(inner.clone());
    service.clone().oneshot(Ask { uses: Some(850), ..ASK }).await.expect("an answer");
    // It would fit as it is.
    assert_eq!(code(service.oneshot(ASK).await), Some(Refusal::BudgetSpent));
    assert_eq!(inner.calls(), 1);
}

#[tokio::test]
async fn reserved_counts_as_spent_for_the_soft_stop() {
    let (layer, told) = told(layer(tokens(1_000)).amend(amend_fn(finishes)));
    let mut service = layer.layer(Scripted::<Ask, Ask>::new([Step::stall(), Step::answer(ASK)]));
    let running = service.ready().await.expect("ready").call(Ask { max: 800, ..ASK });
    service.ready().await.expect("ready").call(ASK).await.expect("a final answer");
    assert_eq!(told.lock().expect("no panic").len(), 1);
    drop(running);
}

#[tokio::test]
async fn a_run_told_to_finish_for_its_tenants_sake_stays_told() {
    let budget = Budget::default().tenant(Limits::default().tokens(1_000)).least_answer(64);
    let (layer, told) = told(layer(budget));
    let layer = layer.amend(amend_fn(finishes));
    let inner = echo();
    let service = layer.layer(inner.clone());
    service.clone().oneshot(Ask { run: "1", uses: Some(800), ..ASK }).await.expect("an answer");
    service.clone().oneshot(Ask { run: "2", ..ASK }).await.expect("a final answer");
    layer.handle().grant(Level::Tenant, &run(), Amount::tokens(0, 10_000));
    inner.take_requests();
    service.clone().oneshot(Ask { run: "2", ..ASK }).await.expect("another final answer");
    service.oneshot(Ask { run: "3", ..ASK }).await.expect("an answer");
    let tools: Vec<bool> = inner.take_requests().iter().map(|ask| ask.has_tools).collect();
    assert_eq!(tools, [false, true]);
    let stop = SignalKind::SoftStop;
    assert_eq!(*told.lock().expect("no panic"), [(stop, Level::Tenant), (stop, Level::Run)], "each once");
}

#[tokio::test]
async fn a_request_that_cannot_be_changed_is_sent_with_the_signal_until_nothing_is_left() {
    let names = classify_fn(|_: &Request<String>| run().estimate(0)).answers(Auto);
    let layer = TokenBudgetLayer::new(tokens(2_100)).classifier(names);
    let signals = Arc::new(Mutex::new(Vec::new()));
    let seen = signals.clone();
    let service = layer.layer(service_fn(move |request: Request<String>| {
        seen.lock().expect("no panic").push(request.extensions().get::<Signal>().cloned());
        async { Ok::<_, BoxError>(Response::new(String::new())) }
    }));
    for _ in 0..2 {
        service.clone().oneshot(Request::new(String::new())).await.expect("an answer");
    }
    assert_eq!(code(service.oneshot(Request::new(String::new())).await), Some(Refusal::BudgetSpent));
    let signals = signals.lock().expect("no panic");
    let [None, Some(signal)] = &signals[..] else { panic!("{signals:?}") };
    assert_eq!((signal.kind, signal.balance.spent.tokens), (SignalKind::SoftStop, 1_024));
    assert_eq!(signal.to_string(), "soft_stop of the budget of run tenant=t run=r: 1024 tokens spent");
}

#[tokio::test]
async fn after_the_last_tool_call_the_model_is_told_to_finish() {
    let handle = BudgetHandle::new(Budget::starter());
    let inner = echo();
    let model = layer_of(&handle).amend(amend_fn(finishes)).layer(inner.clone());
    let tools = layer_of(&handle).counts_steps().layer(echo());
    for _ in 0..8 {
        model.clone().oneshot(ASK).await.expect("an answer");
        tools.clone().oneshot(Ask { uses: None, ..ASK }).await.expect("a tool");
    }
    assert!(inner.take_requests().iter().all(|ask| ask.has_tools));
    model.oneshot(ASK).await.expect("the final answer");
    assert!(!inner.take_requests()[0].has_tools);
}

#[tokio::test]
async fn tokens_without_progress_are_a_signal_of_their_own() {
    let (layer, told) = told(layer(Budget::off().no_progress_tokens(100)));
    let service = layer.layer(echo());
    let calls = async |count: u32| {
        for _ in 0..count {
            service.clone().oneshot(ASK).await.expect("an answer");
        }
    };
    calls(1).await;
    assert!(told.lock().expect("no panic").is_empty());
    calls(3).await;
    assert_eq!(*told.lock().expect("no panic"), [(SignalKind::NoProgress, Level::Run)], "once");
    let handle = layer.handle();
    assert_eq!(handle.run(&run()).map(|run| run.since_progress), Some(200));
    handle.progressed(&run());
    assert_eq!(handle.run(&run()).map(|run| (run.since_progress, run.spent.tokens)), Some((0, 200)));
    calls(2).await;
    assert_eq!(told.lock().expect("no panic").len(), 2);
}
