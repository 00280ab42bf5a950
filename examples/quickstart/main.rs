//! A model provider on loopback works, breaks and recovers, and a semantic breaker stands in front of it.
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! No key and no network. The same traffic goes to two equal providers, once with the breaker and once without; times
//! that are minutes by default are seconds here.

mod provider;
mod timeline;

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::time::{Instant, interval, sleep};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_belay::{
    Error, IdentifyLayer, ProviderConfig, ProviderLayer, SemanticBreakerLayer, TripCard, WatchedBody,
    adapt::ReqwestService, events::Event,
};

use self::{
    provider::Provider,
    timeline::{Outcome, Timeline},
};

/// A minute of the real card takes this long here.
const MINUTE: Duration = Duration::from_millis(150);

#[tokio::main]
async fn main() -> Result<()> {
    let (guarded, bare) = (Provider::start().await?, Provider::start().await?);
    println!("two providers on {} and {}, one call every 50 ms to each", guarded.address(), bare.address());
    println!("both are ill from 1 s to 4 s; 10 min of the default card are 1.5 s here\n");
    let timeline = Timeline::start();

    // 10 min, 1 h, 15 min: only the unit differs from the default.
    let card = TripCard::default().cool_down(10 * MINUTE).max_cool_down(60 * MINUTE).ramp(15 * MINUTE);
    let heard = timeline.clone();
    let breaker = SemanticBreakerLayer::try_new(card)?.listener(move |event: &Event<'_>| {
        if let Event::Transition(transition) = event {
            heard.turns(transition);
        }
    });
    let with_breaker = ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .layer(breaker)
        .layer(ProviderLayer::new(ProviderConfig::default()))
        .service(ReqwestService::new(reqwest::Client::builder())?);
    let without = ServiceBuilder::new()
        .layer(ProviderLayer::new(ProviderConfig::default()))
        .service(ReqwestService::new(reqwest::Client::builder())?);

    let (shown, tally) = tokio::join!(traffic(with_breaker, &guarded, Some(&timeline)), traffic(without, &bare, None));
    timeline.end();

    println!("\n                      with the breaker   without");
    println!("answered              {:>16}   {:>7}", shown.answered, tally.answered);
    println!("refused at once       {:>16}   {:>7}", shown.refused, tally.refused);
    println!("sent and failed       {:>16}   {:>7}", shown.failed, tally.failed);
    println!("seen by the provider  {:>16}   {:>7}", guarded.calls(), bare.calls());
    println!("\nAn ill provider is left alone, and a recovered one is loaded slowly: that costs answers at first.");
    Ok(())
}

#[derive(Default)]
struct Tally {
    answered: usize,
    failed: usize,
    refused: usize,
}

/// Nine seconds of calls; the provider is ill from 1 s to 4 s.
async fn traffic<S>(client: S, provider: &Provider, timeline: Option<&Arc<Timeline>>) -> Tally
where
    S: Service<Request<Bytes>, Response = http::Response<WatchedBody>, Error = Error> + Clone,
{
    let (start, mut clock, mut tally) = (Instant::now(), interval(Duration::from_millis(50)), Tally::default());
    while start.elapsed() < Duration::from_secs(9) {
        clock.tick().await;
        provider.set_ill((1..4).contains(&start.elapsed().as_secs()));
        let outcome = match ask(client.clone(), provider).await {
            Ok(_) => Outcome::Answered,
            Err(error) => match (error.rejected(), error.failure()) {
                (Some(rejected), _) => Outcome::Refused(rejected.code()),
                (None, Some(failure)) => Outcome::Failed(failure.reason()),
                (None, None) => panic!("every error of the stack is one of these: {error}"),
            },
        };
        match outcome {
            Outcome::Answered => tally.answered += 1,
            Outcome::Failed(_) => tally.failed += 1,
            Outcome::Refused(_) => tally.refused += 1,
        }
        if let Some(timeline) = timeline {
            timeline.call(outcome);
        }
    }
    // Let the last body be closed before the numbers are read.
    sleep(Duration::from_millis(20)).await;
    tally
}

/// One streamed chat completion, read to its end: a stream that breaks off is an error here, not a short answer.
async fn ask<S>(client: S, provider: &Provider) -> Result<Bytes, Error>
where
    S: Service<Request<Bytes>, Response = http::Response<WatchedBody>, Error = Error>,
{
    let request = Request::post(format!("http://{}/v1/chat/completions", provider.address()))
        .header("content-type", "application/json")
        .body(Bytes::from_static(br#"{"model":"demo","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#))
        .expect("a valid request");
    let response = client.oneshot(request).await?;
    // What the provider said of itself, whatever its status.
    let verdict = response.body().verdict().filter(|verdict| !verdict.is_success());
    let body = response.into_body().collect().await?.to_bytes();
    match verdict {
        Some(verdict) => Err(tower_belay::Failure::new(verdict).into()),
        None => Ok(body),
    }
}
