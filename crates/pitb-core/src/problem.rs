//! A problem as a file defines it: which model, its initial parameters, what it is trained on.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::optimizers::nearest;
use pitb_record::layout::dtype_name;

/// The element type of a run's parameters, inputs, gradients and states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Single precision, burn's default.
    #[default]
    Float32,
    /// Double precision.
    Float64,
}

impl Dtype {
    /// PyTorch's name of the type.
    pub fn name(self) -> &'static str {
        dtype_name(self.burn())
    }

    /// A float tensor of this type on `device`.
    pub fn tensor<const D: usize>(
        self,
        shape: &[usize],
        values: &[f64],
        device: &Device,
    ) -> Tensor<D> {
        let data = match self {
            Self::Float32 => {
                let values = values.iter().map(|value| *value as f32);
                TensorData::new(values.collect::<Vec<_>>(), shape.to_vec())
            }
            Self::Float64 => TensorData::new(values.to_vec(), shape.to_vec()),
        };
        Tensor::from_data(data, (device, self.burn()))
    }

    fn burn(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Float64 => DType::F64,
        }
    }
}

/// An int64 tensor on `device`. The values are whole numbers.
pub fn int_tensor<const D: usize>(
    shape: &[usize],
    values: &[f64],
    device: &Device,
) -> Tensor<D, Int> {
    let values = values.iter().map(|value| *value as i64);
    let data = TensorData::new(values.collect::<Vec<_>>(), shape.to_vec());
    Tensor::from_data(data, (device, DType::I64))
}

/// The models that the programs know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `fc1`, ReLU, `fc2`, mean cross entropy, and where given `unused`, which nothing calls.
    Mlp,
    /// `fc`, mean cross entropy.
    Single,
    /// `embedding`, mean over the tokens, `fc`, mean cross entropy.
    Embedding,
    /// `conv`, ReLU, `fc`, mean cross entropy.
    Conv,
    /// `fc1`, ReLU, `fc2` with the weight of `fc1`, mean cross entropy.
    Tied,
    /// `0.5 x^T A x - b^T x`.
    Quadratic,
    /// `sum_i 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2`.
    Rosenbrock,
    /// `a x^2 + b x + c` of one number, with other coefficients on each side of two ends.
    Pieces,
    /// `fc`, whose gradients are given and not computed.
    Prescribed,
}

/// How burn stores a parameter, next to PyTorch's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The weight of a `Linear`: `[in, out]` where PyTorch has `[out, in]`.
    Linear,
    /// As PyTorch does.
    Plain,
}

/// A parameter and the values that it starts from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// PyTorch's name, `fc1.weight`.
    pub name: String,
    /// PyTorch's shape.
    pub shape: Vec<usize>,
    /// Row-major values in PyTorch's layout.
    #[serde(deserialize_with = "numbers")]
    pub values: Vec<f64>,
    /// How burn stores it. The model knows too; a contradiction is an error.
    #[serde(default)]
    pub layout: Option<Layout>,
}

/// The element type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    /// Numbers, which the run holds in its own dtype.
    Float32,
    /// Classes or tokens.
    Int64,
}

/// A tensor that the loss is computed on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its shape.
    pub shape: Vec<usize>,
    /// What its elements are.
    pub dtype: InputType,
    /// Row-major values.
    #[serde(deserialize_with = "numbers")]
    pub values: Vec<f64>,
}

/// The gradients of one update by the parameter's name, flat, in PyTorch's layout.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Gradients(#[serde(deserialize_with = "named_numbers")] pub BTreeMap<String, Vec<f64>>);

/// A problem.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Which model.
    pub model: Kind,
    /// Its parameters. Values are f64 numbers that are exact in f32.
    pub parameters: Vec<Parameter>,
    /// What the loss is computed on, by name.
    #[serde(default)]
    pub inputs: BTreeMap<String, Input>,
    /// The gradients of [`Kind::Prescribed`], one set for each update; updates beyond repeat them.
    #[serde(default)]
    pub gradients: Vec<Gradients>,
}

impl Definition {
    /// The parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }

