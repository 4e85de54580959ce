//! Parameters and states of a run, saved and loaded through burn's records.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use burn::lr_scheduler::LrSchedulerRecord;
use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use serde::{Deserialize, Serialize};

use crate::json;
use crate::layout;
use crate::run::quietly;
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

/// A file that cannot be taken up or written: a mistake of who asked for it, and no outcome of the
/// run.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes parameters and states after the last update of `spec` to `path`.
///
/// Fails with [`Refused`] where the file cannot be written.
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
    write_json(path, &serde_json::to_value(checkpoint)?).context(Refused("\"save\"".to_string()))
}

/// Loads what [`save`] wrote after `updates` updates into a model and a trainer of the same run.
///
/// Fails with [`Refused`] where the file is not of that run, or no such file.
pub fn load<M: Module>(
    path: &Path,
    spec: &Spec,
    updates: usize,
    model: M,
    trainer: Trainer,
) -> Result<(M, Trainer)> {
    let shown = path.display();
    // burn panics of some records that are none.
    quietly(|| loaded(path, spec, updates, model, trainer))
        .with_context(|| Refused(format!("{shown} cannot be resumed from")))
}

fn loaded<M: Module>(
    path: &Path,
    spec: &Spec,
    updates: usize,
    model: M,
    trainer: Trainer,
) -> Result<(M, Trainer)> {
    let saved: Checkpoint = json::read(path, "hold parameters and states")?;
    let name = |problem: &Option<String>| problem.clone().unwrap_or_else(|| "a1".to_string());
    for (what, found, wanted) in [
        ("problem", name(&saved.problem), name(&spec.problem)),
        ("optimizer", saved.optimizer, spec.optimizer.clone()),
    ] {
        if found != wanted {
            bail!("it was saved by a run with the {what} {found}, not {wanted}");
        }
    }
    if saved.updates != updates {
        let found = saved.updates;
        bail!("it was saved after {found} updates, but \"resume_step\" is {updates}");
    }
    let record = ModuleRecord::from_bytes(bytes(&saved.parameters)?)?;
    let fresh = layout::parameters(&model);
    let model = model.try_load_record(record)?;
    for (found, wanted) in layout::parameters(&model).iter().zip(&fresh) {
        let kind = |it: &layout::Named| format!("{} of shape {:?}", it.dtype, it.shape);
        let (name, found, wanted) = (&wanted.name, kind(found), kind(wanted));
        if found != wanted {
            bail!("its {name:?} is {found}, and that of the run {wanted}");
        }
    }
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
