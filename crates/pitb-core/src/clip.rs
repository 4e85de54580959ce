//! Clipping on burn's [`GradientsParams`], between `backward` and `step`.
//!
//! burn's own `GradientClippingConfig` clips each tensor by itself. These are the counterparts of
//! PyTorch's `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`.

use std::collections::HashSet;

use anyhow::{Result, bail};
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType, Tensor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What PyTorch adds to the total norm in `clip_grad_norm_` before it divides by it.
const DENOMINATOR_EPS: f64 = 1e-6;

/// Clipping that the training loop does between `backward` and `step`. What burn clips itself is
/// an option of its optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clip {
    /// All gradients as one vector, as `clip_grad_norm_` does.
    Global {
        /// The norm that is allowed.
        max_norm: f64,
        /// Which norm.
        #[serde(default, skip_serializing_if = "NormType::is_default")]
        norm_type: NormType,
        /// Whether a norm of NaN or infinity ends the run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        error_if_nonfinite: bool,
    },
    /// Each element, as `clip_grad_value_` does.
    Value {
        /// The magnitude that is allowed.
        clip_value: f64,
    },
    /// Each tensor as [`Clip::Global`] clips all of them.
    PerParameter {
        /// The norm that is allowed.
        max_norm: f64,
        /// Which norm.
        #[serde(default, skip_serializing_if = "NormType::is_default")]
        norm_type: NormType,
    },
}

impl Clip {
    /// By the global 2-norm.
    pub fn global(max_norm: f64) -> Self {
        Self::Global {
            max_norm,
            norm_type: NormType::default(),
            error_if_nonfinite: false,
        }
    }

    /// Fails where a bound is no number of 0 or more.
    pub fn check(&self) -> Result<()> {
        let (name, bound) = match self {
            Self::Global { max_norm, .. } | Self::PerParameter { max_norm, .. } => {
                ("max_norm", *max_norm)
            }
            Self::Value { clip_value } => ("clip_value", *clip_value),
        };
        match bound >= 0.0 {
            true => Ok(()),
            false => bail!("{name} of \"clip\" is {bound}, not a number of 0 or more"),
        }
    }
}

/// The p of a p-norm, greater than 0; infinity is the largest magnitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormType(f64);

impl NormType {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The root that makes a norm of the sum of p-th powers, or of the largest magnitude.
    fn norm(self, power: f64) -> f64 {
        match self.0 {
            f64::INFINITY => power,
            2.0 => power.sqrt(),
            p => power.powf(p.recip()),
        }
    }

    fn join(self, a: f64, b: f64) -> f64 {
        match self.0 {
            // `f64::max` would lose a NaN.
            f64::INFINITY if a.is_nan() || b.is_nan() => f64::NAN,
            f64::INFINITY => a.max(b),
            _ => a + b,
        }
    }

    /// The sum of the p-th powers of the magnitudes in `tensor`, or the largest of these.
    fn power<const D: usize>(self, tensor: Tensor<D>) -> f64 {
        match self.0 {
            2.0 => tensor.square().sum().into_scalar::<f64>(),
            _ => {
                let data = tensor.into_data();
                let magnitudes = data.iter::<f64>().map(f64::abs);
                magnitudes.fold(0.0, |sum, value| match self.0 {
                    f64::INFINITY => self.join(sum, value),
                    p => self.join(sum, value.powf(p)),
                })
            }
        }
    }
}

impl Default for NormType {
    fn default() -> Self {
        Self(2.0)
    }
}

impl Serialize for NormType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            f64::INFINITY => serializer.serialize_str("inf"),
            p => serializer.serialize_f64(p),
        }
    }
}

impl<'de> Deserialize<'de> for NormType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let number = match &value {
            serde_json::Value::String(text) if text == "inf" => Some(f64::INFINITY),
            other => other.as_f64().filter(|p| *p > 0.0),
        };
        let number = number.ok_or_else(|| {
            let message = format!("norm_type is {value}, not a number greater than 0 or \"inf\"");
            serde::de::Error::custom(message)
        })?;
        Ok(Self(number))
    }
}

/// The norms that gradients had before they were clipped.
#[derive(Debug, PartialEq)]
pub enum Norms {
    /// One for all of them.
    Total(f64),
    /// One for each parameter that has a gradient, in the order of the module.
    Each(Vec<(ParamId, f64)>),
    /// None was computed.
    None,
}

