//! Finds every pair of similar documents in a Parquet dataset, and says how similar they are.
//!
//! The flow, which is also the order of the modules; each imports only from those above it:
//!
//! ```text
//! documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`error`] | one error type; its kinds say who must act |
//! | [`job`] | the job file, resolved; the S-curve and the choice of bands and rows |
//! | [`schema`] | the contracts of the public tables |
//! | [`kernel`] | what is computed: plain functions on texts, sets and signatures |
//! | [`clusters`] | clusters out of pairs: connected components, strongest paths, representatives |
//! | [`udf`] | the SQL functions around the kernels |
//! | [`plan`] | what all our operators are as nodes of a plan |
//! | [`source`] | files of any format -> documents |
//! | [`operator`] | physical operators that the engine lacks |
//! | [`stage`] | one stage per file, frame to frame |
//! | [`output`] | an output: its paths, its store, its manifests, and what reads and writes its tables |
//! | [`corpus`] | generated documents, some of them planted near others |
//! | `rewrite` | the files of a source, written again without some of their rows |
//! | [`engine`] | the one session, and what runs plans |
//! | [`pipeline`] | the sentence, as code: run a step or take it over |
//! | [`lookup`] | what is asked of finished outputs |
//! | [`apply`] | the source of a finished output, written without the documents that go |
//! | [`experiment`] | methods and settings, tried on samples |
//! | `report` | charts, pages and metrics |
//! | [`cli`] | one file per command |
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
//! - **stage**: a function from frames to a frame. **step**: what a run publishes and does not do again. **query stage**: a
//!   part of a plan between two shuffles, as Ballista calls it.
//!
//! # As a library
//!
//! The SQL functions work in any DataFusion session: see [`udf::register_all`].

mod address;
pub mod apply;
pub mod cli;
pub mod clusters;
pub mod corpus;
pub mod engine;
pub mod error;
pub mod experiment;
mod guard;
pub mod job;
pub mod kernel;
mod local_path;
pub mod lookup;
pub mod operator;
pub mod output;
pub mod pipeline;
pub mod plan;
pub(crate) mod report;
pub(crate) mod rewrite;
pub mod schema;
mod secrets;
pub mod source;
pub mod stage;
pub mod udf;
mod visible;
