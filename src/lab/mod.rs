//! Generated corpora, and measurements of methods and settings on samples. Only the command line imports it.

pub mod compare;
pub mod corpus;
pub mod planted;
mod sample;
pub mod sweep;
mod timing;
