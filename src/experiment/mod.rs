//! Methods and settings, tried on the first documents of a source and timed.

pub mod compare;
mod compared;
mod sample;
pub mod sweep;
mod timing;
