//! One binary for all integration tests: every further one would link DataFusion again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, its helpers too, and says aloud what it passes over"
)]

mod against;
mod alarms;
mod apply;
mod audit;
mod brute_force;
mod buckets;
mod chains;
mod changes;
#[cfg(feature = "cluster")]
mod cluster;
mod cluster_levels;
mod clusters;
mod command;
mod compare;
mod components;
mod contained;
mod containment;
mod crossings;
mod csv_results;
mod daily;
mod damage;
mod decontaminate;
mod dedup;
mod dense;
mod docs;
mod docs_commands;
mod encoding;
mod evaluate;
mod find;
mod first_minutes;
mod footers;
mod frequency;
mod fuzz_replay;
mod garage;
mod generate;
mod generate_from;
mod groups;
mod job;
mod keep;
mod kill;
mod lakehouse;
mod layers;
mod limits;
mod lineage;
mod link;
mod long_text;
mod memory;
mod messages;
mod mistakes;
mod moved;
mod neighbors;
mod ownership;
mod parts;
mod passages;
mod passages_only;
mod pipeline;
mod plain_sql;
mod plan;
#[cfg(feature = "cluster")]
mod plans;
mod platform;
mod prefix;
mod progress;
mod public_types;
mod readers;
mod reference_passages;
mod report;
mod representative;
mod reuse;
mod reuters;
mod rows;
mod s3;
mod schema;
mod secrets;
mod shared_file;
mod show;
mod sketch_joins;
#[cfg(feature = "cluster")]
mod soak;
mod source;
mod spans;
mod spills;
mod sql;
mod stages;
mod support;
mod sweep;
mod systems;
mod telemetry;
mod terminal;
mod together;
mod udf;
mod values;
mod word_runs;
