//! Clipping by the global norm on burn's [`GradientsParams`].
//!
//! burn's own `GradientClippingConfig::Norm` clips each tensor by its own norm. This is the
//! counterpart of PyTorch's `torch.nn.utils.clip_grad_norm_`: one norm over all gradients, one
//! coefficient for all of them.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType, Tensor};

/// What PyTorch adds to the total norm in `clip_grad_norm_` before it divides by it.
const DENOMINATOR_EPS: f64 = 1e-6;

/// Scales all gradients of `model` by `max_norm / (total + 1e-6)` unless that is 1 or more, and
/// returns the total 2-norm they had before.
///
/// Squares are summed in f64, so an f32 gradient of 1e30 doesn't overflow. A NaN among the
/// gradients makes the coefficient NaN, and with it every gradient; an infinity makes it 0, so
/// that finite gradients become 0 and the infinite ones NaN: both as PyTorch does. Parameters
/// without a gradient (frozen or unused) don't count and stay as they are.
///
/// Source: `torch.nn.utils.clip_grad_norm_`.
pub fn clip_grad_norm<M: Module>(model: &M, grads: &mut GradientsParams, max_norm: f64) -> f64 {
    let mut squares = SquaredNorm { grads, sum: 0.0 };
    model.visit(&mut squares);
    let total = squares.sum.sqrt();
    let coefficient = max_norm / (total + DENOMINATOR_EPS);
    // Not `coefficient < 1.0`: that would leave the gradients alone where it is NaN.
    let keep = coefficient >= 1.0;
    if !keep {
        model.visit(&mut Scale { grads, coefficient });
    }
    total
}

struct SquaredNorm<'a> {
    grads: &'a GradientsParams,
    sum: f64,
}

impl ModuleVisitor for SquaredNorm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.get::<D>(param.id) {
            let wide = match grad.dtype() {
                DType::F64 => grad,
                _ => grad.cast(FloatDType::F64),
            };
            self.sum += wide.square().sum().into_scalar::<f64>();
        }
    }
}

struct Scale<'a> {
    grads: &'a mut GradientsParams,
    coefficient: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            let scaled = grad.mul_scalar(self.coefficient);
            self.grads.register(param.id, scaled);
        }
    }
}
