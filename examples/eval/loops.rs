//! Replays recorded runs through `LoopDetectorLayer`: the recorded result of a step is what the tool answers, whatever
//! the agent would have made of a warning or a refusal.

use std::{
    error::Error,
    io::{BufRead, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Value, json};
use tower::{BoxError, Layer, ServiceExt, service_fn};
use tower_belay::{Call, Effect, LoopDetectorLayer, LoopPolicy, Refusal, ToolCall, ToolOutput};

#[derive(Deserialize)]
struct Run {
    run_id: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    i: usize,
    tool: String,
    arguments: Value,
    result_digest: String,
    #[serde(default)]
    result_chars: usize,
    #[serde(default)]
    result_preview: String,
    is_error: Option<bool>,
    tokens: Option<Value>,
    #[serde(default)]
    mutates: Option<bool>,
    #[serde(default)]
    user_before: Option<bool>,
}

impl Step {
    fn arguments(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }

    /// As much as was recorded: the beginning, and of a longer result the digest.
    fn output(&self) -> ToolOutput {
        let mut content = self.result_preview.clone();
        if self.result_chars > 120 {
            content.push_str(&format!("\n{}", self.result_digest));
        }
        if self.is_error == Some(true) { ToolOutput::error(content) } else { ToolOutput::new(content) }
    }
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !line.trim().is_empty() {
            writeln!(out, "{}", replay(&layer, serde_json::from_str(&line)?).await?)?;
        }
    }
    Ok(())
}

async fn replay(layer: &LoopDetectorLayer, run: Run) -> Result<Value, Box<dyn Error>> {
    let (run_id, steps) = (run.run_id, Arc::new(run.steps));
    let next = Arc::new(AtomicUsize::new(0));
    let tool = layer.layer(service_fn({
        let (steps, next) = (steps.clone(), next.clone());
        move |_: ToolCall| {
            let output = steps[next.load(Ordering::Relaxed)].output();
            async move { Ok::<_, BoxError>(output) }
        }
    }));
    let named = Call::new().run(&run_id);
    let (mut turn, mut batch, mut are_batches_known) = (1, 0, false);
    let (mut nudged_at, mut ended_at) = (None, None);
    for (at, step) in steps.iter().enumerate() {
        next.store(at, Ordering::Relaxed);
        let spoke = step.user_before == Some(true);
        turn += u32::from(spoke);
        // The second and later calls of a batch carry no tokens, where tokens were recorded.
        are_batches_known |= step.tokens.is_some();
        batch += u32::from(spoke || step.tokens.is_some() || !are_batches_known || batch == 0);
        let effect = if step.mutates == Some(true) { Effect::Consequential } else { Effect::ReadOnly };
        let call = named.clone().target(&step.tool).effect(effect).at_step(turn, batch);
        let request = ToolCall::new(step.i.to_string(), &step.tool, step.arguments()).with_call(call);
        match tool.clone().oneshot(request).await {
            Ok(output) if output != step.output() => nudged_at = nudged_at.or(Some(step.i)),
            Ok(_) => {}
            Err(error) => match error.rejected().map(|rejected| rejected.code()) {
                Some(Refusal::Repeated) => nudged_at = nudged_at.or(Some(step.i)),
                Some(Refusal::LoopEnded) => {}
                _ => return Err(error.into()),
            },
        }
        if layer.handle().state(&named).is_some_and(|state| state.ended.is_some()) {
            ended_at = Some(step.i);
            break;
        }
    }
    layer.handle().close(&named);
    Ok(json!({ "run_id": run_id, "nudged_at": nudged_at, "ended_at": ended_at }))
}
