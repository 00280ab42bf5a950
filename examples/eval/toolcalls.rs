//! Holds tool calls against their schemas, line by line.

use std::{
    error::Error,
    io::{BufRead, Write},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tower_belay::registry::{Registry, Tool};

#[derive(Deserialize)]
struct Line {
    id: String,
    tools: Vec<Offered>,
    call: Call,
}

#[derive(Deserialize)]
struct Offered {
    name: String,
    parameters: Value,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    /// A string is the text itself; any other value is written anew.
    arguments: Value,
}

/// Answers every line; `strict` takes no property that a schema does not name.
pub(crate) fn run(strict: bool) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", answer(&line?, strict)?)?;
    }
    Ok(())
}

fn answer(line: &str, strict: bool) -> Result<Value, Box<dyn Error>> {
    let Line { id, tools, call } = serde_json::from_str(line)?;
    let tools = tools.into_iter().map(|tool| Tool::new(tool.name).parameters(tool.parameters));
    let registry = if strict { Registry::closed(tools) } else { Registry::new(tools) }?;
    let text = match call.arguments {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let valid = registry.check(&call.name, &text).is_ok();
    let mended = registry.mend(&call.name, &text).ok().filter(|checked| checked.mended);
    Ok(json!({ "id": id, "valid": valid, "mended": mended.map(|checked| checked.arguments) }))
}
