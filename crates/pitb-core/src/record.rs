//! The training of a run, and what its trace holds of it.

use std::collections::BTreeMap;

use anyhow::Result;
use burn::module::Module;
use burn::optim::{GradientsParams, LBFGS};

use crate::checkpoint;
use crate::clip::{Norms, clip};
use crate::layout::{self, Named};
use crate::models::{Evaluation, Objective, Problem, Shown};
use crate::observe::{Observation, Observations, lbfgs_state};
use crate::optimizers::Configured;
use crate::spec::{ClippingBy, Plan, Spec};
use crate::trace::Trace;
use crate::trainer::{Optimizer, Trainer};
use pitb_record::layout::dtype_name;
use pitb_record::state_name;

const F64: &str = "float64";

/// Trains `spec` into `trace`. Within a step: logits, loss, gradients, norm, clipped gradients,
/// rate, parameters, states.
///
/// Fails where clipping is refused or a file cannot be read or written.
pub fn record<M: Module>(
    spec: &Spec,
    plan: &Plan,
    problem: Problem<M>,
    trace: &mut Trace,
) -> Result<()> {
    let Problem {
        model,
        objective,
        inputs,
    } = problem;
    let mut model = layout::frozen(model, &spec.frozen);
    let observable = spec.observe && spec.clipping_by != ClippingBy::Config;
    let observations = observable.then(Observations::default);
    let mut trainer = Trainer::new(plan, spec.clipping_by, observations.as_ref())?;
    let mut recorder = Recorder {
        spec,
        plan,
        trace,
        silent: !spec.observe,
    };

    let start = match (&spec.resume, spec.resume_step) {
        (Some(path), Some(step)) => {
            (model, trainer) = checkpoint::load(path, spec, step, model, trainer)?;
            step
        }
        _ => {
            recorder.inputs(&inputs);
            0
        }
    };
    recorder.tensors(start, "param", &layout::parameters(&model));
    for step in start + 1..=spec.steps {
        model = recorder.step(step, model, &objective, &mut trainer, observations.as_ref())?;
    }
    match spec.observe {
        true => recorder.evaluation(spec.steps + 1, objective.loss(&model).as_ref()),
        false => recorder.tensors(spec.steps, "param", &layout::parameters(&model)),
    }
    match &spec.save {
        Some(path) => checkpoint::save(path, spec, &model, &trainer),
        None => Ok(()),
    }
}

struct Recorder<'a> {
    spec: &'a Spec,
    plan: &'a Plan,
    trace: &'a mut Trace,
    /// Whether what comes now is left out of the trace.
    silent: bool,
}

