//! Which rows of a file are kept, removed, or written as rejects.

use serde::{Deserialize, Serialize};

use super::record::Counts;
use crate::error::{Error, Result};
use crate::source::RowSet;

/// The place of documents that the job rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rejects {
    /// They stay
    #[default]
    Keep,
    /// They are left out
    Drop,
    /// They are written to _resemblance/rejected/
    Separate,
}

/// The action for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowAction {
    Keep,
    Remove,
    /// Write it to the folder of rejects.
    Separate,
}

/// The rows of a file that are not kept, and the place of rejects.
#[derive(Debug, Clone, Default)]
pub(super) struct RowActions {
    /// Duplicates, which are removed.
    pub removed: RowSet,
    /// Rows that the job rejected.
    pub rejected: RowSet,
    /// The place of rejected rows.
    pub rejects: Rejects,
}

impl RowActions {
    /// The action for a row.
    pub(super) fn of(&self, position: u64) -> RowAction {
        if self.removed.contains(position) {
            return RowAction::Remove;
        }
        match self.rejects {
            Rejects::Keep => RowAction::Keep,
            _ if !self.rejected.contains(position) => RowAction::Keep,
            Rejects::Drop => RowAction::Remove,
            Rejects::Separate => RowAction::Separate,
        }
    }

    /// The rows that are not kept.
    pub(super) fn not_kept(&self) -> RowSet {
        match self.rejects {
            Rejects::Keep => self.removed.clone(),
            Rejects::Drop | Rejects::Separate => self.removed.union(&self.rejected),
        }
    }

    /// Whether some rows go to the folder of rejects.
    pub(super) fn any_separate(&self) -> bool {
        self.rejects == Rejects::Separate && self.rejected.count() > 0
    }

    /// The counts of a file of `rows` documents.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if they differ from those that the output `expected`.
    pub(super) fn counts(&self, source: &str, rows: u64, expected: Counts) -> Result<Counts> {
        let (removed, rejected) = (self.removed.count(), self.rejected.count());
        if (rows, rejected) != (expected.read, expected.rejected) {
            return Err(Error::input(format!(
                "{source} has {rows} documents, but the output knows {} of them: run the job again with --overwrite",
                expected.read
            )));
        }
        Ok(Counts { read: rows, kept: rows - removed - rejected, removed, rejected })
    }
}
