//! The checks of each fuzz target. The same checks run in the test suite, over the seeds and over what was
//! found before (`tests/fuzz_replay.rs`), so nothing here may need the fuzzer.
//!
//! A check ends in a panic where the program breaks a promise. An error of the kinds `job` and `input` is a right answer to
//! most inputs; no input may cause an error of another kind.

pub mod csv;
pub mod definitions;
pub mod job_file;
pub mod json_lines;
pub mod manifest;
pub mod normalize;
pub mod parquet;
pub mod reading;
pub mod sgml;
pub mod words;

/// A check of one input.
pub type Check = fn(&[u8]);

/// The targets by name, which is also that of their folders of inputs.
pub const TARGETS: [(&str, Check); 8] = [
    ("words", words::check),
    ("normalize", normalize::check),
    ("job_file", job_file::check),
    ("sgml", sgml::check),
    ("csv", csv::check),
    ("json_lines", json_lines::check),
    ("parquet", parquet::check),
    ("manifest", manifest::check),
];
