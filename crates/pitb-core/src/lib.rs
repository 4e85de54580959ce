//! What the burn programs of pitb share.
//!
//! - [`a1`]: the small problem, its values computed in f64 or, to show what that costs, in f32.
//! - [`layout`]: a module's tensors under PyTorch's names, in PyTorch's layout.
//! - [`optimizers`]: any of burn's optimizers from its name and any of its configuration's fields.
//! - [`observe`]: an optimizer around another that notes what it was given and what it keeps.
//! - [`clip`]: clipping by the global norm, which burn has no configuration for.
//! - [`run`]: a run from its specification to its trace.
//! - [`trace`]: the trace file.
//! - [`cli`]: what the command lines have in common.

pub mod a1;
pub mod cli;
pub mod clip;
pub mod layout;
pub mod observe;
pub mod optimizers;
pub mod run;
pub mod trace;
