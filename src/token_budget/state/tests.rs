use super::*;
use crate::token_budget::price::Price;

pub(super) const RULES: Rules = Rules { soft_percent: 80, kept_back_percent: 10, least_answer: 10 };

pub(super) fn need(input: u64, output: u64) -> Need {
    Need { input, output, steps: 0, pricing: Pricing::Free }
}

fn state(limits: Limits) -> (State, Instant) {
    let now = Instant::now();
    (State::new(limits, now), now)
}

fn tokens(limit: u64) -> (State, Instant) {
    state(Limits::default().tokens(limit))
}

fn ask(state: &State, ask: Ask, mut need: Need, now: Instant) -> Result<(), Denied> {
    state.admit(ask, &mut need, now, &RULES)
}

fn spend(state: &mut State, used: u64, now: Instant) {
    state.reserve(&Amount::tokens(used, 0), now);
    state.settle(&Amount::tokens(used, 0), &Settlement::Exact(Amount::tokens(used, 0)));
}

#[test]
fn what_is_reserved_counts_until_it_is_settled() {
    let (mut state, now) = tokens(1_000);
    let first = need(100, 500).amount();
    state.reserve(&first, now);
    assert_eq!(ask(&state, Ask::Whole, need(0, 401), now), Err(Denied::Spent(Dimension::Tokens)));
    assert_eq!(ask(&state, Ask::Whole, need(0, 400), now), Ok(()));
    state.settle(&first, &Settlement::Exact(Amount::tokens(90, 10)));
    assert_eq!(state.balance(now).spent, Amount::tokens(90, 10));
    assert_eq!(state.balance(now).reserved, Amount::default());
    assert_eq!(ask(&state, Ask::Whole, need(0, 900), now), Ok(()));
}

#[test]
fn what_nobody_stated_is_spent_and_marked_and_what_was_not_sent_is_not() {
    let (mut state, now) = tokens(1_000);
    let amount = need(10, 20).amount();
    state.reserve(&amount, now);
    state.settle(&amount, &Settlement::AtLeast(amount));
    state.reserve(&amount, now);
    state.settle(&amount, &Settlement::NotSent);
    let balance = state.balance(now);
    assert_eq!((balance.spent, balance.uncertain, balance.reserved), (amount, amount, Amount::default()));
}

#[test]
fn a_debt_stays_and_a_grant_pays_it_first() {
    let (mut state, now) = tokens(100);
    state.reserve(&Amount::tokens(50, 0), now);
    state.settle(&Amount::tokens(50, 0), &Settlement::Exact(Amount::tokens(250, 0)));
    assert_eq!(state.balance(now).remaining(Dimension::Tokens), Some(-150));
    state.grant(&Amount::tokens(150, 0));
    assert_eq!(ask(&state, Ask::Final, need(0, 1), now), Err(Denied::Spent(Dimension::Tokens)));
    state.grant(&Amount::tokens(1, 0));
    assert_eq!(ask(&state, Ask::Final, need(0, 1), now), Ok(()));
}

#[test]
fn at_eighty_percent_of_spent_and_reserved_only_a_final_answer_is_let_through() {
    let (mut state, now) = tokens(1_000);
    spend(&mut state, 500, now);
    state.reserve(&Amount::tokens(299, 0), now);
    assert_eq!(ask(&state, Ask::Work, need(1, 50), now), Ok(()));
    state.reserve(&Amount::tokens(1, 0), now);
    assert_eq!(ask(&state, Ask::Work, need(1, 1), now), Err(Denied::Finish));
    assert_eq!(ask(&state, Ask::Final, need(1, 1), now), Ok(()));
    assert!(state.tell_finish() && !state.tell_finish(), "told once");
}

#[test]
fn work_leaves_what_a_final_answer_needs() {
    let (state, now) = tokens(1_000);
    // The same once more, with what asking for it adds, and ten tokens for an answer.
    assert_eq!(ask(&state, Ask::Work, need(0, 862), now), Ok(()));
    assert_eq!(ask(&state, Ask::Work, need(0, 863), now), Err(Denied::Finish));
    assert_eq!(ask(&state, Ask::Work, need(300, 262), now), Ok(()));
    assert_eq!(ask(&state, Ask::Work, need(300, 263), now), Err(Denied::Finish));
    // A tenth, where that is more.
    let (large, now) = tokens(10_000);
    assert_eq!(ask(&large, Ask::Work, need(0, 9_000), now), Ok(()));
    assert_eq!(ask(&large, Ask::Work, need(0, 9_001), now), Err(Denied::Finish));
}

