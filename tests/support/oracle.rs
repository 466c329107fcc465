//! A brute force that shares no code with the program: random corpora, random settings, and the rows that a run must write.

pub mod answer;
pub mod corpus;
pub mod decisions;
pub mod found;
pub mod losses;
pub mod settings;
pub mod sketch;
