//! A1, the small problem: `fc1 = Linear(4, 8)`, ReLU, `fc2 = Linear(8, 3)`, cross entropy over 4 rows.

use burn::module::Param;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::layout;
pub use crate::models::Mlp;
use crate::problem::{Definition, Input, InputType, Kind, Parameter};

/// Rows of the batch.
pub const BATCH: usize = 4;
/// Features of the input, units of the hidden layer, classes.
pub const SIZES: [usize; 3] = [4, 8, 3];
/// The class of each row, int64, shape `[4]`.
pub const TARGETS: [i64; BATCH] = [0, 2, 1, 2];

/// The precision in which inputs and biases are computed before they are stored as f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// In f32 throughout, as `0.1 * k as f32 - 0.5` is in Rust.
    Float32,
    /// In f64, rounded to f32 once, as Python does.
    #[default]
    Float64,
}

/// A1 on a device: the batch and the loss.
#[derive(Clone)]
pub struct Problem {
    /// Inputs, f32, shape `[4, 4]`.
    pub x: Tensor<2>,
    /// Targets, shape `[4]`.
    pub y: Tensor<1, Int>,
    /// Mean cross entropy over the rows.
    pub loss: CrossEntropyLoss,
}

impl Problem {
    /// The batch computed in `arithmetic`, on `device`.
    pub fn new(device: &Device, arithmetic: Arithmetic) -> Self {
        Self {
            x: Tensor::from_data(
                TensorData::new(inputs(arithmetic), [BATCH, SIZES[0]]),
                device,
            ),
            y: Tensor::from_data(TensorData::new(TARGETS.to_vec(), [BATCH]), device),
            loss: CrossEntropyLossConfig::new().init(device),
        }
    }

    /// Logits, shape `[4, 3]`, and loss, shape `[1]`, of `model`.
    pub fn forward(&self, model: &Mlp) -> (Tensor<2>, Tensor<1>) {
        let logits = model.forward(self.x.clone());
        let loss = self.loss.forward(logits.clone(), self.y.clone());
        (logits, loss)
    }
}

/// The CPU device with gradients on which all runs are trained.
pub fn device() -> Device {
    Device::flex().autodiff()
}

/// The model of A1 with fresh parameter ids, its biases computed in `arithmetic`.
pub fn model(device: &Device, arithmetic: Arithmetic) -> Mlp {
    let [features, hidden, classes] = SIZES;
    Mlp {
        fc1: linear(
            device,
            weight(hidden, features, f64::sin),
            biases(hidden, 0.01, arithmetic),
        ),
        fc2: linear(
            device,
            weight(classes, hidden, f64::cos),
            biases(classes, -0.02, arithmetic),
        ),
        unused: None,
    }
}

/// A1 as any other problem is defined, its inputs and biases computed in `arithmetic`.
pub fn definition(arithmetic: Arithmetic) -> Definition {
    let parameters = layout::parameters(&model(&device(), arithmetic));
    let parameters = parameters.into_iter().map(|tensor| Parameter {
        name: tensor.name,
        shape: tensor.shape,
        values: tensor.values,
        layout: None,
    });
    let x = Input {
        shape: vec![BATCH, SIZES[0]],
        dtype: InputType::Float32,
        values: inputs(arithmetic).into_iter().map(f64::from).collect(),
    };
    let y = Input {
        shape: vec![BATCH],
        dtype: InputType::Int64,
        values: TARGETS.map(|class| class as f64).to_vec(),
    };
    Definition {
        model: Kind::Mlp,
        parameters: parameters.collect(),
        inputs: [("x".to_string(), x), ("y".to_string(), y)].into(),
        gradients: Vec::new(),
    }
}

/// `x[k] = 0.1 * k - 0.5`, row-major.
fn inputs(arithmetic: Arithmetic) -> Vec<f32> {
    (0..BATCH * SIZES[0])
        .map(|k| match arithmetic {
            Arithmetic::Float32 => 0.1 * k as f32 - 0.5,
            Arithmetic::Float64 => (0.1 * k as f64 - 0.5) as f32,
        })
        .collect()
}

/// `bias[o] = step * o`.
fn biases(size: usize, step: f64, arithmetic: Arithmetic) -> Vec<f32> {
    (0..size)
        .map(|o| match arithmetic {
            Arithmetic::Float32 => step as f32 * o as f32,
            Arithmetic::Float64 => (step * o as f64) as f32,
        })
        .collect()
}

/// `weight[k] = 0.5 * wave(k + 1)`, k counted in PyTorch's `[out, in]`, stored in burn's `[in, out]`.
fn weight(outputs: usize, inputs: usize, wave: fn(f64) -> f64) -> TensorData {
    let values = (0..inputs * outputs)
        .map(|k| {
            let (input, output) = (k / outputs, k % outputs);
            (0.5 * wave((output * inputs + input + 1) as f64)) as f32
        })
        .collect::<Vec<_>>();
    TensorData::new(values, [inputs, outputs])
}

fn linear(device: &Device, weight: TensorData, bias: Vec<f32>) -> Linear {
    let size = bias.len();
    let mut layer = LinearConfig::new(weight.shape()[0], size).init(device);
    layer.weight = Param::from_tensor(Tensor::from_data(weight, device));
    layer.bias = Some(Param::from_tensor(Tensor::from_data(
        TensorData::new(bias, [size]),
        device,
    )));
    layer
}

#[cfg(test)]
mod tests {
    use burn::module::Module;

    use super::*;

    #[test]
    fn inputs_computed_in_f32_differ_in_seven_places() {
        let [a, b] = [Arithmetic::Float32, Arithmetic::Float64].map(inputs);
        let differ = a.iter().zip(&b).filter(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(differ.count(), 7);
        assert_eq!(a[3], -0.199_999_99);
        assert_eq!(b[3], -0.2);
    }

    #[test]
    fn first_bias_of_the_second_layer_is_minus_zero() {
        let bias = biases(3, -0.02, Arithmetic::Float64);
        assert!(bias[0] == 0.0 && bias[0].is_sign_negative());
    }

    #[test]
    fn weights_are_stored_transposed() {
        let data = weight(8, 4, f64::sin);
        let values = data.iter::<f32>().collect::<Vec<_>>();
        assert_eq!(values[1], (0.5 * 5f64.sin()) as f32); // [in 0, out 1] is PyTorch's [1, 0]
    }

    #[test]
    fn the_model_has_67_parameters() {
        assert_eq!(model(&device(), Arithmetic::Float64).num_params(), 67);
    }
}
