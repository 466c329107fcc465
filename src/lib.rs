//! Finds similar documents in a dataset and computes how similar they are.
//!
//! The modules are in the order of this data flow. Each module imports only from modules above it in the table:
//!
//! ```text
//! documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`error`] | the error type, whose kinds determine who must act; the parser for errors of libraries |
//! | `address` | URLs and paths of inputs and outputs, and the secrets in them |
//! | `environment` | every environment variable, read once |
//! | `machine` | the clock, the memory and disks that this process may use, and the files that it is reading |
//! | `parquet_headers` | checks of the numbers that Parquet files declare, before they are decoded |
//! | [`job`] | the job file, resolved; the S-curve and the choice of bands and rows |
//! | [`schema`] | the contracts of the public tables |
//! | `clusters` | clusters of pairs: connected components, strongest paths, representatives |
//! | [`plan`] | the node of every operator, and the store of spilled rows |
//! | `delta` | the logs of Delta tables: actions, protocol, snapshots |
//! | [`source`] | files of any format -> documents |
//! | `inspect` | inspection of data without a job: format, encoding, columns, and the first texts |
//! | [`operator`] | physical operators that DataFusion lacks |
//! | [`output`] | an output: its paths, its store, its manifests, and functions that read and write its tables |
//! | [`frames`] | functions from frames to frames, for stages, look-ups and measurements |
//! | `origins` | the sources of finished outputs, listed again |
//! | `rewrite` | rewrites the files of a source without some of their rows |
//! | [`engine`] | sessions, object stores, and the engines that run plans |
//! | [`pipeline`] | runs a job, stage by stage |
//! | `page` | charts as SVG, pairs of texts in two columns, and pages of charts and tables |
//! | [`lookup`] | queries on finished outputs |
//! | [`apply`] | writes a copy of the source without its duplicates |
//! | `forget` | rewrites finished outputs as if some documents had never been read |
//! | [`evaluate`](mod@evaluate) | the pairs that a finished output missed, measured on a sample, and audits by people |
//! | [`forecast`](mod@forecast) | the time and resources of a run, forecast from a sample of its documents |
//! | [`report`](mod@report) | a page about a finished output |
//! | [`lab`] | generated corpora, and measurements of methods and settings on samples |
//! | `telemetry` | the spans and metrics of a command for OpenTelemetry, and the OpenLineage events of a run |
//! | [`cli`] | one file per command |
//!
//! [`kernel`] (plain functions on texts, sets and signatures) and [`udf`] (SQL functions around them) are the crate
//! `resemblance-functions`, which builds without the program.
//!
//! # Words
//!
//! - **shingle**: `k` consecutive words or characters; a document is the set of its shingles.
//! - **permutation**: a hash function on shingles, which orders the shingles randomly.
//! - **signature**: the minimum value of a document's shingles under each permutation. The share of equal values in
//!   two signatures estimates the Jaccard similarity of the two sets.
//! - **band**, **row**: a signature is cut into `b` bands of `r` rows.
//! - **bucket**: the hash of a band. Two documents that share a bucket are a **candidate**.
//! - **pair**: two documents whose similarity reaches the threshold.
//! - **cluster**: documents that are connected by pairs.
//! - **leader**: a document in a dense group, which is a group with too many pairs to compare all of them. The other documents in the group
//!   are compared with leaders instead.
//! - **home**: a group of pairs that are verified together. Each home gets every sketch that it needs once.
//! - **stage**: a part of a run. The tables of a stage are published together. A resumed run does not repeat it. **query stage**: a part of
//!   a plan between two shuffles, as in Ballista.
//!
//! # As a library
//!
//! The SQL functions work in any DataFusion session: see [`udf::register_all`].

mod address;
pub mod apply;
pub mod cli;
mod clusters;
mod delta;
pub mod engine;
mod environment;
pub mod error;
pub mod evaluate;
pub mod forecast;
mod forget;
pub mod frames;
mod inspect;
pub mod job;
pub mod lab;
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