/// Clips the gradients of `model` as `how` says.
///
/// Norms are computed in f64, so an f32 gradient of 1e30 doesn't overflow. A NaN among the
/// gradients makes the coefficient NaN, and with it every gradient; an infinity makes it 0, so
/// that finite gradients become 0 and the infinite ones NaN: both as PyTorch does. Parameters
/// without a gradient (frozen or unused) don't count and stay as they are; one that stands in two
/// places counts once.
///
/// Fails where `error_if_nonfinite` is set and the total norm is NaN or infinite.
///
/// Source: `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`.
pub fn clip<M: Module>(model: &M, grads: &mut GradientsParams, how: &Clip) -> Result<Norms> {
    match *how {
        Clip::Global {
            max_norm,
            norm_type,
            error_if_nonfinite,
        } => {
            let powers = powers(model, grads, norm_type).into_iter();
            let total = powers.fold(0.0, |sum, (_, power)| norm_type.join(sum, power));
            let total = norm_type.norm(total);
            if error_if_nonfinite && !total.is_finite() {
                bail!("the total norm of the gradients is {total}, which cannot be clipped");
            }
            let coefficient = coefficient(max_norm, total);
            // Not `coefficient < 1.0`: that would leave the gradients alone where it is NaN.
            let keep = coefficient >= 1.0;
            if !keep {
                edit(model, grads, Edit::Scale(&|_| coefficient));
            }
            Ok(Norms::Total(total))
        }
        Clip::Value { clip_value } => {
            edit(model, grads, Edit::Bound(clip_value));
            Ok(Norms::None)
        }
        Clip::PerParameter {
            max_norm,
            norm_type,
        } => {
            let powers = powers(model, grads, norm_type).into_iter();
            let norms = powers.map(|(id, power)| (id, norm_type.norm(power)));
            let norms = norms.collect::<Vec<_>>();
            let coefficient_of = |id| {
                let norm = norms.iter().find(|(other, _)| *other == id);
                norm.map_or(1.0, |(_, norm)| coefficient(max_norm, *norm))
            };
            edit(model, grads, Edit::Scale(&coefficient_of));
            Ok(Norms::Each(norms))
        }
    }
}

/// Scales all gradients of `model` by `max_norm / (total + 1e-6)` unless that is 1 or more, and
/// returns the total 2-norm they had before: [`clip`] with [`Clip::global`].
pub fn clip_grad_norm<M: Module>(model: &M, grads: &mut GradientsParams, max_norm: f64) -> f64 {
    match clip(model, grads, &Clip::global(max_norm)) {
        Ok(Norms::Total(total)) => total,
        other => unreachable!("a global norm without an error: {other:?}"),
    }
}

fn coefficient(max_norm: f64, norm: f64) -> f64 {
    let coefficient = max_norm / (norm + DENOMINATOR_EPS);
    // `f64::min` would make 1 of a NaN.
    match coefficient > 1.0 {
        true => 1.0,
        false => coefficient,
    }
}

fn powers<M: Module>(
    model: &M,
    grads: &GradientsParams,
    norm_type: NormType,
) -> Vec<(ParamId, f64)> {
    let mut powers = Powers {
        grads,
        norm_type,
        found: Vec::new(),
    };
    model.visit(&mut powers);
    powers.found
}

fn edit<M: Module>(model: &M, grads: &mut GradientsParams, edit: Edit) {
    model.visit(&mut Editor {
        grads,
        edit,
        done: HashSet::new(),
    });
}

struct Powers<'a> {
    grads: &'a GradientsParams,
    norm_type: NormType,
    found: Vec<(ParamId, f64)>,
}

impl ModuleVisitor for Powers<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.found.iter().any(|(id, _)| *id == param.id) {
            return;
        }
        if let Some(grad) = self.grads.get::<D>(param.id) {
            let wide = match grad.dtype() {
                DType::F64 => grad,
                _ => grad.cast(FloatDType::F64),
            };
            self.found.push((param.id, self.norm_type.power(wide)));
        }
    }
}

#[derive(Clone, Copy)]
enum Edit<'a> {
    Scale(&'a dyn Fn(ParamId) -> f64),
    Bound(f64),
}

struct Editor<'a> {
    grads: &'a mut GradientsParams,
    edit: Edit<'a>,
    done: HashSet<ParamId>,
}

impl ModuleVisitor for Editor<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.done.insert(param.id) {
            return;
        }
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            let edited = match self.edit {
                Edit::Scale(coefficient) => grad.mul_scalar(coefficient(param.id)),
                // By masks, which leave a NaN what it is.
                Edit::Bound(bound) => {
                    let above = grad.clone().greater_scalar(bound);
                    let below = grad.clone().lower_scalar(-bound);
                    grad.mask_fill(above, bound).mask_fill(below, -bound)
                }
            };
            self.grads.register(param.id, edited);
        }
    }
}