#[test]
fn a_final_answer_is_as_short_as_it_must_be_and_not_asked_for_below_that() {
    let (mut state, now) = tokens(1_000);
    spend(&mut state, 900, now);
    let mut last = need(40, 500);
    assert_eq!((state.admit(Ask::Final, &mut last, now, &RULES), last.output), (Ok(()), 60));
    assert_eq!(ask(&state, Ask::Final, need(90, 500), now), Ok(()));
    assert_eq!(ask(&state, Ask::Final, need(91, 500), now), Err(Denied::Spent(Dimension::Tokens)));
    let (money, now) = self::state(Limits::default().nano_dollars(1_000));
    let price = Pricing::Known(Price::new(1_000_000, 3_000_000));
    let mut last = Need { pricing: price, ..need(100, 900) };
    assert_eq!((money.admit(Ask::Final, &mut last, now, &RULES), last.output), (Ok(()), 300));
    assert_eq!(last.amount().nano_dollars, 1_000);
}

#[test]
fn a_run_whose_requests_are_large_beside_its_budget_still_has_its_last_answer() {
    for input in (100..20_000).step_by(700) {
        let (mut state, now) = tokens(50_000);
        let rules = Rules { least_answer: 256, ..RULES };
        let mut calls = 0;
        while state.admit(Ask::Work, &mut need(input, 1_000), now, &rules).is_ok() {
            state.reserve(&Amount::tokens(input, 1_000), now);
            state.settle(&Amount::tokens(input, 1_000), &Settlement::Exact(Amount::tokens(input, 1_000)));
            calls += 1;
        }
        let mut last = need(input, 1_000).made_last();
        assert_eq!(state.admit(Ask::Final, &mut last, now, &rules), Ok(()), "{calls} calls of {input}");
        assert!(last.output >= 256 && calls > 0);
    }
}

#[test]
fn a_run_that_was_told_to_finish_does_so_until_it_is_granted_more() {
    let (mut state, now) = tokens(1_000);
    state.finish();
    assert_eq!(ask(&state, Ask::Work, need(0, 1), now), Err(Denied::Finish));
    state.grant(&Amount::default());
    assert_eq!(ask(&state, Ask::Work, need(0, 1), now), Ok(()));
}

#[test]
fn zero_is_zero_and_not_unlimited() {
    for limits in [
        Limits::default().tokens(0),
        Limits::default().input_tokens(0),
        Limits::default().output_tokens(0),
        Limits::default().nano_dollars(0),
        Limits::default().wall_time(Duration::ZERO),
    ] {
        let (state, now) = state(limits);
        for need in [need(0, 0), need(1, 1), Need::STEP] {
            for how in [Ask::Work, Ask::Final, Ask::Whole] {
                assert!(matches!(ask(&state, how, need, now), Err(Denied::Spent(_))), "{limits:?} {need:?}");
            }
        }
    }
    let (none, now) = state(Limits::default());
    assert_eq!(ask(&none, Ask::Work, need(u64::MAX, u64::MAX), now), Ok(()));
}

#[test]
fn nothing_overflows() {
    let max = Limits { tokens: Some(u64::MAX), nano_dollars: Some(u64::MAX), ..Limits::default() };
    let (mut state, now) = state(max);
    let price = Pricing::Known(Price::new(u64::MAX, u64::MAX));
    let all = Need { input: u64::MAX, output: u64::MAX, steps: u64::MAX, pricing: price }.amount();
    for _ in 0..3 {
        state.reserve(&all, now);
    }
    assert!(matches!(ask(&state, Ask::Work, need(1, 1), now), Err(Denied::Finish)));
    for _ in 0..2 {
        state.settle(&all, &Settlement::AtLeast(all));
    }
    state.settle(&all, &Settlement::NotSent);
    assert_eq!(state.balance(now).reserved, Amount::default());
    assert_eq!(state.balance(now).spent.tokens, u64::MAX);
    state.grant(&all);
    assert!(state.balance(now).remaining(Dimension::Tokens).is_some());
    assert_eq!(ask(&state, Ask::Whole, need(1, 1), now), Err(Denied::Spent(Dimension::Tokens)));
}

