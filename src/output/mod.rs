//! An output: its paths, its store, its manifests, its tables, the claim of the process that writes to it, and its clean-up.
//! If a function here does not say more, it fails only where the store refuses or does not answer.
//!
//! ```text
//! OUTPUT/manifest.json            written last, in one put: its readers see a whole result
//!        pairs/part-*.parquet     the public tables; the manifest names their files
//!        clusters/  documents/  rejects/
//!        TABLE/_delta_log/*.json  the log of a Delta table, if the job asks for one
//!        _work/claims/            the claims of processes that write here
//!        _work/attempts/          the record of each attempt: put before its first file
//!        _work/STAGE.KEY.json      a finished stage: its files, rows and checksums
//!        _work/TABLE/part-*       tables that only later stages read
//!        _work/rows/part-*        sets of rows that are too large for a plan
//! ```
//!
//! A result of `apply` has the files of the source, and all of this in its folder `_resemblance/`.
//!
//! - `paths`, `names`: the layout of an output, and the names of its files.
//! - `store`, `local`, `upload`, `entries`: reads, puts, lists and removes files in a store or on this machine; `digest`:
//!   checksums.
//! - `attempt`, `claim`, `process`: the record of an attempt, its claim to write, and the identity of its process.
//! - `write`: the node that writes tables, and `pages`, how large their pages are; `read`: reads them, and `wanted_pages` some of
//!   their pages.
//! - `manifest`, `counts`: what stages and runs wrote; `published`: the manifests in an output; `delta`: the same as Delta tables.
//! - `stored`: a finished output; `applied`: a result of `apply` over one; `check`: compares its files with its manifest.
//! - `ours`: which files may be removed; `garbage`: finds and removes them.

pub(crate) mod applied;
pub(crate) mod attempt;
pub(crate) mod check;
pub(crate) mod claim;
pub mod counts;
pub(crate) mod delta;
pub(crate) mod digest;
pub(crate) mod entries;
pub(crate) mod garbage;
mod local;
pub mod manifest;
pub mod names;
pub(crate) mod ours;
mod pages;
mod paths;
pub(crate) mod process;
mod published;
pub mod read;
mod store;
mod stored;
pub(crate) mod upload;
pub(crate) mod wanted_pages;
pub mod write;

pub(crate) use crate::address::APPLIED;
pub(crate) use local::partial_file;
pub(crate) use paths::BEGUN;
pub use paths::Layout;
pub use stored::Stored;
