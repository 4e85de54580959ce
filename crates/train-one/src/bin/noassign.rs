//! A step whose result is not assigned. This must not compile: `step` takes the model.
#![allow(missing_docs)]

use burn::optim::GradientsParams;
use train_one::{LEARNING_RATE, start};

fn main() {
    let (problem, model, mut optimizer) = start();
    let (_, loss) = problem.forward(&model);
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(LEARNING_RATE, model, grads);
    let (_, after) = problem.forward(&model);
    println!("loss after {after}");
}
