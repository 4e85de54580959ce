//! A probe, compiled but never run: two results are dropped, that of burn's `step` and, as the
//! control, that of a method marked `#[must_use]`. The compiler warns of those that are marked.
#![allow(missing_docs)]

use burn::optim::{GradientsParams, ModuleOptimizer};
use train_one::{LEARNING_RATE, Mlp, start};

/// The same step under a name that is marked.
#[must_use]
fn control(optimizer: &mut ModuleOptimizer, model: Mlp, grads: GradientsParams) -> Mlp {
    optimizer.step(LEARNING_RATE, model, grads)
}

fn main() {
    let (_, model, mut optimizer) = start();
    optimizer.step(LEARNING_RATE, model.clone(), GradientsParams::new()); // probe
    control(&mut optimizer, model, GradientsParams::new()); // control
}
