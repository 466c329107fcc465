//! An output: its paths, its store, its manifests, and what reads, writes, claims and cleans it.
//!
//! ```text
//! OUTPUT/manifest.json            written last, in one put: its readers see a whole result
//!        pairs/part-*.parquet     the public tables; the manifest names their files
//!        clusters/  documents/  rejects/
//!        TABLE/_delta_log/*.json  what makes a table a Delta table, where the job asks for it
//!        _work/claims/            who may write here
//!        _work/attempts/          who wrote here: put before an attempt's first file
//!        _work/STEP.KEY.json      a finished step: its files, rows and checksums
//!        _work/TABLE/part-*       tables that only later steps read
//! ```

pub(crate) mod attempt;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod delta;
pub(crate) mod entries;
pub(crate) mod garbage;
mod local;
pub mod manifest;
pub mod names;
pub(crate) mod ours;
mod paths;
pub(crate) mod process;
mod published;
pub mod read;
mod store;
mod stored;
pub(crate) mod upload;
pub mod write;

pub use paths::Layout;
pub use stored::Stored;
