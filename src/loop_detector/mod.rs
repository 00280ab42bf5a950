//! Keeps a run from going in circles: it is warned, then refused, then ended.
//!
//! A [`LoopDetector`] sees the calls of tools and what they bring, run by run. It keeps digests, never texts:
//!
//! | rule | finds | warns | then | spares |
//! |---|---|---|---|---|
//! | `repeat` | the same call with the same result, at once, in a cycle of any period, or among other calls | at the 2nd | refuses the 3rd, ends at the 4th | polls whose answer changes; reading again after a write |
//! | `failing` | one tool fails with one message, whatever it is asked | from the 4th running | ends with the 6th | another message, a success or a write in between |
//! | `failing_alike` | the same with messages that differ in what they quote and count: a walk over ids that do not exist | from the 5th | ends with the 8th | the same |
//! | `futile` | one call keeps failing: 3 times running in whatever way, or 5 times in the same way with writes in between | each time | | retries of what may pass; a failure that changes with each edit |
//! | `near` | nearly the same call with nearly the same result: reworded, or with a time in it | at the 4th of the last 12 | | another id; a number in the result that moved |
//! | `same_answer` | one tool gives one answer to everything it is asked | at the 8th running | | writes that all answer "done" |
//!
//! - **Warned**: what the tool brought is handed on with a THINK demand below it: say what you expect to differ.
//! - **Refused**, as `repeated`: nothing is sent, and the text for the model says that it has the result already. After
//!   something new the call may come once more; one that failed may not, until something was written.
//! - **Ended**, as `loop_ended`: no call of the run is sent any more, and the text says that it has not succeeded. A
//!   call is refused once before; a failing tool is warned at least twice.
//!
//! Only the first rule refuses: a call that was never made is not known to be useless.
//!
//! # What is the same
//!
//! Arguments are the same in every spelling of their JSON: key order, white space, escapes, `1` and `1.0`. Fields
//! that mean nothing are declared, [`ToolRules::volatile`]. Results are the same without their times, durations,
//! process ids, addresses and UUIDs. A failure that says that it may pass (`503`, `timeout`) has one more try.
//!
//! # What is progress
//!
//! - A **new result**: of a call that was not made before, or that brought something else before.
//! - A **write** that succeeded, unless it is the same write with the same result once more. What a call may do is its
//!   [`Effect`](crate::Effect); where nobody says, it is a write, and less is found among other calls.
//! - The **user's turn**, which also lets a run go on that had ended. It is told by the turn of [`Call::at_step`], which
//!   must not count anything else, or by [`LoopHandle::user_spoke`]. A failure stays known: it may be tried, and is told
//!   at once if it comes again.
//!
//! Calls of one step ([`Call::at_step`]) are a batch, and one step. A tool that has to be asked until its answer changes
//! is declared [`Pollable`](crate::Pollable): asked too soon it is refused as `poll_too_soon` with the time it may come; unchanged answers
//! are no repeats until `max_wait` is over.
//!
//! # Where it belongs
//!
//! Around tools, outside retries, budgets and the breaker: what a refusal stops costs nothing, and a retry is not a
//! repetition. A refused call still has to be answered under its own id: give the model
//! [`Rejected::model_text`](crate::Rejected::model_text). Name the run: calls without one are watched together, warned
//! and refused, and never ended. A service that is no tool of [`ToolCall`](crate::ToolCall)s is read by [`observe_fn`].
//!
//! Up to 4,096 runs of a tenant are watched, each in less than 12 KB; [`LoopHandle::close`] forgets one that is over.
//! When there is no room, a run that was idle for an hour goes; else the new one is not watched, which is counted.
//!
//! # Cancelling
//!
//! A call that is dropped has no result: it is neither new nor a repetition. Parallel calls of a run are fine.
//!
//! # Measured
//!
//! At which call a sequence of 60 is warned, and at which it ends. Beside it where three detectors in use fire: A the
//! one of Gemini CLI, B of Roo Code, C of OpenHands.
//!
//! | sequence | warned | ended | A | B | C |
//! |---|---|---|---|---|---|
//! | same call, same result | 2 | 4 | 5 | 4 | 4 |
//! | same call, same error | 2 | 4 | 5 | 4 | 4 |
//! | poll, result changes (healthy) | | | 5 | 4 | |
//! | poll, "running", not declared | 2 | 4 | 5 | 4 | 4 |
//! | poll and sleep in turn, result changes (healthy) | | | 10 | | |
//! | key order flips | 2 | 4 | 10 | 4 | 4 |
//! | a timestamp in the arguments | 4 | | | | |
//! | A-B | 3 | 6 | 10 | | 6 |
//! | A-B-C | 4 | 8 | 15 | | |
//! | period 6 | 7 | 14 | | | |
//! | one stray call in four | 2 | 6 | | | |
//! | another edit, same failing test | 9 | | | | |
//!
//! # Example
//!
//! ```
//! use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{Call, Effect, LoopDetectorLayer, LoopPolicy, Refusal, ToolCall, ToolOutput};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let layer = LoopDetectorLayer::new(LoopPolicy::default());
//! let mut files = layer.layer(service_fn(|_: ToolCall| async { Ok::<_, BoxError>(ToolOutput::new("fn main() {}")) }));
//! let run = Call::to("read_file").run("run 7").effect(Effect::ReadOnly);
//! let read = |path: &str| ToolCall::new("call_1", "read_file", format!(r#"{{"path":"{path}"}}"#)).with_call(run.clone());
//!
//! assert_eq!(files.ready().await?.call(read("main.rs")).await?.content, "fn main() {}");
//! let again = files.ready().await?.call(read("main.rs")).await?;
//! assert!(again.content.contains("THINK: You made this call before and got the same result."));
//! let refused = files.ready().await?.call(read("main.rs")).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::Repeated));
//! // Something else is new, and then it may look once more.
//! assert_eq!(files.ready().await?.call(read("lib.rs")).await?.content, "fn main() {}");
//! assert!(files.ready().await?.call(read("main.rs")).await.is_ok());
//! // It goes on: the run is over.
//! let ended = files.ready().await?.call(read("main.rs")).await.unwrap_err();
//! assert_eq!(ended.rejected().map(|rejected| rejected.code()), Some(Refusal::LoopEnded));
//! assert!(layer.handle().state(&run).is_some_and(|state| state.ended.is_some()));
//! # Ok(())
//! # }
//! ```
//!
//! [`Call::at_step`]: crate::Call::at_step

mod canonical;
mod config;
mod found;
mod future;
mod handle;
mod json;
mod layer;
mod mask;
mod observe;
mod service;
mod shared;
mod sketch;
mod state;
#[cfg(test)]
mod tests;

pub use config::{LoopPolicy, Steps, ToolRules};
pub use found::{Found, Rule};
pub use future::ResponseFuture;
pub use handle::{LoopHandle, RunState};
pub use layer::LoopDetectorLayer;
pub use observe::{Asked, Got, ObserveFn, ReadCall, ReadOutput, ToolCalls, observe_fn};
pub use service::LoopDetector;
