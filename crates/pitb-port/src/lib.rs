//! Trains what `pitb port` wrote, on the problems of the breadth.
//!
//! The program around it is generated: it names the generated modules, and hands their functions
//! to [`Training`]. What is judged is therefore the generated code itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use burn::module::Module;
use burn::optim::GradientsParams;
use pitb_core::a1;
use pitb_core::layout;
use pitb_core::models::{Objective, Problem, Work, with_problem};
use pitb_core::problem::{Definition, Dtype};
use pitb_core::run::quietly;
use pitb_core::trace::{SCHEMA_VERSION, Trace};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The generated modules.
pub trait Ported {
    /// Trains with the functions of the module called `module`.
    fn train<M: Module>(&self, module: &str, training: Training<M>) -> Result<()>;
}

/// A run that is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    /// `burn/<name>`.
    id: String,
    /// The generated module.
    module: String,
    /// The name of the problem.
    problem: String,
    dtype: Dtype,
    /// The number of updates.
    steps: usize,
    /// The names of the parameters whose `require_grad` is off.
    frozen: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    problems: BTreeMap<String, Definition>,
    runs: Vec<Spec>,
}

/// One training: a model, its objective and the trace that it leaves.
pub struct Training<'a, M> {
    model: M,
    objective: Objective<M>,
    steps: usize,
    trace: &'a mut Trace,
}

impl<M: Module> Training<'_, M> {
    /// Trains with an optimizer that takes gradients.
    pub fn gradients<O>(
        mut self,
        mut optimizer: O,
        mut update: impl FnMut(M, &mut O, GradientsParams) -> M,
    ) -> Result<()> {
        let mut model = self.model.clone();
        self.parameters(0, &model);
        for step in 1..=self.steps {
            let (evaluation, grads) = self.objective.gradients(&model, step);
            self.loss(step, evaluation.map(|it| it.loss.into_scalar::<f64>()));
            model = update(model, &mut optimizer, grads);
            self.parameters(step, &model);
        }
        self.last(&model);
        Ok(())
    }

    /// Trains with an optimizer that evaluates the loss itself.
    pub fn losses<O>(
        mut self,
        mut optimizer: O,
        mut update: impl FnMut(M, &mut O, &mut dyn FnMut(M) -> (f64, GradientsParams)) -> (M, f64),
    ) -> Result<()> {
        let mut model = self.model.clone();
        self.parameters(0, &model);
        for step in 1..=self.steps {
            let objective = &self.objective;
            let mut first = None;
            let mut closure = |model: M| {
                let (evaluation, grads) = objective.gradients(&model, step);
                let loss = evaluation.map_or(f64::NAN, |it| it.loss.into_scalar::<f64>());
                first.get_or_insert(loss);
                (loss, grads)
            };
            (model, _) = update(model, &mut optimizer, &mut closure);
            self.loss(step, first);
            self.parameters(step, &model);
        }
        self.last(&model);
        Ok(())
    }

    fn last(&mut self, model: &M) {
        let loss = self.objective.loss(model);
        self.loss(self.steps + 1, loss.map(|it| it.loss.into_scalar::<f64>()));
    }

    fn loss(&mut self, step: usize, loss: Option<f64>) {
        if let Some(loss) = loss {
            self.trace.push_scalar(step, "loss", "float64", loss);
        }
    }

    fn parameters(&mut self, step: usize, model: &M) {
        for tensor in layout::parameters(model) {
            let (name, shape) = (&tensor.name, &tensor.shape);
            self.trace
                .push(step, "param", name, shape, tensor.dtype, &tensor.values);
        }
    }
}

struct Run<'a, P> {
    ported: &'a P,
    spec: &'a Spec,
    trace: &'a mut Trace,
}

impl<P: Ported> Work for Run<'_, P> {
    type Output = Result<()>;

    fn on<M: Module>(self, problem: Problem<M>) -> Result<()> {
        let training = Training {
            model: layout::frozen(problem.model, &self.spec.frozen),
            objective: problem.objective,
            steps: self.spec.steps,
            trace: self.trace,
        };
        self.ported.train(&self.spec.module, training)
    }
}

/// Trains what the two arguments of the program name, a file of runs and the folder of traces.
pub fn main(ported: &impl Ported) -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(PathBuf::from);
    match run(ported, &arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(ported: &impl Ported, arguments: &[PathBuf]) -> Result<()> {
    let [runs, traces] = arguments else {
        bail!("give a file of runs and the folder of traces");
    };
    let text =
        std::fs::read_to_string(runs).with_context(|| format!("cannot read {}", runs.display()))?;
    let batch: Batch = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{} does not list runs: {error}", runs.display()))?;
    for spec in &batch.runs {
        train(ported, spec, &batch.problems, traces)?;
    }
    Ok(())
}

/// A panic ends the run, not the program; the trace holds the steps before it, and its message.
fn train(
    ported: &impl Ported,
    spec: &Spec,
    problems: &BTreeMap<String, Definition>,
    traces: &Path,
) -> Result<()> {
    let definition = problems
        .get(&spec.problem)
        .with_context(|| format!("run {}: there is no problem {:?}", spec.id, spec.problem))?;
    let mut trace = Trace::default();
    let work = Run {
        ported,
        spec,
        trace: &mut trace,
    };
    // A panic is the outer error.
    let outcome = quietly(|| {
        let trained = with_problem(definition, spec.dtype, &a1::device(), 1, work);
        Ok(trained)
    });
    let mut metadata = Map::new();
    metadata.insert("schema".to_string(), json!(SCHEMA_VERSION));
    metadata.insert("run".to_string(), json!(spec.id));
    metadata.insert("side".to_string(), json!("burn"));
    metadata.insert("dtype".to_string(), json!(spec.dtype.name()));
    match outcome {
        Ok(done) => done?.with_context(|| format!("run {}", spec.id))?,
        Err(panic) => {
            metadata.insert("error".to_string(), Value::String(panic.to_string()));
        }
    }
    trace.write(&traces.join(format!("{}.parquet", spec.id)), metadata)
}
