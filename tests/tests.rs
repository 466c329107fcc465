//! One binary for all integration tests: every further one would link DataFusion again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, its helpers too, and says aloud what it passes over"
)]

mod apply;
mod cli {
    mod alarms;
    mod command;
    mod csv_results;
    mod dedup;
    mod find;
    mod find_search;
    mod first_minutes;
    mod inspected;
    mod kinds_of_files;
    mod limits;
    mod mistakes;
    pub(crate) mod neighbors;
    mod pair_pages;
    mod plain_sql;
    mod platform;
    mod progress;
    mod secrets;
    pub(crate) mod show;
    mod sql;
    mod terminal;
}
#[cfg(feature = "cluster")]
mod cluster;
mod clusters {
    mod components;
    mod contained;
    mod decisions;
    mod levels;
    mod methods;
    mod representative;
}
mod docs;
mod docs_commands;
mod engine {
    mod memory;
    #[cfg(feature = "cluster")]
    mod plans;
    mod sketch_joins;
    mod spills;
}
mod evaluate;
mod fuzz_replay;
mod job;
mod lab {
    pub(crate) mod compare;
    mod generate;
    mod generate_from;
    pub(crate) mod sweep;
}
mod layers;
mod messages;
mod output {
    mod bucket_tags;
    mod changed_sources;
    pub(crate) mod claims;
    mod contracts;
    mod damage;
    mod kept_columns;
    mod lakehouse;
    mod moved_sources;
    mod ownership;
    mod public_types;
    mod readers;
    mod shared_file;
}
mod pipeline {
    mod brute_force;
    mod combinations;
    mod daily;
    mod decontaminate;
    mod dense;
    mod forget;
    mod frequency;
    mod kill;
    mod link;
    mod merged_outputs;
    pub(crate) mod parts;
    mod passages;
    mod passages_only;
    mod reference_outputs;
    mod reference_passages;
    mod reuse;
    mod reuters;
    pub(crate) mod spans;
    mod stages;
    mod systems;
    mod whole_runs;
    mod word_runs;
}
mod plan;
mod report;
mod s3;
#[cfg(feature = "cluster")]
mod soak;
mod source {
    mod encoding;
    mod formats;
    mod groups;
    mod lines;
    mod long_text;
    mod parquet_footers;
    mod rows;
    mod unusual_values;
}
mod support;
mod telemetry;
mod udf;
