//! Whose accounts a call spends from.

use super::*;

#[tokio::test]
async fn clones_and_services_of_one_handle_share_and_runs_do_not() {
    let layer = layer(tokens(120));
    let (one, other) = (layer.layer(echo()), layer.clone().layer(echo()));
    one.oneshot(ASK).await.expect("room for it");
    assert_eq!(code(other.clone().oneshot(ASK).await), Some(Refusal::BudgetSpent));
    assert!(other.clone().oneshot(Ask { run: "another", ..ASK }).await.is_ok());
    assert!(other.oneshot(Ask { tenant: "another", ..ASK }).await.is_ok());
}

#[tokio::test]
async fn a_run_spends_its_agents_and_its_tenants_too() {
    let agent = Limits::default().tokens(200);
    let layer = layer(Budget::default().agent(agent).tenant(Limits::default().tokens(260)));
    let service = layer.layer(echo());
    for run in ["1", "2", "3"] {
        service.clone().oneshot(Ask { run, ..ASK }).await.expect("room for it");
    }
    let refused = service.clone().oneshot(Ask { run: "4", ..ASK }).await.expect_err("of its agent class");
    assert_eq!(refused.rejected().map(Rejected::scope), Some(Scope::AGENT));
    service.clone().oneshot(Ask { agent: "b", ..ASK }).await.expect("another class");
    let refused = service.clone().oneshot(Ask { agent: "c", ..ASK }).await.expect_err("of its tenant");
    assert_eq!(refused.rejected().map(Rejected::scope), Some(Scope::TENANT));
    assert!(service.oneshot(Ask { tenant: "u", ..ASK }).await.is_ok());
    let handle = layer.handle();
    let (agent, tenant) = (handle.agent(&run()).expect("an account"), handle.tenant(&run()).expect("an account"));
    assert_eq!((agent.spent.tokens, tenant.spent.tokens, tenant.reserved.tokens), (150, 200, 0));
}

#[tokio::test]
async fn a_refusal_reserves_nothing_anywhere() {
    let layer = layer(Budget::default().tenant(Limits::default().tokens(10)));
    assert!(layer.layer(echo()).oneshot(ASK).await.is_err());
    let handle = layer.handle();
    for balance in [handle.run(&run()), handle.agent(&run()), handle.tenant(&run())] {
        let balance = balance.expect("an account");
        assert_eq!((balance.spent, balance.reserved), (Amount::default(), Amount::default()));
    }
}

#[tokio::test]
async fn what_a_sub_agent_spends_its_parent_spends_too() {
    let handle = BudgetHandle::new(tokens(300));
    let (parent, child) = (run(), of(&Ask { run: "r.1", ..ASK }));
    handle.sub(&parent, &child, Limits::default().tokens(160)).expect("a new run");
    let service = layer_of(&handle).layer(echo());
    let sub = Ask { run: "r.1", ..ASK };
    service.clone().oneshot(sub).await.expect("room for it");
    service.clone().oneshot(sub).await.expect("room for it");
    assert_eq!(code(service.clone().oneshot(sub).await), Some(Refusal::BudgetSpent));
    assert_eq!((spent(&handle), handle.tenant(&parent).map(|tenant| tenant.spent.tokens)), (100, Some(100)));
    // The parent spends the rest of its own; then its child has nothing either.
    for _ in 0..3 {
        service.clone().oneshot(ASK).await.expect("room for it");
    }
    handle.grant(Level::Run, &child, Amount::tokens(0, 1_000));
    assert_eq!(code(service.clone().oneshot(sub).await), Some(Refusal::BudgetSpent));
    assert_eq!(handle.close(&child).map(|child| child.spent.tokens), Some(100));
    assert_eq!(spent(&handle), 250, "the parent keeps what its child spent");
}

#[tokio::test]
async fn a_run_is_put_under_a_parent_before_it_begins_and_only_once() {
    let handle = BudgetHandle::new(Budget::off());
    let service = layer_of(&handle).layer(echo());
    service.oneshot(ASK).await.expect("an answer");
    let named = |run| of(&Ask { run, ..ASK });
    assert_eq!(handle.sub(&named("p"), &run(), Limits::default()), Err(SubError::Begun));
    assert_eq!(handle.sub(&run(), &named("c"), Limits::default()), Ok(()));
    assert_eq!(handle.sub(&run(), &named("c"), Limits::default().tokens(5)), Ok(()), "with other limits");
    assert_eq!(handle.sub(&named("p"), &named("c"), Limits::default()), Err(SubError::Begun));
    assert_eq!(handle.sub(&named("c"), &run(), Limits::default()), Err(SubError::Begun), "no circles");
    assert_eq!(handle.sub(&run(), &run(), Limits::default()), Err(SubError::Begun));
    let elsewhere = of(&Ask { tenant: "u", run: "c", ..ASK });
    assert_eq!(handle.sub(&run(), &elsewhere, Limits::default()), Err(SubError::OtherTenant));
    let names: Vec<String> = (0..20).map(|depth| format!("deep {depth}")).collect();
    let made: Vec<_> = names
        .windows(2)
        .map(|pair| handle.sub(&run().run(&pair[0]), &run().run(&pair[1]), Limits::default()))
        .collect();
    assert_eq!(made.iter().position(Result::is_err), Some(15));
    assert_eq!(made[15], Err(SubError::TooDeep));
}

