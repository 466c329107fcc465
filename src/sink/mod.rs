//! Where the tables go: the layout of an output, the writer node, the manifests.
//!
//! ```text
//! OUTPUT/manifest.json            written last, once: who sees it sees a whole result
//!        pairs/part-*.parquet     the public tables; the manifest names their files
//!        clusters/  documents/  rejects/
//!        _work/STAGE.json         a finished stage: its files, rows and checksums
//!        _work/TABLE/part-*       tables that only later stages read
//! ```

pub mod layout;
pub mod leftovers;
pub mod manifest;
pub mod read;
pub mod write;

pub use layout::Layout;
