//! The laboratory: generated corpora, and methods and settings that are measured on samples. Only the command line
//! imports it.

pub mod compare;
pub mod corpus;
pub mod planted;
mod sample;
pub mod sweep;
mod timing;
