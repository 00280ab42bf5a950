mod bounds;
mod clocks;
mod hostile;
mod judged;
mod live;
mod passing;
mod splits;
mod stack;
mod usage;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_layer::Layer;

use super::*;
use crate::{
    Reason, WatchedBody,
    call::Call,
    classify::{Auto, ClassifyResponse, Completion, End},
    error::Error,
    testing::{BodyScript, Scripted, Step},
};

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const THINK: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const ERROR: &str = "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"try again in 7s\"}}\n\n";
const PING: &str = ": ping\n\n";
const WHOLE: &str = "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\
                     \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}";

const SECOND: Duration = Duration::from_secs(1);

fn config() -> ProviderConfig {
    ProviderConfig::default()
}

fn post(uri: &str) -> Request<String> {
    Request::post(uri).body("{\"stream\":true}".to_owned()).expect("a request")
}

fn chat() -> Request<String> {
    post("http://127.0.0.1/v1/chat/completions")
}

fn answer(status: u16, content_type: &str, body: BodyScript) -> Response<BodyScript> {
    let mut response = Response::builder().status(status);
    if !content_type.is_empty() {
        response = response.header("content-type", content_type);
    }
    response.body(body).expect("a response")
}

fn sse(body: BodyScript) -> Response<BodyScript> {
    answer(200, "text/event-stream", body)
}

fn json(body: &'static str) -> Response<BodyScript> {
    answer(200, "application/json", BodyScript::new().data(body))
}

/// The pieces, each in a frame of its own.
fn pieces(pieces: &[&'static str]) -> BodyScript {
    pieces.iter().fold(BodyScript::new(), |script, piece| script.data(*piece))
}

async fn send(
    config: ProviderConfig,
    request: Request<String>,
    response: Response<BodyScript>,
) -> Result<Response<WatchedBody>, Error> {
    let client = Scripted::new([Step::answer(response)]);
    ProviderLayer::new(config).layer(client).oneshot(request).await
}

async fn ask(response: Response<BodyScript>) -> Result<Response<WatchedBody>, Error> {
    send(config(), chat(), response).await
}

fn known(response: &Response<WatchedBody>) -> Option<Reason> {
    response.body().verdict().map(|verdict| verdict.reason)
}

fn reason(error: &Error) -> Option<Reason> {
    error.failure().map(crate::Failure::reason)
}

fn reading(response: &Response<WatchedBody>) -> Option<crate::wire::Reading> {
    response.extensions().get::<Answer>().expect("always there").reading().cloned()
}

/// All that the reader gets: the bytes, and how they end.
async fn read(mut body: WatchedBody) -> (Bytes, Result<(), Error>) {
    let mut all = Vec::new();
    loop {
        match body.frame().await {
            Some(Ok(frame)) => all.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(error)) => {
                assert!(body.frame().await.is_none(), "nothing comes behind an error");
                return (all.into(), Err(error));
            }
            None => return (all.into(), Ok(())),
        }
    }
}

/// What a layer outside is told, as words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic while telling"))
    }

    fn listen(&self, response: Response<WatchedBody>) -> Response<WatchedBody> {
        let told = self.0.clone();
        let completion = Completion::new(move |end: End<'_>| {
            let word = match end {
                End::Over(verdict) => verdict.reason.to_string(),
                End::Abandoned { .. } => "abandoned by the reader".to_owned(),
            };
            told.lock().expect("no panic while telling").push(word);
        });
        Auto.watch(&Call::new(), response, completion)
    }
}

/// A streamed answer that is live, and who hears of its end.
async fn live(body: BodyScript) -> (Response<WatchedBody>, Told) {
    let response = ask(sse(body)).await.expect("it is under way");
    assert_eq!(known(&response), None);
    let told = Told::default();
    let response = told.listen(response);
    (response, told)
}

async fn frame(response: &mut Response<WatchedBody>) -> Bytes {
    let frame = response.body_mut().frame().await.expect("a frame").expect("no error");
    frame.into_data().expect("data")
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}