    /// Fails where numbers do not fill their shape, or a name is unknown, missing or there twice.
    /// `parameters` and `optional` are the names that the model has, `inputs` those of its inputs.
    pub(crate) fn check(
        &self,
        parameters: &[&str],
        optional: &[&str],
        inputs: &[&str],
    ) -> Result<()> {
        let names = self.parameters.iter().map(|p| p.name.as_str());
        check_names("parameter", names, parameters, optional)?;
        check_names("input", self.inputs.keys().map(String::as_str), inputs, &[])?;
        for Parameter {
            name,
            shape,
            values,
            ..
        } in &self.parameters
        {
            check_size(&format!("parameter {name:?}"), shape, values)?;
        }
        for (name, input) in &self.inputs {
            check_size(&format!("input {name:?}"), &input.shape, &input.values)?;
        }
        let prescribed = self.model == Kind::Prescribed;
        if prescribed == self.gradients.is_empty() {
            match prescribed {
                true => bail!("\"gradients\" is empty; a prescribed model needs one set or more"),
                false => bail!("\"gradients\" are given, but only a prescribed model takes them"),
            }
        }
        for Gradients(gradients) in &self.gradients {
            for (name, values) in gradients {
                let Some(parameter) = self.parameter(name) else {
                    let names = self.parameters.iter().map(|p| p.name.as_str());
                    bail!(unknown("gradient", name, names));
                };
                check_size(&format!("gradient {name:?}"), &parameter.shape, values)?;
            }
        }
        Ok(())
    }
}

/// The sentence on a name that does not exist.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> anyhow::Error {
    let mut names = names.peekable();
    match names.peek() {
        None => anyhow::anyhow!("unknown {what} {name:?}; there are none"),
        Some(_) => {
            let near = nearest(name, names);
            anyhow::anyhow!("unknown {what} {name:?}; the nearest is {near:?}")
        }
    }
}

fn check_names<'a>(
    what: &str,
    given: impl Iterator<Item = &'a str>,
    required: &[&str],
    optional: &[&str],
) -> Result<()> {
    let known = || required.iter().chain(optional).copied();
    let mut seen = Vec::new();
    for name in given {
        if !known().any(|other| other == name) {
            match known().next() {
                Some(_) => bail!(unknown(what, name, known())),
                None => bail!("unknown {what} {name:?}; the model has none"),
            }
        }
        if seen.contains(&name) {
            bail!("{what} {name:?} is given twice");
        }
        seen.push(name);
    }
    match required.iter().find(|name| !seen.contains(name)) {
        Some(missing) => bail!("{what} {missing:?} is missing"),
        None => Ok(()),
    }
}

fn check_size(what: &str, shape: &[usize], values: &[f64]) -> Result<()> {
    if shape.contains(&0) {
        bail!("{what} of shape {shape:?} has no values");
    }
    let wanted = shape
        .iter()
        .try_fold(1, |size: usize, n| size.checked_mul(*n));
    let Some(wanted) = wanted else {
        bail!("{what} of shape {shape:?} has more values than a computer can count");
    };
    match values.len() == wanted {
        true => Ok(()),
        false => bail!(
            "{what} of shape {shape:?} needs {wanted} values, not {}",
            values.len()
        ),
    }
}

/// A number of a problem; null is NaN, and the text inf, -inf or nan what JSON has no number for.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl de::Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, null, \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        match f64::from(value as f32) == value {
            true => Ok(Number(value)),
            false => Err(E::custom(format!("{value} is not a float32 number"))),
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        self.visit_f64(value as f64)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Number, E> {
        Ok(Number(f64::NAN))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        match text {
            "inf" => Ok(Number(f64::INFINITY)),
            "-inf" => Ok(Number(f64::NEG_INFINITY)),
            "nan" => Ok(Number(f64::NAN)),
            _ => Err(E::custom(format!("{text:?} is not \"inf\" or \"-inf\""))),
        }
    }
}

fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Number>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|Number(value)| value).collect())
}

fn named_numbers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<f64>>, D::Error> {
    let named = BTreeMap::<String, Vec<Number>>::deserialize(deserializer)?;
    let items = named.into_iter();
    let items = items.map(|(name, numbers)| {
        let values = numbers.into_iter().map(|Number(value)| value);
        (name, values.collect())
    });
    Ok(items.collect())
}
