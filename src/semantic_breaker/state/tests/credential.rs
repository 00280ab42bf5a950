use super::*;

fn credential() -> Rig {
    Rig::new(Circuit::Credential)
}

#[test]
fn one_limit_gates_until_its_hint_and_then_is_simply_closed() {
    let mut rig = credential();
    let changes = rig.limited(Some(secs(42)));
    assert_eq!(changes.transition.expect("gated").to, State::Gated);
    rig.pass(secs(41));
    assert_eq!(rig.refused(READ), Refusal::Gated);
    rig.pass(secs(1));
    let (admit, changes) = rig.ask(WRITE);
    assert_eq!(admit, Admit::Pass);
    assert_eq!(changes.transition.map(|it| (it.to, it.cause)), Some((State::Closed, Signal::RateLimits)));
}

#[test]
fn without_hints_the_hold_doubles_until_a_success() {
    let mut rig = credential();
    for expected in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        rig.limited(None);
        assert_eq!(rig.until(), secs(expected));
        rig.pass(secs(expected));
        rig.passes(READ);
        rig.pass(MINUTE);
    }
    rig.end(READ, Verdict::completed());
    rig.limited(None);
    assert_eq!(rig.until(), secs(5));
}

#[test]
fn calls_sent_together_double_the_hold_once() {
    let mut rig = Rig::with(Circuit::Credential, {
        let row = RateLimits { count: 1_000, ..RateLimits::default() };
        TripCard::default().rate_limits(row)
    });
    let stamp = rig.epoch;
    let verdict = Verdict::new(Reason::RateLimited);
    for _ in 0..50 {
        rig.settle(Settled::new(stamp, READ, &verdict));
    }
    assert_eq!(rig.until(), secs(5));
}

#[test]
fn a_late_hint_lengthens_a_hold_and_never_shortens_it() {
    let mut rig = credential();
    let stamp = rig.epoch;
    rig.limited(Some(secs(30)));
    for (hint, expected) in [(10, 30), (50, 50)] {
        let verdict = Verdict::new(Reason::RateLimited).with_retry_at(rig.now + secs(hint));
        rig.settle(Settled::new(stamp, READ, &verdict));
        assert_eq!(rig.until(), secs(expected));
    }
    let verdict = Verdict::completed();
    rig.settle(Settled::new(stamp, READ, &verdict));
    assert_eq!(rig.refused(READ), Refusal::Gated);
}

#[test]
fn a_hint_that_has_passed_holds_nothing() {
    let mut rig = credential();
    rig.end(READ, Verdict::new(Reason::RateLimited).with_retry_at(rig.now));
    rig.passes(READ);
}

#[test]
fn three_in_sixty_seconds_pause_until_the_latest_hint() {
    let mut rig = credential();
    rig.limited(Some(secs(50)));
    let verdict = Verdict::new(Reason::RateLimited);
    rig.settle(Settled::new(0, READ, &verdict));
    rig.settle(Settled::new(0, READ, &verdict));
    assert_eq!(rig.until(), secs(50));
}

#[test]
fn three_in_sixty_seconds_without_a_hint_pause_for_a_minute() {
    let mut rig = credential();
    for wait in [5, 10] {
        rig.limited(None);
        rig.pass(secs(wait));
        rig.passes(READ);
    }
    rig.limited(None);
    assert_eq!(rig.until(), MINUTE);
}

#[test]
fn limits_from_before_a_pause_do_not_pause_again() {
    let mut rig = credential();
    let verdict = Verdict::new(Reason::RateLimited);
    for _ in 0..3 {
        rig.settle(Settled::new(0, READ, &verdict));
    }
    assert_eq!(rig.until(), MINUTE);
    rig.pass(secs(30));
    for _ in 0..100 {
        rig.settle(Settled::new(0, READ, &verdict));
    }
    assert_eq!(rig.until(), secs(30));
}

#[test]
fn late_hints_do_not_put_the_look_off() {
    let mut rig = credential();
    rig.limited(Some(60 * MINUTE));
    rig.pass(9 * MINUTE);
    let verdict = Verdict::new(Reason::RateLimited).with_retry_at(rig.now + 60 * MINUTE);
    rig.settle(Settled::new(0, READ, &verdict));
    rig.pass(MINUTE);
    rig.probe(READ);
}

#[test]
fn a_long_hint_lets_one_call_try_every_ten_minutes() {
    let mut rig = credential();
    rig.limited(Some(60 * MINUTE));
    for _ in 0..3 {
        rig.pass(10 * MINUTE - secs(1));
        assert_eq!(rig.refused(READ), Refusal::Gated);
        rig.pass(secs(1));
        let lease = rig.probe(WRITE);
        assert_eq!(rig.refused(READ), Refusal::Gated);
        rig.end_probe(lease, WRITE, Reason::RateLimited);
        assert_eq!(rig.refused(READ), Refusal::Gated);
    }
    rig.pass(10 * MINUTE);
    let lease = rig.probe(WRITE);
    rig.end_probe(lease, WRITE, Reason::ServerError);
    let lease = rig.probe(WRITE);
    rig.end_probe(lease, WRITE, Verdict::completed());
    rig.passes(WRITE);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn one_bad_credential_opens_and_a_write_may_show_that_it_works_again() {
    let mut rig = credential();
    rig.end(WRITE, Reason::QuotaExhausted);
    assert_eq!(rig.refused(READ), Refusal::CredentialOpen);
    assert_eq!(rig.until(), 10 * MINUTE);
    rig.pass(10 * MINUTE);
    let lease = rig.probe(WRITE);
    rig.end_probe(lease, WRITE, Reason::Unauthenticated);
    assert!(rig.until() > 20 * MINUTE);
    let wait = rig.until();
    rig.pass(wait);
    for _ in 0..4 {
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Recovering);
}

#[test]
fn a_limited_probe_is_held_and_half_open_goes_on_after_it() {
    let mut rig = credential();
    rig.end(WRITE, Reason::Unauthenticated);
    rig.pass(10 * MINUTE);
    let lease = rig.probe(WRITE);
    rig.end_probe(lease, WRITE, Verdict::new(Reason::RateLimited).with_retry_at(rig.now + MINUTE));
    assert_eq!(rig.state(), State::Gated);
    assert_eq!(rig.refused(WRITE), Refusal::Gated);
    rig.pass(MINUTE);
    rig.probe(WRITE);
}

#[test]
fn a_hint_that_a_probe_proved_wrong_does_not_come_back() {
    let mut rig = credential();
    rig.limited(Some(24 * 60 * MINUTE));
    rig.pass(10 * MINUTE);
    let lease = rig.probe(READ);
    rig.end_probe(lease, READ, Verdict::completed());
    for _ in 0..3 {
        rig.limited(None);
    }
    assert_eq!(rig.until(), MINUTE);
}
