//! `source.where` and `source.limit`: which rows of a source are documents.

mod condition;
mod limit;

pub use self::condition::Condition;
pub use self::limit::{Limit, LimitSize};
