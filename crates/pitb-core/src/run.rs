//! A run: one training with one fully resolved configuration, from its specification to its trace.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::a1::{self, Arithmetic, Mlp, Problem};
use crate::clip::clip_grad_norm;
use crate::layout::{self, Named};
use crate::observe::{Observation, Observations};
use crate::optimizers::{self, Configured, OptionError, Options, Trainer};
use crate::trace::{SCHEMA_VERSION, Trace};

const F32: &str = "float32";

/// Clipping that the training loop does between `backward` and `step`. What burn clips itself is
/// an option of its optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Over what the norm is taken.
    pub scope: Scope,
    /// The norm that is allowed.
    pub max_norm: f64,
}

/// Over what a norm is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All gradients as one vector.
    Global,
}

/// What to train.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// `burn/<name>`.
    pub id: String,
    /// burn's name of the optimizer.
    pub optimizer: String,
    /// Fields of its configuration; the others are left at burn's defaults.
    #[serde(default)]
    pub options: Options,
    /// The learning rate.
    pub lr: f64,
    /// The number of updates, all on the same batch.
    pub steps: usize,
    /// Clipping by the training loop.
    #[serde(default)]
    pub clip: Option<Clip>,
    /// The precision in which the inputs and biases are computed.
    #[serde(default)]
    pub initial_state: Arithmetic,
    /// Files and lines where it was asked for, by `options` and paths below it, for messages.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

impl Spec {
    /// Where its trace stands below `folder`.
    pub fn trace_path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.parquet", self.id))
    }

    /// The optimizer that it asks for.
    pub fn configured(&self) -> Result<Configured> {
        // The name becomes that of a file.
        let name = self.id.strip_prefix("burn/").unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(fits) {
            bail!(
                "run id {:?} is not of the form burn/<name>, of letters, digits, - and _",
                self.id
            );
        }
        if !self.lr.is_finite() || self.lr < 0.0 {
            let (id, lr) = (&self.id, self.lr);
            bail!("lr of run {id} is {lr}, not a finite number of 0 or more");
        }
        if self.steps == 0 {
            bail!("steps of run {} is 0; it must be 1 or more", self.id);
        }
        optimizers::configured(&self.optimizer, &self.options).map_err(|error| {
            let option = error
                .chain()
                .find_map(|cause| cause.downcast_ref::<OptionError>());
            let path = option.map_or("", |option| option.path.as_str());
            let context = match self.source(path) {
                Some(source) => format!("{source}: run {}", self.id),
                None => format!("run {}", self.id),
            };
            error.context(context)
        })
    }

    /// File and line of the option at `path`, or of the nearest thing around it.
    fn source(&self, path: &str) -> Option<&str> {
        let mut key = format!("options.{path}");
        loop {
            if let Some(source) = self.sources.get(&key) {
                return Some(source);
            }
            key.truncate(key.rfind('.')?);
        }
    }
}

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
/// Fails where the specification itself is wrong.
pub fn train(spec: &Spec) -> Result<Run> {
    let configured = spec.configured()?;
    let mut trace = Trace::default();
    let outcome = quietly(|| record(spec, &configured, &mut trace));
    let error = outcome.err();
    let mut metadata = metadata(spec, &configured);
    if let Some(error) = &error {
        metadata.insert("error".to_string(), json!(error));
    }
    Ok(Run {
        trace,
        metadata,
        error,
    })
}

