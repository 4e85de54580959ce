//! What the compiler's advice on `noassign` leads to: the step is taken on a clone, its result is
//! dropped, and nothing warns.

use std::path::PathBuf;
use std::process::ExitCode;

use burn::optim::GradientsParams;
use clap::Parser;
use pitb_core::cli;
use pitb_core::trace::write_json;
use serde_json::json;
use train_one::{LEARNING_RATE, start};

/// A step on a clone of the model whose result is dropped: the loss stays what it was
#[derive(Parser)]
#[command(after_help = "Examples:
  discard
  discard --json discard.json")]
struct Arguments {
    /// Write both losses as JSON here instead of printing them
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (problem, model, mut optimizer) = start();
    let (_, loss) = problem.forward(&model);
    let before = loss.clone().into_scalar::<f32>();
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(LEARNING_RATE, model.clone(), grads);
    let (_, loss) = problem.forward(&model);
    let after = loss.into_scalar::<f32>();

    cli::main(|| match &arguments.json {
        Some(path) => write_json(
            path,
            &json!({
                "loss_before": before.to_string(),
                "loss_after": after.to_string(),
                "equal": before.to_bits() == after.to_bits(),
            }),
        ),
        None => cli::say(format!("loss before {before}  loss after {after}")),
    })
}