#[tokio::test]
async fn a_closed_run_is_forgotten_and_calls_in_progress_are_still_booked_above() {
    let layer = layer(tokens(120));
    let handle = layer.handle();
    let mut service = layer.layer(Scripted::by(|ask: &Ask| Step::answer(*ask).after(Duration::from_millis(1))));
    let running = service.ready().await.expect("ready").call(ASK);
    assert_eq!(handle.close(&run()).map(|run| run.reserved.tokens), Some(100));
    assert_eq!((handle.run(&run()), handle.close(&run())), (None, None));
    running.await.expect("an answer");
    assert_eq!(handle.tenant(&run()).map(|tenant| (tenant.spent.tokens, tenant.reserved.tokens)), Some((50, 0)));
    // The service remembers the accounts of the call before, but not a closed one.
    assert!(service.ready().await.expect("ready").call(ASK).await.is_ok());
    assert_eq!(spent(&handle), 50);
}

#[tokio::test]
async fn model_and_tools_spend_from_one_handle() {
    let handle = BudgetHandle::new(Budget::default().run(Limits::default().tokens(1_000).steps(8)));
    let model = layer_of(&handle).layer(echo());
    let tools = layer_of(&handle).counts_steps().layer(echo());
    for _ in 0..8 {
        tools.clone().oneshot(Ask { uses: None, ..ASK }).await.expect("one of eight");
    }
    assert_eq!(code(tools.clone().oneshot(ASK).await), Some(Refusal::StepsSpent));
    let balance = handle.run(&run()).expect("an account");
    assert_eq!((balance.spent, balance.uncertain), (Amount::default().steps(8), Amount::default()));
    model.clone().oneshot(Ask { uses: Some(1_000), ..ASK }).await.expect("the model may still answer");
    let other = Ask { run: "other", ..ASK };
    tools.clone().oneshot(other).await.expect("its own steps");
    model.oneshot(Ask { uses: Some(1_000), ..other }).await.expect("its own tokens");
    assert_eq!(code(tools.oneshot(other).await), Some(Refusal::BudgetSpent), "no tool is called after that");
}

#[tokio::test]
async fn a_tool_call_that_was_not_sent_is_no_step() {
    let layer = layer(Budget::off()).counts_steps();
    let refused = Error::from(Rejected::new("inner", Refusal::Open, Scope::TARGET, &Call::new()));
    let service =
        layer.layer(Scripted::<Ask, Ask>::new([Step::fail(refused), Step::fail(Failure::new(Reason::NotFound))]));
    assert!(service.clone().oneshot(ASK).await.is_err());
    assert_eq!(layer.handle().run(&run()).map(|run| run.spent.steps), Some(0));
    assert!(service.oneshot(ASK).await.is_err());
    assert_eq!(layer.handle().run(&run()).map(|run| run.spent.steps), Some(1));
}

#[tokio::test]
async fn another_budget_holds_for_runs_that_have_begun() {
    let layer = layer(tokens(120));
    let (handle, mut service) = (layer.handle(), layer.layer(echo()));
    service.ready().await.expect("ready").call(ASK).await.expect("room for it");
    assert_eq!(code(service.ready().await.expect("ready").call(ASK).await), Some(Refusal::BudgetSpent));
    handle.update(tokens(1_000)).expect("valid");
    assert!(service.ready().await.expect("ready").call(ASK).await.is_ok());
    assert_eq!((spent(&handle), handle.budget().run.tokens), (100, Some(1_000)));
}

#[tokio::test(start_paused = true)]
async fn runs_without_number_are_forgotten_and_their_tenant_keeps_what_they_spent() {
    let handle = BudgetHandle::new(Budget::off());
    let names = classify_fn(|n: &u32| Call::to("llm").tenant("t").run(&format!("{n}")))
        .judge(|_: &u32| Verdict::completed().with_usage(used(1)));
    let layer = TokenBudgetLayer::with_handle(&handle).classifier(names);
    let mut service = layer.layer(service_fn(|n: u32| async move { Ok::<_, BoxError>(n) }));
    let many = 80_000;
    for n in 0..many {
        service.ready().await.expect("ready").call(n).await.expect("an answer");
        match n {
            60_000 => advance(Duration::from_secs(7_200)).await,
            60_001.. => advance(Duration::from_millis(1)).await,
            _ => {}
        }
    }
    let tenant = handle.tenant(&Call::new().tenant("t")).expect("an account");
    assert_eq!((tenant.spent.tokens, tenant.reserved.tokens), (u64::from(many), 0));
    assert!(handle.all(Level::Run).len() <= 65_537, "{}", handle.all(Level::Run).len());
    let last = Call::new().tenant("t").run(&(many - 1).to_string());
    assert_eq!(handle.run(&last).map(|run| run.spent.tokens), Some(1), "there was room for it");
}
