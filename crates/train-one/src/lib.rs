//! One training step of A1, taken apart.

use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::tensor::Tensor;
use pitb_core::a1::{self, Arithmetic, Problem};

pub use pitb_core::a1::Mlp;

/// The learning rate of the step.
pub const LEARNING_RATE: f64 = 0.1;

/// What a step starts from: the problem, the model and an optimizer without state.
pub fn start() -> (Problem, Mlp, ModuleOptimizer) {
    let device = a1::device();
    let problem = Problem::new(&device, Arithmetic::Float64);
    (problem, fresh_model(), SgdConfig::new().init())
}

/// The model of A1; each call makes new parameters with new ids.
pub fn fresh_model() -> Mlp {
    a1::model(&a1::device(), Arithmetic::Float64)
}

/// The values of the bias of `fc2`, shape `[3]`.
pub fn fc2_bias(model: &Mlp) -> Vec<f32> {
    let bias = model.fc2.bias.as_ref().expect("fc2 has a bias");
    vector(bias.val())
}

/// The values of a vector.
pub fn vector(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}
