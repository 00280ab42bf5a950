//! Over sockets and in real time: only what holds however long it takes.

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tower_belay::adapt::ReqwestService;

use super::*;

/// A provider that speaks HTTP/1 on loopback, one request a connection.
async fn listen(gauge: Gauge) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let authority = listener.local_addr().expect("a bound socket has an address").to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let gauge = gauge.clone();
            // A client that goes away is no fault of the server.
            tokio::spawn(async move { drop(serve(BufReader::new(socket), gauge).await) });
        }
    });
    authority
}

async fn serve(mut socket: BufReader<TcpStream>, gauge: Gauge) -> std::io::Result<()> {
    let (mut class, mut length, mut line) = (String::new(), 0, String::new());
    while line != "\r\n" {
        line.clear();
        if socket.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match &*name.to_ascii_lowercase() {
            "x-class" => class = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().expect("a length"),
            _ => {}
        }
    }
    socket.read_exact(&mut vec![0; length]).await?;

    let (fate, in_flight) = gauge.take(&class);
    sleep(Duration::from_millis(5)).await;
    const STREAM: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    // A request is no longer in flight from just before the last byte of its answer.
    match fate {
        Fate::Busy => {
            drop(in_flight);
            socket.write_all(b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").await
        }
        Fate::Reset => {
            drop(in_flight);
            Ok(())
        }
        Fate::Stall => {
            // Its client closes, and waits for nobody to notice: its permit is free before this is.
            drop(in_flight);
            socket.read_to_end(&mut Vec::new()).await.map(drop)
        }
        Fate::Cut => {
            socket.write_all(STREAM).await?;
            drop(in_flight);
            chunk(&mut socket, r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}]}"#).await
        }
        Fate::Good => {
            socket.write_all(STREAM).await?;
            chunk(&mut socket, r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}]}"#).await?;
            sleep(Duration::from_millis(5)).await;
            drop(in_flight);
            chunk(&mut socket, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#).await?;
            chunk(&mut socket, "[DONE]").await?;
            socket.write_all(b"0\r\n\r\n").await
        }
    }
}

async fn chunk(socket: &mut BufReader<TcpStream>, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await
}

async fn stack(gauge: &Gauge, card: Option<TripCard>) -> Stack {
    let authority = listen(gauge.clone()).await;
    let client = ReqwestService::new(reqwest::Client::builder().no_proxy()).expect("a client");
    let to = move |mut request: Request<String>| {
        *request.uri_mut() = format!("http://{authority}/v1/chat/completions").parse().expect("a URI");
        request
    };
    let policy = RetryPolicy::default().base(Duration::from_millis(20)).cap(Duration::from_millis(100));
    Stack::around(client.map_request(to), policy, Duration::from_secs(1), card)
}

/// No call may hang, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_over_sockets_is_weathered_too() {
    let gauge = Gauge::new(1);
    let stack = stack(&gauge, None).await;
    let storm = timeout(PATIENCE, stack.weathers(3, Duration::from_millis(50))).await.expect("every call ends");
    stack.holds(&storm, &gauge);
    assert_eq!((storm.calls(), storm.refused()), (600, 0));
    assert!(storm.answered() >= 300, "{} answered", storm.answered());
    storm.starves_nobody(0.4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_ends_a_storm_over_sockets_and_calls_pass_again() {
    let gauge = Gauge::new(2);
    let second = Duration::from_secs(1);
    let card = TripCard::default().cool_down(second).max_cool_down(second).ramp(second);
    let stack = stack(&gauge, Some(card)).await;
    let storm = timeout(PATIENCE, stack.weathers(3, Duration::from_millis(50))).await.expect("every call ends");
    stack.holds(&storm, &gauge);
    assert!(storm.calls() == 600 && storm.refused() > 0 && gauge.sent() < 600, "{} sent", gauge.sent());

    gauge.heals();
    let healed = async {
        while End::of(stack.model.clone().oneshot(ask(CLASSES[0])).await).await != End::Answered
            || stack.breaker.unhealthy() > 0
        {
            sleep(second / 20).await;
        }
    };
    timeout(PATIENCE, healed).await.expect("calls pass again");
    let after = timeout(PATIENCE, stack.weathers(1, Duration::ZERO)).await.expect("every call ends");
    assert_eq!((after.answered(), after.refused()), (CALLERS, 0));
}
