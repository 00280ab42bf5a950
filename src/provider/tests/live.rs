//! Streams: when they are handed on, and how they end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stream_is_live_from_its_first_visible_output_on() {
    for first in [TEXT, THINK] {
        let (mut response, told) = live(pieces(&[ROLE, first]).stall()).await;
        assert_eq!(frame(&mut response).await, [ROLE, first].concat());
        assert_eq!(told.take(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_terminator_ends_the_answer_and_not_the_reader() {
    let (mut response, told) = live(pieces(&[TEXT, FINISH, USAGE, DONE]).stall()).await;
    for piece in [TEXT, FINISH, USAGE] {
        assert_eq!(frame(&mut response).await, piece);
        assert_eq!(told.take(), [""; 0]);
    }
    assert_eq!(frame(&mut response).await, DONE);
    assert_eq!(told.take(), ["completed"]);
    assert_eq!(reading(&response).expect("over").usage.and_then(|usage| usage.output_tokens), Some(4));
    drop(response);
    assert_eq!(told.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_end_after_its_finish_reason() {
    for end in [pieces(&[TEXT, FINISH]), pieces(&[TEXT, FINISH]).fail("reset"), pieces(&[TEXT, FINISH]).stall()] {
        let (response, told) = live(end).await;
        let (bytes, end) = read(response.into_body()).await;
        assert!(end.is_ok());
        assert_eq!(bytes, [TEXT, FINISH].concat());
        assert_eq!(told.take(), ["completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_breaks_after_the_terminator_broke_nothing() {
    let (response, told) = live(pieces(&[TEXT, FINISH, DONE]).fail("reset")).await;
    let (bytes, end) = read(response.into_body()).await;
    assert!(end.is_ok());
    assert_eq!((bytes, told.take()), ([TEXT, FINISH, DONE].concat().into(), vec!["completed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_cut_before_any_output_is_an_error_of_the_call() {
    for cut in [pieces(&[]), pieces(&[ROLE]), pieces(&[ROLE]).fail("reset"), pieces(&[ROLE, "data: {\"cho"])] {
        let error = ask(sse(cut)).await.expect_err("nothing to hand on");
        assert_eq!(reason(&error), Some(Reason::Cut));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_output_is_an_error_for_the_reader() {
    for (cut, bytes) in [
        (pieces(&[TEXT]), TEXT.to_owned()),
        (pieces(&[TEXT]).fail("reset"), TEXT.to_owned()),
        (pieces(&[TEXT, "data: {\"choi"]), format!("{TEXT}data: {{\"choi")),
        (pieces(&[TEXT, "data: {\"choi"]).fail("reset"), format!("{TEXT}data: {{\"choi")),
    ] {
        let (response, told) = live(cut).await;
        let (read, end) = read(response.into_body()).await;
        assert_eq!(read, bytes);
        assert_eq!(reason(&end.expect_err("it is not whole")), Some(Reason::Cut));
        assert_eq!(told.take(), ["cut"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_within_an_event_is_a_cut_and_not_a_bad_answer() {
    let (response, told) = live(pieces(&[TEXT, "data: {\"choices\":[{\"index\":0,\"delta\":{\"con"])).await;
    assert_eq!(reason(&read(response.into_body()).await.1.expect_err("cut")), Some(Reason::Cut));
    assert_eq!(told.take(), ["cut"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_before_any_output_is_an_answer_that_was_judged() {
    for (body, bytes) in [
        (pieces(&[ROLE, ERROR]), [ROLE, ERROR].concat()),
        (pieces(&[ERROR, DONE]), [ERROR, DONE].concat()),
        (pieces(&[ERROR, DONE]).stall(), [ERROR, DONE].concat()),
        (pieces(&[ERROR]).stall(), ERROR.to_owned()),
        (pieces(&[ERROR]).fail("reset"), ERROR.to_owned()),
    ] {
        let start = tokio::time::Instant::now();
        let response = ask(sse(body)).await.expect("it is handed on");
        assert!(start.elapsed() <= SECOND);
        assert_eq!(known(&response), Some(Reason::Overloaded));
        assert!(response.body().verdict().is_some_and(|verdict| verdict.retry_at.is_some()));
        assert!(reading(&response).is_some_and(|reading| reading.error.is_some()));
        assert_eq!(read(response.into_body()).await.0, bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_after_output_is_an_error_for_the_reader_and_told_once() {
    for (body, bytes) in [
        (pieces(&[TEXT, ERROR]), [TEXT, ERROR].concat()),
        (pieces(&[TEXT, ERROR, DONE]), [TEXT, ERROR, DONE].concat()),
        // What was stated counts, and not how the connection ended.
        (pieces(&[TEXT, ERROR]).fail("reset"), [TEXT, ERROR].concat()),
        (pieces(&[TEXT, ERROR]).stall(), [TEXT, ERROR].concat()),
    ] {
        let (response, told) = live(body).await;
        let (read, end) = read(response.into_body()).await;
        assert_eq!(read, bytes);
        assert_eq!(reason(&end.expect_err("it failed")), Some(Reason::Overloaded));
        assert_eq!(told.take(), ["overloaded"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_may_be_explained_by_what_comes_behind_it() {
    const EVENTS: [&str; 3] = [
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"message\":\"no\"}\n\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\
         \"error\":{\"code\":\"insufficient_quota\"}}}\n\n",
    ];
    for (events, is_live) in [(&EVENTS[..], true), (&EVENTS[1..], false)] {
        let request = post("http://127.0.0.1/v1/responses");
        let response = send(config(), request, sse(pieces(events))).await.expect("an answer");
        assert_eq!(known(&response), (!is_live).then_some(Reason::QuotaExhausted));
        let told = Told::default();
        let (_, end) = read(told.listen(response).into_body()).await;
        assert_eq!((end.is_err(), told.take()), (is_live, vec!["quota_exhausted".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_in_the_middle_abandons_the_answer() {
    let (mut response, told) = live(pieces(&[TEXT, TEXT, FINISH]).stall()).await;
    frame(&mut response).await;
    drop(response);
    assert_eq!(told.take(), ["abandoned by the reader"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_after_the_finish_reason_has_its_answer() {
    let (mut response, told) = live(pieces(&[TEXT, FINISH, DONE]).stall()).await;
    frame(&mut response).await;
    frame(&mut response).await;
    drop(response);
    assert_eq!(told.take(), ["completed"]);
    let (mut response, told) = live(pieces(&[TEXT, ERROR]).stall()).await;
    frame(&mut response).await;
    frame(&mut response).await;
    drop(response);
    assert_eq!(told.take(), ["overloaded"]);
}

#[tokio::test(start_paused = true)]
async fn other_protocols_end_at_their_own_terminators() {
    const ANTHROPIC: [&str; 3] = [
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ];
    const RESPONSES: [&str; 2] = [
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
    ];
    for (path, events) in [("/v1/messages", &ANTHROPIC[..]), ("/v1/responses", &RESPONSES[..])] {
        for (count, expected) in [(events.len(), "completed"), (events.len() - 1, "cut")] {
            let request = post(&format!("http://127.0.0.1{path}"));
            let response = send(config(), request, sse(pieces(&events[..count]))).await.expect("live");
            let told = Told::default();
            let (bytes, end) = read(told.listen(response).into_body()).await;
            assert_eq!((bytes, end.is_ok()), (events[..count].concat().into(), expected == "completed"), "{path}");
            assert_eq!(told.take(), [expected], "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_is_collected_and_judged_first() {
    let whole = config().delivery(Delivery::Whole);
    let response = send(whole.clone(), chat(), sse(pieces(&[TEXT, TEXT, FINISH, DONE]))).await.expect("an answer");
    assert_eq!(known(&response), Some(Reason::Completed));
    assert_eq!(read(response.into_body()).await.0, [TEXT, TEXT, FINISH, DONE].concat());

    let response = send(whole.clone(), chat(), sse(pieces(&[TEXT, ERROR]))).await.expect("an answer");
    assert_eq!(known(&response), Some(Reason::Overloaded));
    assert_eq!(read(response.into_body()).await.0, [TEXT, ERROR].concat());

    for cut in [pieces(&[TEXT]), pieces(&[TEXT]).fail("reset")] {
        let error = send(whole.clone(), chat(), sse(cut)).await.expect_err("not whole");
        assert_eq!(reason(&error), Some(Reason::Cut));
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_that_is_spoilt_is_told_at_once_and_still_passes_on() {
    const SPOILT: &str = "data: {\"choices\":[{\"del\n\n";
    let body = pieces(&[TEXT, SPOILT]).pause(Duration::from_secs(60)).data(TEXT);
    let start = tokio::time::Instant::now();
    let response = send(config().delivery(Delivery::Whole), chat(), sse(body)).await.expect("an answer");
    assert_eq!((known(&response), start.elapsed()), (Some(Reason::Unparsable), Duration::ZERO));
    assert_eq!(read(response.into_body()).await.0, [TEXT, SPOILT, TEXT].concat());
}

#[tokio::test(start_paused = true)]
async fn a_connection_kept_open_after_the_terminator_keeps_nobody_waiting() {
    let start = tokio::time::Instant::now();
    let forever = config().idle(Duration::ZERO);
    let whole = forever.clone().delivery(Delivery::Whole);
    let response = send(whole, chat(), sse(pieces(&[TEXT, FINISH, DONE]).stall())).await.expect("an answer");
    assert_eq!((known(&response), start.elapsed()), (Some(Reason::Completed), SECOND));
    assert!(read(response.into_body()).await.1.is_ok());
    assert_eq!(start.elapsed(), SECOND);

    let start = tokio::time::Instant::now();
    let response = send(forever, chat(), sse(pieces(&[TEXT, FINISH, DONE]).stall())).await.expect("live");
    assert!(read(response.into_body()).await.1.is_ok());
    assert_eq!(start.elapsed(), SECOND);
}
