//! What the burn programs of pitb share.
//!
//! - [`a1`]: the small problem, its values computed in f64 or, to show what that costs, in f32.
//! - [`problem`]: a problem as a file defines it, A1 or another.
//! - [`models`]: the models of the problems, made of burn's own modules, and their losses.
//! - [`layout`]: a module's tensors under PyTorch's names, in PyTorch's layout.
//! - [`optimizers`]: any of burn's optimizers from its name and any of its configuration's fields.
//! - [`clip`]: clipping as PyTorch's training loops do it, which burn has no configuration for.
//! - [`schedule`]: learning rates by any of burn's schedulers.
//! - [`spec`]: what to train, and the check of it.
//! - [`trainer`]: the optimizer of a run with its rates.
//! - [`checkpoint`]: parameters and states of a run in a file.
//! - [`record`]: the training of a run, and what its trace holds of it.
//! - [`run`]: a run from its specification to its trace.
//! - [`json`]: JSON that a user wrote, read strictly.
//! - [`cli`]: what the command lines have in common.
//!
//! Traces, layout and observation are [`pitb_record`]'s, which also records trainings of others.

pub mod a1;
pub mod checkpoint;
pub mod cli;
pub mod clip;
pub mod json;
pub mod layout;
pub mod models;
pub mod optimizers;
pub mod problem;
pub mod record;
pub mod run;
pub mod schedule;
pub mod spec;
pub mod trainer;

pub use pitb_record::{observe, trace};
