//! An output: its manifests and tables, the claim of the process that writes to it, and the removal of unneeded files.
//!
//! ```text
//! OUTPUT/manifest.json            written last, in one put: its readers see a whole result
//!        pairs/part-*.parquet     the public tables; the manifest names their files
//!        clusters/  documents/  rejects/
//!        TABLE/_delta_log/*.json  the log of a Delta table, if the job asks for one
//!        _work/claims/            the claims of processes that write here
//!        _work/attempts/          the record of each attempt: put before its first file
//!        _work/STAGE.KEY.json     a finished stage: its files, rows and checksums
//!        _work/TABLE/part-*       tables that only later stages read
//!        _work/rows/part-*        row sets that are too large for a plan
//! ```
//!
//! A result of `apply` contains the files of the source. Its folder `_resemblance/` contains the files above. If a function does not
//! document its errors, it fails only if the store refuses or does not answer.

pub mod attempt;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod delta;
pub(crate) mod layout;
mod local;
pub mod manifest;
pub(crate) mod ownership;
pub(crate) mod parts;
pub mod read;
pub(crate) mod results;
pub(crate) mod upload;
pub mod write;

pub(crate) use self::layout::BEGUN;
pub use self::layout::Layout;
pub(crate) use self::local::{NewFile, partial_file, persist};
pub use self::results::Stored;
pub(crate) use crate::address::APPLIED;
