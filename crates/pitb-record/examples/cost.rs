//! What recording costs a burn training of a million parameters; prints it as JSON.
//!
//! `cost TURNS`: two trainings of the same model, one recorded every 10th step, go on in turn, fifty
//! steps each. Memory is what the process holds after the first turns and after the last.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use pitb_record::Recorder;

const BATCH: usize = 256;
const STEPS: usize = 50;

#[derive(Module, Debug)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
        Self {
            fc1: LinearConfig::new(784, 768).init(device),
            fc2: LinearConfig::new(768, 512).init(device),
            fc3: LinearConfig::new(512, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = relu(self.fc1.forward(x));
        self.fc3.forward(relu(self.fc2.forward(x)))
    }
}

/// A training that goes on.
struct Training {
    model: Option<Mlp>,
    optimizer: ModuleOptimizer,
    recorder: Option<Recorder>,
    x: Tensor<2>,
    y: Tensor<1, Int>,
}

impl Training {
    /// Seconds of some steps.
    fn go(&mut self, steps: usize) -> Result<f64> {
        let start = Instant::now();
        let cross_entropy = CrossEntropyLossConfig::new().init(&self.x.device());
        for _ in 0..steps {
            let model = self.model.take().context("a step failed before")?;
            let loss = cross_entropy.forward(model.forward(self.x.clone()), self.y.clone());
            if let Some(recorder) = &mut self.recorder {
                recorder.loss(&loss);
            }
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let model = match &mut self.recorder {
                Some(recorder) => recorder.step(&mut self.optimizer, 1e-3, model, gradients)?,
                None => self.optimizer.step(1e-3, model, gradients),
            };
            self.model = Some(model);
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// What the process holds in memory, in MB; 0 where the system does not tell.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1.024e-3
}

fn main() -> Result<()> {
    let turns = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse::<usize>())?;
    let folder = std::env::temp_dir().join(format!("pitb-cost-{}", std::process::id()));
    let device = Device::flex().autodiff();
    let x = Tensor::random([BATCH, 784], Distribution::Default, &device);
    let y = Tensor::<1, Int>::arange(0..BATCH as i64, &device) % 10;
    let model = Mlp::new(&device);
    let recording = pitb_record::record(&folder).every(10);
    let (recorder, optimizer) = recording.start(&model, &AdamWConfig::new())?;
    let training = |optimizer, recorder| Training {
        model: Some(model.clone()),
        optimizer,
        recorder,
        x: x.clone(),
        y: y.clone(),
    };
    let mut plain = training(AdamWConfig::new().init(), None);
    let mut recorded = training(optimizer, Some(recorder));
    plain.go(10)?;
    recorded.go(20)?;
    let (mut seconds, mut ratios, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..turns {
        let without = plain.go(STEPS)?;
        ratios.push(recorded.go(STEPS)? / without);
        seconds.push(without / STEPS as f64);
        held.push(memory());
    }
    if let (Some(recorder), Some(trained)) = (recorded.recorder.take(), &recorded.model) {
        recorder.finish(trained)?;
    }
    fs::remove_dir_all(&folder)?;
    let found = serde_json::json!({
        "model": "mlp",
        "batch": BATCH,
        "tensors": null,
        "parameters": model.num_params(),
        "step_ms": 1e3 * median(&seconds),
        "ratio": median(&ratios),
        "ratio_min": ratios.iter().copied().fold(f64::INFINITY, f64::min),
        "ratio_max": ratios.iter().copied().fold(0.0, f64::max),
        "repeats": turns,
        "memory_first_mb": held.first(),
        "memory_last_mb": held.last(),
    });
    println!("{found}");
    Ok(())
}
