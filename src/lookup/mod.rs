//! Queries on finished outputs: SQL, neighbors of a document, pairs with their texts.

mod finished;
mod id;
pub mod neighbors;
pub mod not_found;
pub mod passage;
mod places;
pub mod query;
mod reference_places;
pub mod reread;
pub mod rows;
pub mod show;
pub mod side_by_side;
mod similarity;
pub mod sketch;

pub use finished::Finished;
pub use id::Id;

use datafusion::prelude::SessionContext;

use crate::error::Result;
use crate::job;

/// A session for look-ups by id and key: it reads the other columns only of the rows that are found.
///
/// # Errors
/// As [`crate::engine::session::session`].
pub fn session(engine: &job::Engine) -> Result<SessionContext> {
    let session = crate::engine::session::session(engine)?;
    session.state_ref().write().config_mut().options_mut().execution.parquet.pushdown_filters = true;
    Ok(session)
}
