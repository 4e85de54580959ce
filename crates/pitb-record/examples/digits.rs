//! The burn side of the worked example in docs/recording.md: a small network on real digits.
//!
//! `digits data.json traces/burn` trains with burn's defaults, `digits data.json traces/burn
//! --fixed` with PyTorch's written out. `--every N` records every n-th update, and `--repeat N`
//! trains on all batches n times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

use anyhow::{Context, Result, bail};
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;

/// What `examples/digits/digits.py data` writes.
#[derive(Deserialize)]
struct Data {
    x: Vec<Vec<f32>>,
    y: Vec<i64>,
    batches: Vec<Vec<usize>>,
    parameters: BTreeMap<String, Values>,
}

#[derive(Deserialize)]
struct Values {
    shape: Vec<usize>,
    values: Vec<f32>,
}

#[derive(Module, Debug)]
struct Digits {
    fc1: Linear,
    fc2: Linear,
}

impl Digits {
    fn new(data: &Data, device: &Device) -> Result<Self> {
        Ok(Self {
            fc1: linear(data, "fc1", device)?,
            fc2: linear(data, "fc2", device)?,
        })
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.fc2.forward(relu(self.fc1.forward(x)))
    }
}

/// A layer with the initial values of the data, whose weight is `[out, in]` as in PyTorch.
fn linear(data: &Data, name: &str, device: &Device) -> Result<Linear> {
    let of = |kind: &str| {
        let name = format!("{name}.{kind}");
        let values = data.parameters.get(&name).context(name)?;
        anyhow::Ok(TensorData::new(values.values.clone(), values.shape.clone()))
    };
    let weight = Tensor::<2>::from_data(of("weight")?, device).transpose();
    let bias = Tensor::<1>::from_data(of("bias")?, device);
    let [inputs, outputs] = weight.dims();
    let mut layer = LinearConfig::new(inputs, outputs).init(device);
    layer.weight = Param::from_tensor(weight);
    layer.bias = Some(Param::from_tensor(bias));
    Ok(layer)
}

fn batch(data: &Data, rows: &[usize], device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let width = data.x[0].len();
    let x = rows.iter().flat_map(|row| data.x[*row].iter().copied());
    let y = rows.iter().map(|row| data.y[*row]).collect::<Vec<_>>();
    let x = TensorData::new(x.collect::<Vec<_>>(), [rows.len(), width]);
    let y = TensorData::new(y, [rows.len()]);
    (Tensor::from_data(x, device), Tensor::from_data(y, device))
}

fn main() -> Result<()> {
    let mut places = Vec::new();
    let (mut fixed, mut every, mut repeat) = (false, 20, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fixed" => fixed = true,
            "--every" => {
                every = arguments
                    .next()
                    .context("--every needs a number")?
                    .parse()?
            }
            "--repeat" => {
                repeat = arguments
                    .next()
                    .context("--repeat needs a number")?
                    .parse()?
            }
            _ => places.push(argument),
        }
    }
    let [path, folder] = places.as_slice() else {
        bail!("usage: digits DATA.json FOLDER [--fixed] [--every N] [--repeat N]");
    };
    let file = File::open(path).with_context(|| format!("cannot read {path}"))?;
    let data: Data = serde_json::from_reader(BufReader::new(file)).context(path.clone())?;

    let device = Device::flex().autodiff();
    let mut model = Digits::new(&data, &device)?;
    let config = match fixed {
        false => AdamWConfig::new(),
        true => AdamWConfig::new()
            .with_epsilon(1e-8)
            .with_weight_decay(0.01),
    };
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let recording = pitb_record::record(folder).every(every).overwrite();
    let (mut recorder, mut optimizer) = recording.start(&model, &config)?;
    for rows in std::iter::repeat_n(&data.batches, repeat).flatten() {
        let (x, y) = batch(&data, rows, &device);
        let loss = cross_entropy.forward(model.forward(x), y);
        recorder.loss(&loss);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = recorder.step(&mut optimizer, 1e-3, model, gradients)?;
    }
    let rows = (0..data.y.len()).collect::<Vec<_>>();
    let (x, y) = batch(&data, &rows, &device);
    recorder.last_loss(&cross_entropy.forward(model.forward(x), y));
    recorder.finish(&model)
}
