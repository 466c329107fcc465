//! Finds every pair of similar documents in a dataset, and says how similar they are.
//!
//! The flow, which is also the order of the modules; each imports only from those above it:
//!
//! ```text
//! documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`error`] | one error type; its kinds say who must act; what this program reads in errors of libraries |
//! | `address` | URLs and paths of inputs and outputs, and the secrets in them |
//! | `environment` | every environment variable, read once |
//! | `machine` | the memory that this process may use |
//! | `being_read` | the files that this process is reading |
//! | `parquet_headers` | numbers that Parquet files declare, checked before they are decoded |
//! | [`job`] | the job file, resolved; the S-curve and the choice of bands and rows |
//! | [`schema`] | the contracts of the public tables |
//! | `clusters` | clusters of pairs: connected components, strongest paths, representatives |
//! | [`plan`] | the node of every operator, and the store of rows that spill |
//! | `delta` | the logs of Delta tables: actions, protocol, snapshots |
//! | [`source`] | files of any format -> documents |
//! | `inspect` | data before there is a job for them: format, encoding, columns, and the first texts |
//! | [`operator`] | physical operators that DataFusion lacks |
//! | [`output`] | an output: its paths, its store, its manifests, and what reads and writes its tables |
//! | [`frames`] | functions from frames to frames: what stages, look-ups and measurements compute of tables |
//! | `origins` | the sources of finished outputs, listed again |
//! | `rewrite` | rewrites the files of a source without some of their rows |
//! | [`engine`] | sessions, object stores, and the engines that run plans |
//! | [`pipeline`] | runs a job, stage by stage |
//! | `page` | charts as SVG, pairs of texts in two columns, and pages of charts and tables |
//! | [`lookup`] | queries on finished outputs |
//! | [`apply`] | writes a copy of the source without its duplicates |
//! | [`evaluate`](mod@evaluate) | what a finished output missed, measured on a sample |
//! | [`forecast`](mod@forecast) | what a run will take, by a sample of its documents |
//! | [`audit`](mod@audit) | packs of pairs to judge, and estimates from the labels |
//! | [`report`](mod@report) | a page about a finished output |
//! | [`lab`] | generated corpora, and measurements of methods and settings on samples |
//! | `lineage` | the OpenLineage events of a run |
//! | `telemetry` | the spans and metrics of a command for OpenTelemetry |
//! | [`cli`] | one file per command |
//!
//! [`kernel`] (plain functions on texts, sets and signatures) and [`udf`] (SQL functions around them) are the crate
//! `resemblance-functions`, which builds without the program.
//!
//! # Words
//!
//! - **shingle**: `k` words or characters in a row; a document is the set of its shingles.
//! - **permutation**: a hash function on shingles, taken as a random order of them.
//! - **signature**: the least value of a document's shingles under each permutation. The share of equal values in
//!   two signatures estimates the Jaccard similarity of the two sets.
//! - **band**, **row**: a signature is cut into `b` bands of `r` rows.
//! - **bucket**: the hash of a band. Two documents that share a bucket are a **candidate**.
//! - **pair**: two documents whose similarity reaches the threshold.
//! - **cluster**: documents that are connected by pairs.
//! - **leader**: a document that the others of a dense group, which is too large for all of its pairs, are compared with.
//! - **home**: the place where a pair is verified; a sketch goes once to each home that asks for it.
//! - **stage**: a part of a run, whose tables are published together; a run that resumes does not repeat it. **query stage**: a
//!   part of a plan between two shuffles, as Ballista calls it.
//!
//! # As a library
//!
//! The SQL functions work in any DataFusion session: see [`udf::register_all`].

mod address;
pub mod apply;
pub mod audit;
mod being_read;
pub mod cli;
mod clusters;
mod delta;
pub mod engine;
mod environment;
pub mod error;
pub mod evaluate;
pub mod forecast;
pub mod frames;
mod inspect;
pub mod job;
pub mod lab;
mod lineage;
pub mod lookup;
mod machine;
pub mod operator;
mod origins;
pub mod output;
mod page;
mod parquet_headers;
pub mod pipeline;
pub mod plan;
pub mod report;
pub(crate) mod rewrite;
pub mod schema;
pub mod source;
mod telemetry;

pub use resemblance_functions::{kernel, udf};
