//! The laboratory: generated corpora, and methods and settings that are measured on samples. Only the command line
//! imports it.

pub mod compare;
pub mod corpus;
mod sample;
pub mod sweep;
mod timing;
