//! A run: one training with one fully resolved configuration, from its specification to its trace.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use burn::module::Module;
use serde_json::{Map, Value, json};

use crate::a1;
use crate::checkpoint::{self, Refused};
use crate::layout;
use crate::models::{Problem, Work, with_problem};
use crate::record::record;
use crate::trace::{SCHEMA_VERSION, Trace};
use crate::trainer::Trainer;

pub use crate::clip::Clip;
use crate::spec::Plan;
pub use crate::spec::{Spec, parse_specs, read_specs};

/// A run that has ended.
pub struct Run {
    /// What it recorded.
    pub trace: Trace,
    /// Its metadata, without the contents.
    pub metadata: Map<String, Value>,
    /// Why it ended early, where it did.
    pub error: Option<String>,
}

impl Run {
    /// Writes the trace to `path`.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.trace.write(path, self.metadata.clone())
    }
}

/// Trains `spec`. A panic of burn's ends the run, not the program: the trace then holds what was
/// recorded before it, and the message.
///
/// Fails where the specification itself is wrong, or a file that it names.
pub fn train(spec: &Spec) -> Result<Run> {
    let plan = spec.plan()?;
    on_problem(spec, &plan, Training { spec, plan: &plan })?
        .with_context(|| format!("run {}", spec.id))
}

fn on_problem<W: Work>(spec: &Spec, plan: &Plan, work: W) -> Result<W::Output> {
    let device = a1::device();
    with_problem(&plan.definition, spec.dtype, &device, spec.accumulate, work)
}

/// Takes the run up from its checkpoint, to see whether it can be.
struct Resuming<'a> {
    spec: &'a Spec,
    plan: &'a Plan,
    path: &'a Path,
    step: usize,
}

impl Work for Resuming<'_> {
    type Output = Result<()>;

    fn on<M: Module>(self, problem: Problem<M>) -> Result<()> {
        let trainer = Trainer::new(self.plan, self.spec.clipping_by, None)?;
        checkpoint::load(self.path, self.spec, self.step, problem.model, trainer).map(drop)
    }
}

struct Training<'a> {
    spec: &'a Spec,
    plan: &'a Plan,
}

impl Work for Training<'_> {
    type Output = Result<Run>;

    fn on<M: Module>(self, problem: Problem<M>) -> Result<Run> {
        let Self { spec, plan } = self;
        let mut metadata = metadata(spec, plan, &problem.model);
        let mut trace = Trace::default();
        let outcome = quietly(|| record(spec, plan, problem, &mut trace));
        let error = match outcome {
            Err(error) if error.is::<Refused>() => return Err(error),
            Err(error) => Some(format!("{error:#}")),
            Ok(()) => None,
        };
        if let Some(error) = &error {
            metadata.insert("error".to_string(), json!(error));
        }
        Ok(Run {
            trace,
            metadata,
            error,
        })
    }
}

/// Trains all of `specs` into `folder`, one trace each. All are checked before the first is
/// trained, also what they resume from, unless an earlier one of them saves it. `after` is told of each run once its trace is written.
pub fn train_all(
    specs: &[Spec],
    folder: &Path,
    mut after: impl FnMut(&Spec, &Run) -> Result<()>,
) -> Result<()> {
    let mut saved = HashSet::new();
    for spec in specs {
        let plan = spec.plan()?;
        if let (Some(path), Some(step)) = (&spec.resume, spec.resume_step)
            && !saved.contains(path)
        {
            let work = Resuming {
                spec,
                plan: &plan,
                path,
                step,
            };
            match quietly(|| on_problem(spec, &plan, work)?) {
                Err(error) if error.is::<Refused>() => {
                    return Err(error.context(format!("run {}", spec.id)));
                }
                // Whatever else there is will be the outcome of the run.
                _ => {}
            }
        }
        saved.extend(spec.save.iter());
    }
    for spec in specs {
        let run = train(spec)?;
        if let Some(error) = &run.error {
            eprintln!("{}: ended early: {error}", spec.id);
        }
        run.write(&spec.trace_path(folder))?;
        after(spec, &run)?;
    }
    Ok(())
}

/// Trains all of `specs` into one file: the rows of a trace, run after run, and in its metadata
/// under `runs` each run's own with its number of `entries`. A run that is refused is `refused`
/// there with the reason, and the others go on.
pub fn train_together(specs: &[Spec], path: &Path) -> Result<()> {
    let mut whole = Trace::default();
    let mut runs = Vec::with_capacity(specs.len());
    for spec in specs {
        match train(spec) {
            Ok(Run {
                trace,
                mut metadata,
                ..
            }) => {
                metadata.insert("entries".to_string(), json!(trace.entries().len()));
                whole.append(trace);
                runs.push(Value::Object(metadata));
            }
            Err(error) => runs.push(json!({"run": spec.id, "refused": format!("{error:#}")})),
        }
    }
    let mut metadata = Map::new();
    metadata.insert("schema".to_string(), json!(SCHEMA_VERSION));
    metadata.insert("runs".to_string(), Value::Array(runs));
    whole.write(path, metadata)
}

fn metadata<M: Module>(spec: &Spec, plan: &Plan, model: &M) -> Map<String, Value> {
    let parameters = layout::parameters(model);
    let tensors = parameters.iter();
    let tensors = tensors.map(|tensor| json!({"name": tensor.name, "shape": tensor.shape}));
    // One that stands in two places counts once.
    let mut ids = HashSet::new();
    let unique = parameters.iter().filter(|tensor| ids.insert(tensor.id));
    let count = unique.map(|tensor| tensor.values.len());
    let mut value = json!({
        "schema": SCHEMA_VERSION,
        "run": spec.id,
        "side": "burn",
        "configuration": {
            "optimizer": spec.optimizer,
            "options": plan.optimizer.options,
            "lr": spec.lr,
            "steps": spec.steps,
            "clip": spec.clip,
            "initial_state": spec.initial_state,
        },
        "model": {
            "name": spec.problem.as_deref().unwrap_or("a1"),
            "parameters": count.sum::<usize>(),
            "tensors": tensors.collect::<Vec<_>>(),
        },
        "dtype": spec.dtype.name(),
        "versions": pitb_record::versions(),
    });
    add_given(&mut value["configuration"], spec, plan);
    match value {
        Value::Object(metadata) => metadata,
        _ => unreachable!("written as an object above"),
    }
}

/// Adds what the specification gives beyond what every run has.
fn add_given(configuration: &mut Value, spec: &Spec, plan: &Plan) {
    let given = serde_json::to_value(spec).expect("a specification is JSON");
    let given = given.as_object().into_iter().flatten();
    for (key, value) in given.filter(|(key, _)| !["id", "sources"].contains(&key.as_str())) {
        if configuration.get(key).is_none() {
            configuration[key] = value.clone();
        }
    }
    for (index, (_, configured)) in plan.groups.iter().enumerate() {
        configuration["groups"][index]["optimizer"] = json!(configured.name);
        configuration["groups"][index]["options"] = configured.options.clone();
    }
}

/// Runs `work`; a panic becomes an error with its message and prints nothing.
pub fn quietly<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    outcome.unwrap_or_else(|payload| Err(anyhow!(panic_message(payload.as_ref()))))
}

/// The message on one line; some of burn's are paragraphs.
fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words = text
        .unwrap_or("a panic without a message")
        .split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}
