//! One plain SGD step of A1 with its gradients clipped, by burn's `Norm` or by the global norm.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use pitb_core::cli::{self, Batch, tensors_of};
use pitb_core::run::{Clip, Spec, train_all};
use pitb_core::trace::write_json;
use serde_json::{Map, json};

/// One plain SGD step of A1 with clipped gradients
#[derive(Parser)]
#[command(after_help = "Examples:
  clip global
  clip norm --max-norm 0.1 --json norm.json
  clip --runs runs.json --traces results/traces")]
struct Arguments {
    /// How to clip
    #[arg(value_enum, required_unless_present = "runs", conflicts_with = "runs")]
    how: Option<How>,
    #[command(flatten)]
    batch: Batch,
    /// The norm that is allowed
    #[arg(long, default_value_t = 0.1)]
    max_norm: f64,
    /// The learning rate
    #[arg(long, default_value_t = 0.1)]
    lr: f64,
    /// Write the parameters after the step as JSON here
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    json: Option<PathBuf>,
    /// Write the trace here
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// All gradients by their one norm, on burn's GradientsParams
    Global,
    /// Each tensor by its own, which is what burn's GradientClippingConfig::Norm does
    Norm,
}

fn main() -> ExitCode {
    cli::main(|| run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some((specs, traces)) = arguments.batch.read()? {
        return train_all(&specs, traces, |_, _| Ok(()));
    }
    let max_norm = arguments.max_norm;
    let (id, options, clip) = match arguments.how {
        Some(How::Norm) => {
            let clipping = json!({"Norm": max_norm});
            let options = Map::from_iter([("gradient_clipping".to_string(), clipping)]);
            ("burn/clip-norm", options, None)
        }
        _ => ("burn/clip-global", Map::new(), Some(Clip::global(max_norm))),
    };
    let mut spec = Spec::new(id, "Sgd", options, arguments.lr, 1);
    spec.clip = clip;
    let trace = cli::train_one(&spec, arguments.trace.as_deref())?;
    let json = tensors_of(&trace, 1, "param");
    if let Some(entry) = trace.find(1, "grad_norm", "") {
        cli::say(format!("total norm: {}", trace.values(entry)[0]))?;
    }
    match &arguments.json {
        Some(path) => write_json(path, &json),
        None => cli::say_json(&json),
    }
}
