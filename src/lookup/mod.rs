//! Queries on finished outputs. They include SQL, the neighbors of a document, pairs with their texts, and passages. If a function does not
//! document its errors, it fails only if a table of the output cannot be read.

mod finished;
pub mod neighbors;
pub mod passage;
pub mod reread;
pub mod rows;
pub mod show;
pub mod spreadsheets;

pub(crate) use finished::near_ids;
pub use finished::{Finished, Id, not_found};

use datafusion::prelude::SessionContext;

use crate::error::Result;
use crate::job;

/// The number of bytes that are read first at the end of a Parquet file. In most tables, they contain the footer and the bounds of pages.
/// The default of DataFusion is 512 KiB.
const FOOTER_BYTES: usize = 128 << 10;

/// Returns a session for look-ups by id and key, which reads other columns only for matching rows. Fails like
/// [`crate::engine::session::session`].
pub fn session(engine: &job::EngineSettings) -> Result<SessionContext> {
    let session = crate::engine::session::session(engine)?;
    let state = session.state_ref();
    let mut state = state.write();
    let parquet = &mut state.config_mut().options_mut().execution.parquet;
    parquet.pushdown_filters = true;
    parquet.metadata_size_hint = Some(FOOTER_BYTES);
    drop(state);
    Ok(session)
}
