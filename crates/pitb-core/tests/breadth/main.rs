//! Runs on problems from a file, with everything that a specification can ask for.

mod checkpoint;
mod clipping;
mod common;
mod problems;
mod schedules;
mod training;
