//! What the command lines have in common.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::layout::Named;
use crate::optimizers::Options;
use crate::run::{self, Spec};
use crate::trace::Trace;

/// Many runs in one process.
#[derive(Args, Debug)]
pub struct Batch {
    /// Train all runs that this JSON file lists, {"runs": [...]}, instead of one; "problems" may
    /// define what they train
    #[arg(long, value_name = "FILE", requires = "traces")]
    pub runs: Option<PathBuf>,
    /// Folder for their traces, <FOLDER>/burn/<name>.parquet
    #[arg(long, value_name = "FOLDER", requires = "runs")]
    pub traces: Option<PathBuf>,
}

impl Batch {
    /// The runs and the folder for their traces, where a batch was asked for.
    pub fn read(&self) -> Result<Option<(Vec<Spec>, &Path)>> {
        match (&self.runs, &self.traces) {
            (Some(runs), Some(traces)) => Ok(Some((run::read_specs(runs)?, traces))),
            _ => Ok(None),
        }
    }
}

/// Prints `text` and a line end. Unlike `println!`, a full or closed output is an error, not a panic.
pub fn say(text: impl std::fmt::Display) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to the output")
}

/// Prints `value` as indented JSON.
pub fn say_json(value: &Value) -> Result<()> {
    say(serde_json::to_string_pretty(value)?)
}

/// Runs a program: an error becomes one sentence and exit code 2.
pub fn main(program: impl FnOnce() -> Result<()>) -> ExitCode {
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Trains one run by hand and writes its trace where `trace` says so. A run that ends early is
/// an error here.
pub fn train_one(spec: &Spec, trace: Option<&Path>) -> Result<Trace> {
    let run = run::train(spec)?;
    if let Some(path) = trace {
        run.write(path)?;
    }
    match run.error {
        None => Ok(run.trace),
        Some(error) => bail!("run {} ended early: {error}", spec.id),
    }
}

/// Options from `key=value` pairs; dots in a key reach into nested configurations, a value is
/// JSON (`0.9`, `false`, `{"penalty": 0.1}`).
pub fn options(pairs: &[String]) -> Result<Options> {
    let mut options = Options::new();
    for pair in pairs {
        let (key, text) = pair
            .split_once('=')
            .ok_or_else(|| anyhow!("--set {pair}: not of the form key=value"))?;
        let value = serde_json::from_str(text)
            .map_err(|_| anyhow!("--set {pair}: the value is not JSON, such as 0.9 or false"))?;
        let mut path = key.split('.').collect::<Vec<_>>();
        let last = path.pop().unwrap_or_default();
        let mut fields = &mut options;
        for name in path {
            let inner = fields.entry(name).or_insert_with(|| json!({}));
            fields = match inner {
                Value::Object(fields) => fields,
                _ => bail!("--set {pair}: {name} was set before to a value without fields"),
            };
        }
        if fields.insert(last.to_string(), value).is_some() {
            bail!("--set {pair}: {key} was set before");
        }
    }
    Ok(options)
}

/// A row-major tensor as nested JSON arrays; an empty shape is a number. What JSON has no number
/// for is text: "nan", "inf", "-inf".
pub fn nested(shape: &[usize], values: &[f64]) -> Value {
    let plain = |value: &f64| match value.is_finite() {
        true => json!(value),
        false => json!(value.to_string().to_lowercase()),
    };
    match shape {
        [] => plain(&values[0]),
        [_] => values.iter().map(plain).collect(),
        [rows, inner @ ..] => {
            let size = values.len() / rows.max(&1);
            let rows = values.chunks(size.max(1));
            rows.map(|row| nested(inner, row)).collect()
        }
    }
}

/// Tensors as nested JSON arrays by name.
pub fn by_name(tensors: &[Named]) -> Value {
    let items = tensors.iter();
    let items = items.map(|tensor| (tensor.name.clone(), nested(&tensor.shape, &tensor.values)));
    Value::Object(items.collect())
}

/// The entries of one step and quantity as nested JSON arrays by tensor.
pub fn tensors_of(trace: &Trace, step: usize, quantity: &str) -> Value {
    let entries = trace.entries().iter();
    let wanted = entries.filter(|entry| entry.step as usize == step && entry.quantity == quantity);
    let items = wanted.map(|entry| {
        let values = nested(&entry.shape, trace.values(entry));
        (entry.tensor.clone(), values)
    });
    Value::Object(items.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dots_reach_into_nested_configurations() {
        let found = options(&pairs(&[
            "momentum.dampening=0.0",
            "momentum.nesterov=true",
        ]));
        let expected = json!({"momentum": {"dampening": 0.0, "nesterov": true}});
        assert_eq!(Value::Object(found.unwrap()), expected);
    }

    #[test]
    fn a_malformed_pair_is_refused() {
        for texts in [
            &["epsilon"][..],
            &["epsilon=yes"],
            &["a=1", "a=2"],
            &["a=1", "a.b=2"],
        ] {
            assert!(options(&pairs(texts)).is_err(), "{texts:?}");
        }
    }

    #[test]
    fn nested_arrays_follow_the_shape() {
        assert_eq!(
            nested(&[2, 2], &[1., 2., 3., 4.]),
            json!([[1., 2.], [3., 4.]])
        );
        assert_eq!(nested(&[], &[1.]), json!(1.));
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(nested(&[3], &values), json!(["nan", "inf", "-inf"]));
    }
}