impl Recorder<'_> {
    /// One update.
    fn step<M: Module>(
        &mut self,
        step: usize,
        model: M,
        objective: &Objective<M>,
        trainer: &mut Trainer,
        observations: Option<&Observations>,
    ) -> Result<M> {
        let rates = trainer.rates.step();
        let given = rates.base();
        match &mut trainer.optimizer {
            Optimizer::Module(updater) => {
                let (_, gradients, grads) = self.gradients(step, &model, objective)?;
                let model = updater.step(rates, model, grads);
                let observed = observations.map(Observations::take);
                let observed = observed.map_or_else(Vec::new, |seen| pair(gradients, seen));
                self.clipped(step, &observed);
                self.rates(step, given, &observed);
                self.parameters(step, &model);
                self.states(step, &observed);
                Ok(model)
            }
            Optimizer::Lbfgs(optimizer) => {
                let silent = self.silent;
                let (mut failed, mut evaluations) = (None, 0);
                let (model, _) = optimizer.step(given, model, |model: M| {
                    evaluations += 1;
                    let (loss, grads) = match self.gradients(step, &model, objective) {
                        Ok((evaluation, _, grads)) => {
                            let loss = evaluation.map(|it| it.loss.into_scalar::<f64>());
                            (loss, grads)
                        }
                        Err(error) => {
                            failed.get_or_insert(error);
                            (None, GradientsParams::new())
                        }
                    };
                    if self.spec.clip.is_some() && !self.silent {
                        let clipped = layout::gradients(&model, &grads);
                        self.tensors(step, "clipped_grad", &clipped);
                    }
                    // One step evaluates often; the trace holds what it starts from.
                    self.silent = true;
                    (loss.unwrap_or(f64::NAN), grads)
                });
                self.silent = silent;
                if let Some(error) = failed {
                    return Err(error);
                }
                // It is handed the rate and tells nobody what it makes of it.
                self.rates(step, given, &[]);
                self.parameters(step, &model);
                if !self.silent {
                    self.lbfgs_states(step, &layout::parameters(&model), optimizer, evaluations)?;
                }
                Ok(model)
            }
        }
    }

    /// The gradients that update `step` starts from, first as they are and under their names, then
    /// clipped as the specification wants it.
    fn gradients<M: Module>(
        &mut self,
        step: usize,
        model: &M,
        objective: &Objective<M>,
    ) -> Result<(Option<Evaluation>, Vec<Named>, GradientsParams)> {
        let (evaluation, mut grads) = objective.gradients(model, step);
        self.evaluation(step, evaluation.as_ref());
        let mut named = Vec::new();
        if !self.silent {
            named = layout::gradients(model, &grads);
            self.tensors(step, "grad", &named);
        }
        if let Some(how) = &self.spec.clip {
            let norms = clip(model, &mut grads, how)?;
            self.norms(step, &norms, &named);
        }
        Ok((evaluation, named, grads))
    }

    fn inputs(&mut self, inputs: &[Shown]) {
        if self.silent {
            return;
        }
        for input in inputs {
            let (name, shape) = (&input.name, &input.shape);
            self.trace
                .push(0, "input", name, shape, input.dtype, &input.values);
        }
    }

    fn evaluation(&mut self, step: usize, evaluation: Option<&Evaluation>) {
        let (false, Some(Evaluation { logits, loss })) = (self.silent, evaluation) else {
            return;
        };
        if let Some(logits) = logits {
            let data = logits.to_data();
            let dtype = dtype_name(data.dtype());
            let (shape, values) = layout::to_pytorch(data, false);
            self.trace.push(step, "logits", "", &shape, dtype, &values);
        }
        let dtype = dtype_name(loss.dtype());
        let value = loss.clone().into_scalar::<f64>();
        self.trace.push_scalar(step, "loss", dtype, value);
    }

    fn norms(&mut self, step: usize, norms: &Norms, gradients: &[Named]) {
        if self.silent {
            return;
        }
        match norms {
            Norms::None => {}
            Norms::Total(total) => self.trace.push_scalar(step, "grad_norm", F64, *total),
            Norms::Each(norms) => {
                for (id, norm) in norms {
                    let named = gradients.iter().find(|gradient| gradient.id == *id);
                    let name = named.map_or("", |gradient| gradient.name.as_str());
                    self.trace.push(step, "grad_norm", name, &[], F64, &[*norm]);
                }
            }
        }
    }

    /// The gradients that the optimizer was given in the end, where anything clips them.
    fn clipped(&mut self, step: usize, observed: &[(Named, Observation)]) {
        let clips = |configured: &Configured| configured.clipping.is_some();
        let groups = &self.plan.groups;
        let clips = self.spec.clip.is_some()
            || clips(&self.plan.optimizer)
            || groups.iter().any(|(_, configured)| clips(configured));
        if !clips {
            return;
        }
        for (parameter, observation) in observed {
            let clipped = observation.gradient.clone();
            let dtype = dtype_name(clipped.dtype());
            let (shape, values) = layout::to_pytorch(clipped, parameter.transposed);
            let name = &parameter.name;
            self.trace
                .push(step, "clipped_grad", name, &shape, dtype, &values);
        }
    }

    /// The rate that was observed, or where nothing was the one `given`. With groups, the one given
    /// to the parameters in none of them, and under its name that of each parameter.
    fn rates(&mut self, step: usize, given: f64, observed: &[(Named, Observation)]) {
        if self.silent {
            return;
        }
        if self.plan.groups.is_empty() {
            let mut rates = observed.iter().map(|(_, observation)| observation.lr);
            let first = rates.next().unwrap_or(given);
            assert!(
                rates.all(|rate| rate == first),
                "one rate for all parameters"
            );
            self.trace.push_scalar(step, "lr", F64, first);
            return;
        }
        self.trace.push_scalar(step, "lr", F64, given);
        for (parameter, observation) in observed {
            let (name, lr) = (&parameter.name, observation.lr);
            self.trace.push(step, "lr", name, &[], F64, &[lr]);
        }
    }

    fn parameters<M: Module>(&mut self, step: usize, model: &M) {
        if !self.silent {
            self.tensors(step, "param", &layout::parameters(model));
        }
    }

    fn tensors(&mut self, step: usize, quantity: &str, tensors: &[Named]) {
        for tensor in tensors {
            let (name, shape) = (&tensor.name, &tensor.shape);
            self.trace
                .push(step, quantity, name, shape, tensor.dtype, &tensor.values);
        }
    }

    /// The one state of all `parameters` under PyTorch's names: vectors cut into tensors; of the
    /// history its length and the newest pair.
    fn lbfgs_states(
        &mut self,
        step: usize,
        parameters: &[Named],
        optimizer: &LBFGS,
        evaluations: usize,
    ) -> Result<()> {
        let mut found = BTreeMap::new();
        for (name, shape, dtype, values) in lbfgs_state(optimizer)? {
            // A history is a list, `history_s.0` its oldest element.
            let (list, item) = name.split_once('.').unwrap_or((&name, ""));
            let pytorch = state_name(self.plan.optimizer.name, list, 1, false);
            let (name, place) = match item {
                "" => (pytorch.to_string(), 0),
                "len" => (format!("{pytorch}.len"), 0),
                place => (pytorch.to_string(), place.parse::<usize>()?),
            };
            let older = found.get(&name).map(|kept: &Kept| kept.place);
            if older.is_none_or(|older| older <= place) {
                let kept = Kept {
                    place,
                    shape,
                    dtype,
                    values,
                };
                found.insert(name, kept);
            }
        }
        let count = Kept {
            place: 0,
            shape: Vec::new(),
            dtype: "int64",
            values: vec![evaluations as f64],
        };
        found.insert("evaluations".into(), count);
        let whole = parameters.iter().map(|it| it.values.len()).sum::<usize>();
        for (name, kept) in found {
            let Kept {
                shape,
                dtype,
                values,
                ..
            } = kept;
            let quantity = format!("state.{name}");
            if shape.is_empty() || values.len() != whole {
                self.trace.push(step, &quantity, "", &shape, dtype, &values);
                continue;
            }
            let mut rest = values.as_slice();
            for Named {
                name,
                shape,
                transposed,
                ..
            } in parameters
            {
                let (piece, after) = rest.split_at(shape.iter().product());
                rest = after;
                let stored = shape.iter().rev().copied().collect::<Vec<_>>();
                let piece = match transposed {
                    true => layout::flipped(&stored, piece).1,
                    false => piece.to_vec(),
                };
                self.trace.push(step, &quantity, name, shape, dtype, &piece);
            }
        }
        Ok(())
    }

    /// States under PyTorch's names, sorted by name so that both sides write them in one order.
    fn states(&mut self, step: usize, observed: &[(Named, Observation)]) {
        let mut states: BTreeMap<String, Vec<State>> = BTreeMap::new();
        for (parameter, observation) in observed {
            let optimizer = self.plan.optimizer_of(&parameter.name);
            let (dimensions, transposed) = (parameter.shape.len(), parameter.transposed);
            let mut add = |burn_name: &str, shape, dtype, values| {
                let name = state_name(optimizer, burn_name, dimensions, transposed);
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
                // A state is laid out as the parameter is, also one that has a row or a column alone.
                let dtype = dtype_name(data.dtype());
                let (shape, values) = layout::to_pytorch(data.clone(), transposed);
                add(name, shape, dtype, values);
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
                self.trace
                    .push(step, quantity, tensor, shape, dtype, values);
            }
        }
    }
}

/// A state of L-BFGS, of a list its newest element.
struct Kept {
    /// Its place in the list.
    place: usize,
    shape: Vec<usize>,
    dtype: &'static str,
    values: Vec<f64>,
}

struct State {
    tensor: String,
    shape: Vec<usize>,
    dtype: &'static str,
    values: Vec<f64>,
}

/// The optimizer is called once for each gradient, in the order of the module.
fn pair(gradients: Vec<Named>, observed: Vec<Observation>) -> Vec<(Named, Observation)> {
    assert_eq!(
        gradients.len(),
        observed.len(),
        "one call for each gradient"
    );
    gradients.into_iter().zip(observed).collect()
}