#[test]
fn all_eight_steps_are_steps_and_the_ninth_is_refused() {
    let (mut state, now) = state(Limits::default().steps(8));
    for _ in 0..8 {
        assert_eq!(ask(&state, Ask::Whole, Need::STEP, now), Ok(()));
        state.reserve(&Need::STEP.amount(), now);
        state.settle(&Need::STEP.amount(), &Settlement::Exact(Need::STEP.amount()));
    }
    assert_eq!(ask(&state, Ask::Whole, Need::STEP, now), Err(Denied::Spent(Dimension::Steps)));
    // The model may still say what came of it.
    assert_eq!(ask(&state, Ask::Work, need(1, 1), now), Err(Denied::Finish));
    assert_eq!(ask(&state, Ask::Final, need(1, 1), now), Ok(()));
}

#[test]
fn no_tool_is_called_once_the_tokens_are_spent() {
    let (mut state, now) = tokens(100);
    spend(&mut state, 99, now);
    assert_eq!(ask(&state, Ask::Whole, Need::STEP, now), Ok(()));
    spend(&mut state, 1, now);
    assert_eq!(ask(&state, Ask::Whole, Need::STEP, now), Err(Denied::Spent(Dimension::Tokens)));
}

#[test]
fn time_runs_out_softly_then_hard_and_a_clock_that_goes_back_does_no_harm() {
    let (state, now) = state(Limits::default().wall_time(Duration::from_secs(100)));
    let at = |seconds| now + Duration::from_secs(seconds);
    assert_eq!(ask(&state, Ask::Work, need(1, 1), at(79)), Ok(()));
    assert_eq!(ask(&state, Ask::Work, need(1, 1), at(80)), Err(Denied::Finish));
    assert_eq!(ask(&state, Ask::Final, need(1, 1), at(99)), Ok(()));
    assert_eq!(ask(&state, Ask::Final, need(1, 1), at(100)), Err(Denied::Spent(Dimension::WallTime)));
    assert_eq!(ask(&state, Ask::Whole, Need::STEP, at(1 << 32)), Err(Denied::Spent(Dimension::WallTime)));
    if let Some(before) = now.checked_sub(Duration::from_secs(1)) {
        assert_eq!(ask(&state, Ask::Work, need(1, 1), before), Ok(()));
    }
}

#[test]
fn an_unknown_price_is_refused_only_where_money_is_limited() {
    let unknown = Need { pricing: Pricing::Unknown, ..need(1, 1) };
    let (money, now) = state(Limits::default().nano_dollars(1_000));
    assert_eq!(ask(&money, Ask::Work, unknown, now), Err(Denied::Unpriced));
    assert_eq!(ask(&money, Ask::Work, need(1, 1), now), Ok(()));
    let (tokens, now) = tokens(1_000);
    assert_eq!(ask(&tokens, Ask::Work, unknown, now), Ok(()));
}

#[test]
fn tokens_without_progress_are_told_once_until_there_is_some() {
    let (mut state, now) = tokens(1_000);
    spend(&mut state, 99, now);
    assert!(!state.tell_no_progress(100));
    spend(&mut state, 1, now);
    assert!(state.tell_no_progress(100) && !state.tell_no_progress(100));
    state.progressed();
    spend(&mut state, 100, now);
    assert_eq!(state.balance(now).spent.tokens, 200);
    assert!(state.tell_no_progress(100));
}

#[test]
fn money_is_rounded_up_and_never_down() {
    let price = Price::new(1, 1);
    assert_eq!((price.at_most(1, 0), price.at_most(0, 0), price.at_most(1_000_000, 1)), (1, 0, 2));
    assert_eq!(Price::new(0, 0).affordable_output(0, 5), u64::MAX);
    assert_eq!(Price::new(u64::MAX, u64::MAX).at_most(u64::MAX, u64::MAX), u64::MAX);
}
