//! Reads recorded data through the real layers: JSON Lines in, JSON Lines out.
//!
//! ```sh
//! cargo run --release --all-features --example eval -- wire --chunk 7 < exchanges.jsonl
//! ```

mod loops;
mod toolcalls;
mod wire;

use std::{error::Error, process::ExitCode};

const USAGE: &str = "usage: eval wire [--chunk N] | loops | toolcalls [--strict]   (JSON Lines on stdin)";

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eval: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["loops"] => loops::run().await,
        ["wire"] => wire::run(0).await,
        ["wire", "--chunk", size] => wire::run(size.parse()?).await,
        ["toolcalls"] => toolcalls::run(false),
        ["toolcalls", "--strict"] => toolcalls::run(true),
        _ => Err(USAGE.into()),
    }
}
