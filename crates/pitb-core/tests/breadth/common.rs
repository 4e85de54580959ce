//! What the tests of runs have in common.

use std::path::{Path, PathBuf};

use pitb_core::run::{Run, Spec, parse_specs, train};
use pitb_core::trace::Trace;
use serde_json::{Value, json};

/// A batch with a problem of each model.
pub const EXAMPLES: &str = include_str!("examples.json");

/// A run on one of the examples, with what `more` sets; AdamW at a rate of 0.01 for 4 steps unless
/// it says otherwise.
pub fn spec(problem: &str, more: Value) -> Spec {
    parsed(problem, more).expect("a valid specification")
}

/// As [`spec`], or why it is refused on reading.
pub fn parsed(problem: &str, more: Value) -> anyhow::Result<Spec> {
    let mut run = json!({"id": "burn/test", "problem": problem, "optimizer": "AdamW", "steps": 4});
    for (key, value) in more.as_object().expect("an object") {
        run[key] = value.clone();
    }
    if run.get("lr").is_none() && run.get("scheduler").is_none() {
        run["lr"] = json!(0.01);
    }
    let mut batch: Value = serde_json::from_str(EXAMPLES)?;
    batch["runs"] = json!([run]);
    Ok(parse_specs(&batch.to_string(), "the examples")?.remove(0))
}

/// What comes of training it.
pub fn run(problem: &str, more: Value) -> Run {
    train(&spec(problem, more)).expect("a run that can be trained")
}

/// The trace of a run that does not end early.
pub fn trace(problem: &str, more: Value) -> Trace {
    let run = run(problem, more);
    assert_eq!(run.error, None);
    run.trace
}

/// Why a run is refused.
pub fn refusal(problem: &str, more: Value) -> String {
    let refused = parsed(problem, more).and_then(|spec| spec.plan().map(|_| ()));
    format!("{:#}", refused.expect_err("refused"))
}

/// The values of an entry that the trace has.
pub fn values(trace: &Trace, step: usize, quantity: &str, tensor: &str) -> Vec<f64> {
    let entry = trace.find(step, quantity, tensor);
    let entry = entry.unwrap_or_else(|| panic!("no {quantity} {tensor:?} at step {step}"));
    trace.values(entry).to_vec()
}

/// The bits of all parameters after `step`, by name.
pub fn parameters(trace: &Trace, step: usize) -> Vec<(String, Vec<u64>)> {
    let entries = trace.entries().iter();
    let entries = entries.filter(|e| e.step as usize == step && e.quantity == "param");
    let found = entries.map(|entry| {
        let bits = trace.values(entry).iter().map(|value| value.to_bits());
        (entry.tensor.clone(), bits.collect())
    });
    let found = found.collect::<Vec<_>>();
    assert!(!found.is_empty(), "no parameters at step {step}");
    found
}

/// A file in a folder that the tests may write to.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
