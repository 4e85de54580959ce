//! Records a burn training as a trace: a folder of Parquet files that `pitb compare` and the other
//! commands of pitb take, beside one of the same training in PyTorch.
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::optim::{AdamWConfig, GradientsParams};
//! use burn::tensor::{Device, Tensor};
//!
//! # fn main() -> anyhow::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("pitb-record-{}", std::process::id()));
//! let device = Device::flex().autodiff();
//! let mut model: Linear = LinearConfig::new(4, 2).init(&device);
//! let x = Tensor::<2>::ones([3, 4], &device);
//!
//! let recording = pitb_record::record(&folder).every(10);
//! let (mut recorder, mut optimizer) = recording.start(&model, &AdamWConfig::new())?;
//! for _ in 0..20 {
//!     let loss = model.forward(x.clone()).powi_scalar(2).mean();
//!     recorder.loss(&loss);
//!     let gradients = GradientsParams::from_grads(loss.backward(), &model);
//!     model = recorder.step(&mut optimizer, 0.01, model, gradients)?;
//! }
//! recorder.finish(&model)?;
//! # assert!(folder.join("part-000000.parquet").is_file());
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! The loss and the gradients of step k belong to the parameters that update k starts from;
//! parameters and states are those after it. Recorded are update 1 and every n-th one, each with
//! the parameters and states before it, so that it can be computed again from the trace alone.
//! Each part is renamed to its name once it is whole: a training that is killed leaves a trace that
//! can be read, and that says that it was not ended.
//!
//! - [`record`], [`Recording`], [`Recorder`]: recording.
//! - [`config`]: the configurations whose optimizers can be recorded.
//! - [`layout`]: a module's tensors under PyTorch's names, in PyTorch's layout.
//! - [`observe`]: an optimizer around another that notes what it was given and what it keeps.
//! - [`trace`]: the trace file.

pub mod config;
mod encode;
pub mod layout;
mod names;
pub mod observe;
mod recorder;
pub mod trace;
mod writer;

pub use names::state_name;
pub use recorder::{Recorder, Recording, record};

/// The versions of what a trace is made with, for its metadata.
pub fn versions() -> serde_json::Value {
    serde_json::json!({
        "pitb": env!("CARGO_PKG_VERSION"),
        "burn": env!("PITB_BURN_VERSION"),
        "rustc": env!("PITB_RUSTC_VERSION"),
        "target": env!("PITB_TARGET"),
    })
}
