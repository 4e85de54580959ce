//! Trains A1 with any of burn's optimizers and any of its configuration's fields.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use pitb_core::cli::{self, Batch, tensors_of};
use pitb_core::optimizers;
use pitb_core::problem::Dtype;
use pitb_core::run::{Spec, read_specs, train_all, train_together};
use pitb_core::schedule;
use pitb_core::trace::{Trace, write_json};
use serde_json::{Value, json};

/// Trains A1 with any burn optimizer; what is not set stays at burn's default
#[derive(Parser)]
#[command(after_help = "Examples:
  optdef RmsProp --lr 0.01
  optdef RmsProp --lr 0.01 --set momentum=0.0 --set epsilon=1e-8 --trace aligned.parquet
  optdef Sgd --lr 0.1 --set momentum.dampening=0.0
  optdef Sgd --lr 0.1 --set 'gradient_clipping={\"Norm\": 0.1}'
  optdef --runs runs.json --traces results/traces
  optdef --batch runs.json --out batch.parquet
  optdef --schedules schedules.json --out rates.json
  optdef --defaults")]
struct Arguments {
    /// burn's name of the optimizer: Sgd, Adam, AdamW, RmsProp, AdaGrad, Adafactor, Muon, Lion, Lamb, Adan, LBFGS
    #[arg(conflicts_with = "runs")]
    optimizer: Option<String>,
    #[command(flatten)]
    batch: Batch,
    /// The learning rate
    #[arg(long)]
    lr: Option<f64>,
    /// The number of updates
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// The element type of everything that is trained
    #[arg(long, value_enum, default_value = "float32", conflicts_with = "runs")]
    dtype: Dtype,
    /// A field of the configuration, as often as needed; dots reach into nested ones, values are JSON
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Write loss and parameters of each step as JSON here
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    json: Option<PathBuf>,
    /// Write the trace here
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    trace: Option<PathBuf>,
    /// Write every configuration's defaults as JSON to this file, or print them
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    defaults: Option<PathBuf>,
    /// Compute the rates of all schedules that this JSON file lists, {"schedules": [...]}
    #[arg(long, value_name = "FILE", group = "listed", requires = "out", conflicts_with_all = ["optimizer", "runs", "defaults"])]
    schedules: Option<PathBuf>,
    /// Train all runs that this JSON file lists, as --runs takes it, into one file; what is wrong
    /// with a run stands in that file, too
    #[arg(long = "batch", value_name = "FILE", group = "listed", requires = "out", conflicts_with_all = ["optimizer", "runs", "defaults"])]
    batch_file: Option<PathBuf>,
    /// Write the rates as JSON, or the traces as one Parquet file, here
    #[arg(long, value_name = "FILE", requires = "listed")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    cli::main(|| run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.defaults {
        let defaults = optimizers::defaults()?;
        if path.as_os_str() == "-" {
            return cli::say_json(&defaults);
        }
        return write_json(path, &defaults);
    }
    if let (Some(schedules), Some(out)) = (&arguments.schedules, &arguments.out) {
        return write_json(out, &schedule::answer(schedules)?);
    }
    if let (Some(runs), Some(out)) = (&arguments.batch_file, &arguments.out) {
        return train_together(&read_specs(runs)?, out);
    }
    if let Some((specs, traces)) = arguments.batch.read()? {
        return train_all(&specs, traces, |_, _| Ok(()));
    }
    let (Some(optimizer), Some(lr)) = (&arguments.optimizer, arguments.lr) else {
        bail!(
            "an optimizer and --lr are needed, or --runs, --batch, --schedules or --defaults; see --help"
        );
    };
    let id = format!("burn/{}", optimizer.to_lowercase());
    let options = cli::options(&arguments.set)?;
    let mut spec = Spec::new(&id, optimizer, options, lr, arguments.steps);
    spec.dtype = arguments.dtype;
    cli::say(spec.plan()?.optimizer.debug)?;
    let trace = cli::train_one(&spec, arguments.trace.as_deref())?;
    print_losses(&trace)?;
    match &arguments.json {
        Some(path) => write_json(path, &steps_json(&trace, spec.steps)),
        None => Ok(()),
    }
}

fn print_losses(trace: &Trace) -> Result<()> {
    cli::say("step  loss")?;
    let losses = trace.entries().iter();
    for entry in losses.filter(|entry| entry.quantity == "loss") {
        let (step, loss) = (entry.step, trace.values(entry)[0]);
        cli::say(format!("{step:>4}  {loss:.8}"))?;
    }
    Ok(())
}

/// The loss before and the parameters after each update.
fn steps_json(trace: &Trace, steps: usize) -> Value {
    let loss = |step| {
        let entry = trace.find(step, "loss", "");
        entry.map_or(Value::Null, |entry| json!(trace.values(entry)[0]))
    };
    let steps = 1..=steps;
    let steps = steps
        .map(|step| json!({"loss": loss(step), "params_after": tensors_of(trace, step, "param")}));
    json!({"steps": steps.collect::<Vec<_>>()})
}