/// Trains all of `specs` into `folder`, one trace each. All are checked before the first is
/// trained. `after` is told of each run once its trace is written.
pub fn train_all(
    specs: &[Spec],
    folder: &Path,
    mut after: impl FnMut(&Spec, &Run) -> Result<()>,
) -> Result<()> {
    for spec in specs {
        spec.configured()?;
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

fn metadata(spec: &Spec, configured: &Configured) -> Map<String, Value> {
    let parameters = layout::parameters(&a1::model(&a1::device(), spec.initial_state));
    let tensors = parameters.iter();
    let tensors = tensors.map(|tensor| json!({"name": tensor.name, "shape": tensor.shape}));
    let count = parameters.iter().map(|tensor| tensor.values.len());
    let value = json!({
        "schema": SCHEMA_VERSION,
        "run": spec.id,
        "side": "burn",
        "configuration": {
            "optimizer": spec.optimizer,
            "options": configured.options,
            "lr": spec.lr,
            "steps": spec.steps,
            "clip": spec.clip,
            "initial_state": spec.initial_state,
        },
        "model": {
            "name": "a1",
            "parameters": count.sum::<usize>(),
            "tensors": tensors.collect::<Vec<_>>(),
        },
        "dtype": F32,
        "versions": {
            "pitb": env!("CARGO_PKG_VERSION"),
            "burn": env!("PITB_BURN_VERSION"),
            "rustc": env!("PITB_RUSTC_VERSION"),
            "target": env!("PITB_TARGET"),
        },
    });
    match value {
        Value::Object(metadata) => metadata,
        _ => unreachable!("written as an object above"),
    }
}

/// Runs `work`; a panic becomes its message and prints nothing.
fn quietly(work: impl FnOnce()) -> Result<(), String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    outcome.map_err(|payload| panic_message(payload.as_ref()))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_string()
}

/// Trains `spec` into `trace`. Within a step: logits, loss, gradients, norm, clipped gradients,
/// rate, parameters, states.
fn record(spec: &Spec, configured: &Configured, trace: &mut Trace) {
    let device = a1::device();
    let problem = Problem::new(&device, spec.initial_state);
    let mut model = a1::model(&device, spec.initial_state);
    let observations = Observations::default();
    let mut trainer = configured.start(observations.clone());

    push_inputs(trace, &problem);
    push_all(trace, 0, "param", &layout::parameters(&model));
    for step in 1..=spec.steps {
        let states;
        (model, states) = match &mut trainer {
            Trainer::Module(optimizer) => {
                let (logits, loss) = problem.forward(&model);
                push_evaluation(trace, step, &logits, &loss);
                let mut grads = GradientsParams::from_grads(loss.backward(), &model);
                let gradients = layout::gradients(&model, &grads);
                push_all(trace, step, "grad", &gradients);
                if let Some(Clip { max_norm, .. }) = spec.clip {
                    let total = clip_grad_norm(&model, &mut grads, max_norm);
                    trace.push_scalar(step, "grad_norm", "float64", total);
                }
                let updated = optimizer.step(spec.lr, model, grads);
                let observed = pair(gradients, observations.take());
                if spec.clip.is_some() || configured.clips {
                    for (parameter, observation) in &observed {
                        let clipped = observation.gradient.clone();
                        let (shape, values) = layout::to_pytorch(clipped, parameter.transposed);
                        trace.push(step, "clipped_grad", &parameter.name, &shape, F32, &values);
                    }
                }
                trace.push_scalar(step, "lr", "float64", rate(&observed));
                (updated, observed)
            }
            Trainer::Lbfgs(optimizer) => {
                let mut first = true;
                let (updated, _) = optimizer.step(spec.lr, model, |model: Mlp| {
                    let (logits, loss) = problem.forward(&model);
                    let value = loss.clone().into_scalar::<f64>();
                    let mut grads = GradientsParams::from_grads(loss.clone().backward(), &model);
                    // One step evaluates often; the trace holds what it starts from.
                    let first = std::mem::take(&mut first);
                    if first {
                        push_evaluation(trace, step, &logits, &loss);
                        push_all(trace, step, "grad", &layout::gradients(&model, &grads));
                    }
                    if let Some(Clip { max_norm, .. }) = spec.clip {
                        let total = clip_grad_norm(&model, &mut grads, max_norm);
                        if first {
                            trace.push_scalar(step, "grad_norm", "float64", total);
                            let clipped = layout::gradients(&model, &grads);
                            push_all(trace, step, "clipped_grad", &clipped);
                        }
                    }
                    (value, grads)
                });
                // It is handed the rate and tells nobody what it makes of it.
                trace.push_scalar(step, "lr", "float64", spec.lr);
                (updated, Vec::new())
            }
        };
        push_all(trace, step, "param", &layout::parameters(&model));
        push_states(trace, step, &spec.optimizer, &states);
    }
    let (_, loss) = problem.forward(&model);
    trace.push_scalar(spec.steps + 1, "loss", F32, loss.into_scalar::<f64>());
}

/// The optimizer is called for the parameters that have a gradient, in the order of the module.
fn pair(gradients: Vec<Named>, observed: Vec<Observation>) -> Vec<(Named, Observation)> {
    assert_eq!(
        gradients.len(),
        observed.len(),
        "one call for each gradient"
    );
    gradients.into_iter().zip(observed).collect()
}

/// The rate that the optimizer was given, the same for all parameters.
fn rate(observed: &[(Named, Observation)]) -> f64 {
    let mut rates = observed.iter().map(|(_, observation)| observation.lr);
    let first = rates.next().expect("some parameter has a gradient");
    assert!(
        rates.all(|rate| rate == first),
        "one rate for all parameters"
    );
    first
}

fn push_inputs(trace: &mut Trace, problem: &Problem) {
    let (shape, values) = layout::to_pytorch(problem.x.to_data(), false);
    trace.push(0, "input", "x", &shape, F32, &values);
    let (shape, values) = layout::to_pytorch(problem.y.to_data(), false);
    trace.push(0, "input", "y", &shape, "int64", &values);
}

fn push_evaluation(trace: &mut Trace, step: usize, logits: &Tensor<2>, loss: &Tensor<1>) {
    let (shape, values) = layout::to_pytorch(logits.to_data(), false);
    trace.push(step, "logits", "", &shape, F32, &values);
    trace.push_scalar(step, "loss", F32, loss.clone().into_scalar::<f64>());
}

fn push_all(trace: &mut Trace, step: usize, quantity: &str, tensors: &[Named]) {
    for tensor in tensors {
        trace.push(
            step,
            quantity,
            &tensor.name,
            &tensor.shape,
            F32,
            &tensor.values,
        );
    }
}

/// States under PyTorch's names, sorted by name so that both sides write them in one order.
fn push_states(trace: &mut Trace, step: usize, optimizer: &str, observed: &[(Named, Observation)]) {
    let names = optimizers::state_names(optimizer);
    let mut states: BTreeMap<String, Vec<State>> = BTreeMap::new();
    for (parameter, observation) in observed {
        let mut add = |burn_name: &str, shape, dtype, values| {
            let name = names.get(burn_name).map_or(burn_name, String::as_str);
            let state = State {
                tensor: parameter.name.clone(),
                shape,
                dtype,
                values,
            };
            states
                .entry(format!("state.{name}"))
                .or_default()
                .push(state);
        };
        for (name, value, dtype) in &observation.scalars {
            add(name, Vec::new(), dtype, vec![*value]);
        }
        for (name, data) in &observation.tensors {
            // A state of the parameter's own shape is laid out as the parameter is.
            let alike = data.shape().iter().eq(parameter.shape.iter().rev());
            let transposed = parameter.transposed && alike;
            let (shape, values) = layout::to_pytorch(data.clone(), transposed);
            add(name, shape, F32, values);
        }
    }
    for (quantity, states) in &states {
        for state in states {
            let State {
                tensor,
                shape,
                dtype,
                values,
            } = state;
            trace.push(step, quantity, tensor, shape, dtype, values);
        }
    }
}

struct State {
    tensor: String,
    shape: Vec<usize>,
    dtype: &'static str,
    values: Vec<f64>,
}

/// Reads the specifications of many runs from a JSON file `{"runs": [...]}`.
pub fn read_specs(path: &Path) -> Result<Vec<Spec>> {
    #[derive(Deserialize)]
    struct Batch {
        runs: Vec<Spec>,
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the runs in {}", path.display()))?;
    let batch: Batch = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{} does not list runs: {error}", path.display()))?;
    Ok(batch.runs)
}
