//! An optimizer around another that notes what it was given and what it keeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use burn::optim::{LBFGS, LearningRate, Optimizer, RecordState, StateSink};
use burn::tensor::{Device, Tensor, TensorData};
use burn_pack::{Reader, Scalar};

use crate::layout::{dtype_name, to_pytorch};

/// What one call of [`Optimizer::step`] saw: one parameter in one step.
#[derive(Debug)]
pub struct Observation {
    /// The rate it was given.
    pub lr: LearningRate,
    /// The gradient after burn's own clipping.
    pub gradient: TensorData,
    /// Tensors of the state after the step, by burn's name.
    pub tensors: Vec<(String, TensorData)>,
    /// Numbers of the state after the step, by burn's name, and the type that burn keeps them in.
    pub scalars: Vec<(String, f64, &'static str)>,
    /// The state before the step, where there was one and it was asked for.
    pub earlier: Option<Flattened>,
    /// burn's name of the optimizer, where [`Observed::named`] was told it.
    pub optimizer: &'static str,
}

/// Tensors and numbers of a state, as in [`Observation`].
#[derive(Clone, Debug, Default)]
pub struct Flattened {
    /// Tensors, by burn's name.
    pub tensors: Vec<(String, TensorData)>,
    /// Numbers, by burn's name, and the type that burn keeps them in.
    pub scalars: Vec<(String, f64, &'static str)>,
}

/// The observations of a run since they were last taken, in the order of the parameters.
#[derive(Clone, Debug, Default)]
pub struct Observations(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Observation>>,
    /// Whether nobody looks: then steps cost what they cost without observation.
    idle: AtomicBool,
    /// Whether the states before the steps are noted too.
    earlier: AtomicBool,
}

impl Observations {
    /// Takes what was noted since the last call.
    pub fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the steps to come or not; they are noted until this is called. With `earlier`, also
    /// the states before them.
    pub fn watch(&self, on: bool, earlier: bool) {
        self.0.idle.store(!on, Ordering::Relaxed);
        self.0.earlier.store(earlier, Ordering::Relaxed);
    }

    fn note(&self, observation: Observation) {
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(observation);
    }
}

/// A state as a trace holds it: name, shape, PyTorch's name of the element type, values.
pub type State = (String, Vec<usize>, &'static str, Vec<f64>);

/// The state of `optimizer` under burn's names, tensors first. It is one for the whole model.
///
/// Its record tells its contents to no one but the reader of its bytes.
pub fn lbfgs_state(optimizer: &LBFGS) -> Result<Vec<State>> {
    let reader = Reader::from_bytes(optimizer.into_bytes()?)?;
    let scalars = reader.scalars().clone();
    let mut found = Vec::new();
    for tensor in reader.into_tensors()? {
        let (name, dtype, shape, _, bytes) = tensor.into_parts()?;
        let data = TensorData::from_bytes(bytes, shape, dtype);
        let (shape, values) = to_pytorch(data, false);
        found.push((name, shape, dtype_name(dtype), values));
    }
    for (name, scalar) in scalars {
        let (value, dtype) = number(scalar);
        found.push((name, Vec::new(), dtype, vec![value]));
    }
    Ok(found)
}

/// A scalar of a state, and the type that burn keeps it in.
fn number(scalar: Scalar) -> (f64, &'static str) {
    match (i64::try_from(scalar), f64::try_from(scalar)) {
        (Ok(value), _) => (value as f64, "int64"),
        (_, Ok(value)) => (value, "float64"),
        _ => (bool::try_from(scalar).map_or(f64::NAN, f64::from), "bool"),
    }
}

/// `inner`, observed. It hands on every value untouched.
#[derive(Clone)]
pub struct Observed<O> {
    inner: O,
    observations: Observations,
    name: &'static str,
}

impl<O> Observed<O> {
    /// Observes `inner` into `observations`.
    pub fn new(inner: O, observations: Observations) -> Self {
        Self {
            inner,
            observations,
            name: "",
        }
    }

    /// Tells what burn calls the optimizer.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

fn flattened(state: &impl RecordState) -> Flattened {
    let mut sink = StateSink::default();
    state.state_flatten("", &mut sink);
    let scalars = sink.scalars.into_iter().map(|(name, scalar)| {
        let (value, dtype) = number(scalar);
        (name, value, dtype)
    });
    Flattened {
        tensors: sink.tensors,
        scalars: scalars.collect(),
    }
}

impl<O: Optimizer> Optimizer for Observed<O> {
    type State<const D: usize> = O::State<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let shared = &self.observations.0;
        if shared.idle.load(Ordering::Relaxed) {
            return self.inner.step(lr, tensor, grad, state);
        }
        let gradient = grad.to_data();
        let earlier = match shared.earlier.load(Ordering::Relaxed) {
            true => state.as_ref().map(flattened),
            false => None,
        };
        let (tensor, state) = self.inner.step(lr, tensor, grad, state);
        let Flattened { tensors, scalars } = state.as_ref().map(flattened).unwrap_or_default();
        self.observations.note(Observation {
            lr,
            gradient,
            tensors,
            scalars,
            earlier,
            optimizer: self.name,
        });
        (tensor, state)
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        O::to_device(state, device)
    }
}
