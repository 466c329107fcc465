//! What is asked of finished outputs.

mod finished;
mod id;
pub mod neighbors;
pub mod not_found;
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

/// A session in which documents are looked up by their ids and keys: what else a row holds is read only for the rows that are
/// found.
///
/// # Errors
/// When the engine cannot have what it needs of this machine.
pub fn session(engine: &job::Engine) -> Result<SessionContext> {
    let session = crate::engine::session::session(engine)?;
    session.state_ref().write().config_mut().options_mut().execution.parquet.pushdown_filters = true;
    Ok(session)
}
