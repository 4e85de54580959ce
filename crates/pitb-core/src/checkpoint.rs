//! Parameters and states of a run, saved and loaded through burn's records.

use std::path::Path;

use anyhow::{Context, Result, bail};
use burn::lr_scheduler::LrSchedulerRecord;
use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;
use crate::trace::write_json;
use crate::trainer::{Optimizer, Trainer};

/// What the file holds. Records are burnpack, in hexadecimal digits.
///
/// burn keys an optimizer's state by the ids of the parameters, which are random in each process.
/// The record of the parameters holds their ids, and loading it gives them back.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    problem: Option<String>,
    optimizer: String,
    updates: usize,
    parameters: String,
    optimizer_state: String,
    scheduler_state: String,
}

/// Writes parameters and states after the last update of `spec` to `path`.
pub fn save<M: Module>(path: &Path, spec: &Spec, model: &M, trainer: &Trainer) -> Result<()> {
    let optimizer = match &trainer.optimizer {
        Optimizer::Module(updater) => updater.inner.into_bytes()?,
        Optimizer::Lbfgs(optimizer) => optimizer.into_bytes()?,
    };
    let checkpoint = Checkpoint {
        problem: spec.problem.clone(),
        optimizer: spec.optimizer.clone(),
        updates: spec.steps,
        parameters: hexadecimal(&model.clone().into_record().into_bytes()?),
        optimizer_state: hexadecimal(&optimizer),
        scheduler_state: hexadecimal(&trainer.rates.to_record().into_bytes()?),
    };
    write_json(path, &serde_json::to_value(checkpoint)?)
}

/// Loads what [`save`] wrote after `updates` updates into a model and a trainer of the same run.
///
/// Fails where the file is not of that run.
pub fn load<M: Module>(
    path: &Path,
    spec: &Spec,
    updates: usize,
    model: M,
    trainer: Trainer,
) -> Result<(M, Trainer)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let saved: Checkpoint = serde_json::from_str(&text)
        .with_context(|| format!("{shown} holds no parameters and states"))?;
    if (&saved.problem, &saved.optimizer) != (&spec.problem, &spec.optimizer) {
        bail!("{shown} was saved by a run with another problem or optimizer");
    }
    if saved.updates != updates {
        let found = saved.updates;
        bail!("{shown} was saved after {found} updates, but \"resume_step\" is {updates}");
    }
    let record = ModuleRecord::from_bytes(bytes(&saved.parameters)?)?;
    let model = model.try_load_record(record)?;
    let state = bytes(&saved.optimizer_state)?;
    let optimizer = match trainer.optimizer {
        Optimizer::Module(mut updater) => {
            updater.inner = updater.inner.from_bytes(state)?;
            updater.updated();
            Optimizer::Module(updater)
        }
        Optimizer::Lbfgs(optimizer) => Optimizer::Lbfgs(Box::new(optimizer.from_bytes(state)?)),
    };
    let record = LrSchedulerRecord::from_bytes(bytes(&saved.scheduler_state)?)?;
    let rates = trainer.rates.load_record(record);
    Ok((model, Trainer { optimizer, rates }))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Result<Bytes> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| {
        let text = std::str::from_utf8(pair)?;
        anyhow::Ok(u8::from_str_radix(text, 16)?)
    });
    let bytes = bytes.collect::<Result<Vec<_>>>();
    Ok(Bytes::from_bytes_vec(
        bytes.context("not in hexadecimal digits")?,
    ))
}
