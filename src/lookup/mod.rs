//! Queries on finished outputs: SQL, neighbors of a document, pairs with their texts.

mod finished;
mod id;
pub mod neighbors;
pub mod not_found;
pub mod passage;
pub mod query;
pub mod reread;
pub mod rows;
pub mod show;
pub mod sketch;

pub use finished::Finished;
pub use id::Id;

use datafusion::prelude::SessionContext;

use crate::error::Result;
use crate::job;

/// Bytes at the end of a Parquet file that are read first: the footers of most tables, with the bounds of their pages. DataFusion
/// reads 512 KiB of each file.
const FOOTER_BYTES: usize = 128 << 10;

/// A session for look-ups by id and key: it reads the other columns only of the rows that are found.
///
/// # Errors
/// As [`crate::engine::session::session`].
pub fn session(engine: &job::Engine) -> Result<SessionContext> {
    let session = crate::engine::session::session(engine)?;
    let state = session.state_ref();
    let mut state = state.write();
    let parquet = &mut state.config_mut().options_mut().execution.parquet;
    parquet.pushdown_filters = true;
    parquet.metadata_size_hint = Some(FOOTER_BYTES);
    drop(state);
    Ok(session)
}
