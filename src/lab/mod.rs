//! Generates corpora, and measures methods and settings on samples. Only the command line imports this module.

pub mod compare;
pub mod corpus;
pub mod planted;
mod sample;
pub mod sweep;
mod timing;
