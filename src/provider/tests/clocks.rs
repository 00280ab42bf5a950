//! How long is waited, to the millisecond.

use tokio::time::{Instant, timeout};

use super::*;

fn near(elapsed: Duration, expected: Duration) {
    // The timer wheel is exact to a millisecond.
    assert!(elapsed >= expected && elapsed <= expected + Duration::from_millis(2), "{elapsed:?} for {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_held_for_a_second_after_its_first_event() {
    let start = Instant::now();
    let body = BodyScript::new().pause(SECOND * 5).data(ROLE).pause(SECOND * 3).data(TEXT).stall();
    let mut response = ask(sse(body)).await.expect("live");
    near(start.elapsed(), SECOND * 6);
    assert_eq!(frame(&mut response).await, ROLE);
    assert_eq!(frame(&mut response).await, TEXT);
    near(start.elapsed(), SECOND * 8);
}

#[tokio::test(start_paused = true)]
async fn more_events_do_not_hold_it_any_longer() {
    let start = Instant::now();
    let part = Duration::from_millis(300);
    let body = (0..8).fold(BodyScript::new(), |body, _| body.data(ROLE).pause(part)).stall();
    let mut response = ask(sse(body)).await.expect("live");
    near(start.elapsed(), SECOND);
    assert_eq!(frame(&mut response).await, ROLE.repeat(4));
}

#[tokio::test(start_paused = true)]
async fn comments_are_no_events() {
    let start = Instant::now();
    let body = pieces(&[PING]).pause(SECOND * 30).data(PING).pause(SECOND * 30).data(ROLE).stall();
    ask(sse(body)).await.expect("live");
    near(start.elapsed(), SECOND * 61);
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_has_its_own_limit_from_the_call_on() {
    let config = config().first_byte(SECOND * 30).idle(SECOND * 5);
    let provider = |step| ProviderLayer::new(config.clone()).layer(Scripted::new([step]));
    let start = Instant::now();
    let error = provider(Step::<Response<BodyScript>>::stall()).oneshot(chat()).await.expect_err("silence");
    assert_eq!(reason(&error), Some(Reason::Timeout));
    near(start.elapsed(), SECOND * 30);

    // The head is no byte of the answer.
    let start = Instant::now();
    let silent = Step::answer(sse(BodyScript::new().stall())).after(SECOND * 10);
    let error = provider(silent).oneshot(chat()).await.expect_err("silence");
    assert_eq!(reason(&error), Some(Reason::Timeout));
    near(start.elapsed(), SECOND * 30);

    let start = Instant::now();
    let late = BodyScript::new().pause(SECOND * 20).data(TEXT).stall();
    provider(Step::answer(sse(late))).oneshot(chat()).await.expect("in time");
    near(start.elapsed(), SECOND * 20);
}

#[tokio::test(start_paused = true)]
async fn silence_within_the_head_is_a_timeout() {
    let start = Instant::now();
    let config = config().idle(SECOND * 5).max_hold(SECOND * 60);
    let error = send(config, chat(), sse(pieces(&[ROLE]).stall())).await.expect_err("silence");
    assert_eq!(reason(&error), Some(Reason::Timeout));
    near(start.elapsed(), SECOND * 5);
}

#[tokio::test(start_paused = true)]
async fn silence_after_the_head_is_a_timeout_whatever_released_it() {
    for (body, silent_since) in [
        // Released by output, after the clock had been set for the release.
        (pieces(&[ROLE]).pause(SECOND / 2).data(TEXT).stall(), SECOND / 2),
        (pieces(&[TEXT]).stall(), Duration::ZERO),
        // Released by the clock: the silence began before.
        (pieces(&[ROLE]).stall(), Duration::ZERO),
        // Pings are life.
        (pieces(&[TEXT]).pause(SECOND * 100).data(PING).pause(SECOND * 100).data(PING).stall(), SECOND * 200),
    ] {
        let start = Instant::now();
        let (response, told) = live(body).await;
        let error = read(response.into_body()).await.1.expect_err("silence");
        assert_eq!(reason(&error), Some(Reason::Timeout));
        near(start.elapsed(), silent_since + SECOND * 120);
        assert_eq!(told.take(), ["timeout"]);
    }
}

#[tokio::test(start_paused = true)]
async fn zero_waits_for_ever_and_so_does_what_no_clock_can_hold() {
    let hour = SECOND * 3_600;
    for limit in [Duration::ZERO, Duration::MAX, Duration::from_secs(u64::from(u32::MAX))] {
        let config = config().first_byte(limit).idle(limit);
        let body = BodyScript::new().pause(hour * 500).data(TEXT).pause(hour * 500).data(FINISH).data(DONE);
        let provider = ProviderLayer::new(config).layer(Scripted::new([Step::answer(sse(body)).after(hour)]));
        let response = provider.oneshot(chat()).await.expect("live");
        let (bytes, end) = read(response.into_body()).await;
        assert!(end.is_ok(), "{limit:?}");
        assert_eq!(bytes, [TEXT, FINISH, DONE].concat());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_without_end_holds_until_there_is_output() {
    let config = config().max_hold(Duration::MAX);
    let body = pieces(&[ROLE]).pause(SECOND * 100).data(TEXT).stall();
    let start = Instant::now();
    send(config.clone(), chat(), sse(body)).await.expect("live");
    near(start.elapsed(), SECOND * 100);
    let kept_open = sse(pieces(&[ERROR]).stall());
    let answer = timeout(SECOND * 500, send(config, chat(), kept_open)).await;
    assert_eq!(known(&answer.expect("no hang").expect("judged")), Some(Reason::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn no_hold_at_all_hands_on_what_there_is() {
    let start = Instant::now();
    let config = config().max_hold(Duration::ZERO);
    let mut response = send(config, chat(), sse(pieces(&[ROLE]).pause(SECOND * 9).data(TEXT))).await.expect("live");
    near(start.elapsed(), Duration::ZERO);
    assert_eq!(frame(&mut response).await, ROLE);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_its_time_is_no_silence_of_the_other_side() {
    let (mut response, _) = live(pieces(&[TEXT]).pause(SECOND * 100).data(FINISH).data(DONE)).await;
    tokio::time::sleep(SECOND * 1_000).await;
    assert_eq!(frame(&mut response).await, TEXT);
    tokio::time::sleep(SECOND * 1_000).await;
    assert_eq!(frame(&mut response).await, FINISH);
}

#[tokio::test(start_paused = true)]
async fn whitespace_that_keeps_a_json_answer_alive_is_no_answer_yet() {
    let body = (0..40).fold(BodyScript::new(), |body, _| body.data("\n").pause(SECOND * 60)).data(WHOLE);
    let response = ask(answer(200, "application/json", body)).await.expect("an answer");
    assert_eq!(known(&response), Some(Reason::Completed));
    assert_eq!(read(response.into_body()).await.0, format!("{}{WHOLE}", "\n".repeat(40)));
}
