//! One SGD step of A1: logits, loss, gradients, parameters after the step, loss after the step.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use pitb_core::a1::Arithmetic;
use pitb_core::cli::{self, Batch, nested, tensors_of};
use pitb_core::optimizers::Options;
use pitb_core::run::{Spec, train_all};
use pitb_core::trace::{Trace, write_json};
use serde_json::{Value, json};

/// One SGD step of A1, printed as JSON (logits, loss, grads, params_after, loss_after)
#[derive(Parser)]
#[command(after_help = "Examples:
  train-step --json burn.json --trace burn.parquet
  train-step --initial-state float32 --json f32.json
  train-step --runs runs.json --traces results/traces --jsons results/evidence/train-step")]
struct Arguments {
    #[command(flatten)]
    batch: Batch,
    /// Folder for the JSON of each run of a batch, <FOLDER>/burn/<name>.json
    #[arg(long, value_name = "FOLDER", requires = "runs")]
    jsons: Option<PathBuf>,
    /// The learning rate
    #[arg(long, default_value_t = 0.1)]
    lr: f64,
    /// The precision in which inputs and biases are computed
    #[arg(long, value_enum, default_value = "float64")]
    initial_state: Arithmetic,
    /// Write the JSON here instead of printing it
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    json: Option<PathBuf>,
    /// Write the trace here
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    trace: Option<PathBuf>,
}

fn main() -> ExitCode {
    cli::main(|| run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some((specs, traces)) = arguments.batch.read()? {
        return train_all(&specs, traces, |spec, run| match &arguments.jsons {
            Some(folder) => {
                let json = match &run.error {
                    None => step_json(&run.trace)?,
                    Some(error) => json!({"error": error}),
                };
                write_json(&json_path(folder, &spec.id), &json)
            }
            None => Ok(()),
        });
    }
    let mut spec = Spec::new("burn/sgd", "Sgd", Options::new(), arguments.lr, 1);
    spec.initial_state = arguments.initial_state;
    let trace = cli::train_one(&spec, arguments.trace.as_deref())?;
    let json = step_json(&trace)?;
    match &arguments.json {
        Some(path) => write_json(path, &json),
        None => cli::say_json(&json),
    }
}

fn json_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// The first step of a trace in the structure that both sides share.
fn step_json(trace: &Trace) -> Result<Value> {
    let value = |step, quantity| {
        let entry = trace.find(step, quantity, "");
        let entry = entry.with_context(|| format!("the trace has no {quantity} at step {step}"))?;
        anyhow::Ok(nested(&entry.shape, trace.values(entry)))
    };
    Ok(json!({
        "logits": value(1, "logits")?,
        "loss": value(1, "loss")?,
        "grads": tensors_of(trace, 1, "grad"),
        "params_after": tensors_of(trace, 1, "param"),
        "loss_after": value(2, "loss")?,
    }))
}
