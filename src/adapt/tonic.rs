//! Errors as `tonic::Status`.

use std::sync::Arc;

use tonic::{Code, Status, metadata::MetadataValue};

use crate::{
    error::Error,
    respond::{answer::Answer, problem::PUSHBACK},
};

/// The status of [`respond`](crate::respond)'s tables, with our own text, `grpc-retry-pushback-ms` where it says
/// something, and the error as its source.
///
/// ```
/// # use tower_belay::{Call, Error, Refusal, Rejected, Scope};
/// let refusal = Rejected::new("semantic_breaker", Refusal::Gated, Scope::TARGET, &Call::to("crm"));
/// let status = tonic::Status::from(Error::from(refusal));
/// assert_eq!(status.code(), tonic::Code::ResourceExhausted);
/// assert!(status.message().starts_with("The call was not sent."));
/// ```
impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let answer = Answer::to(&error);
        let mut status = Self::new(Code::from_i32(answer.grpc as i32), &answer.detail);
        if let Some(pushback) = answer.pushback() {
            status.metadata_mut().insert(PUSHBACK, MetadataValue::from(pushback));
        }
        status.set_source(Arc::new(error));
        status
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use http::{Request, Response};
    use tower::{Layer, ServiceExt};

    use super::*;
    use crate::{
        body::WatchedBody,
        call::{Call, Scope},
        error::{Failure, Refusal, Rejected, find},
        reason::Reason,
        respond::RespondLayer,
        testing::{Scripted, Step},
    };

    #[test]
    fn a_status_has_the_code_of_the_table_and_keeps_its_cause() {
        let refusal = Rejected::new("semantic_breaker", Refusal::ActorBlocked, Scope::ACTOR, &Call::new());
        let status = Status::from(Error::from(refusal));
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(status.metadata().get(PUSHBACK).map(|value| value.as_bytes()), Some(&b"-1"[..]));
        let source = status.source().expect("a source");
        assert_eq!(find::<Rejected>(source).map(Rejected::code), Some(Refusal::ActorBlocked));
    }

    #[tokio::test]
    async fn tonic_reads_the_answers_of_a_respond_layer() {
        let refusal = Rejected::new("semantic_breaker", Refusal::WritesOpen, Scope::TARGET, &Call::new());
        let expected = Status::from(Error::from(refusal.clone()));
        let inner = Scripted::new([Step::<Response<WatchedBody>>::fail(refusal)]);
        let request = Request::post("/crm.Tickets/Close").header("content-type", "application/grpc");
        let request = request.body(()).expect("a request");
        let Ok(response) = RespondLayer::new().layer(inner).oneshot(request).await;
        let status = Status::from_header_map(response.headers()).expect("a status");
        assert_eq!((status.code(), status.message()), (expected.code(), expected.message()));
    }

    #[test]
    fn what_may_have_been_applied_is_unknown_and_says_nothing_of_its_cause() {
        let failure = Failure::new(Reason::ConnectionLost).caused_by("sk-secret");
        let status = Status::from(Error::from(failure));
        assert_eq!(status.code(), Code::Unknown);
        assert!(!status.message().contains("secret"));
    }
}
