//! What becomes of each row of a file.

use serde::{Deserialize, Serialize};

use super::record::Counts;
use crate::error::{Error, Result};
use crate::source::RowSet;

/// Where documents go that the job rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rejects {
    /// They stay among the others.
    #[default]
    Keep,
    /// They are left out.
    Drop,
    /// They go to a folder of their own.
    Apart,
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays.
    Keep,
    /// It is left out.
    Leave,
    /// It goes to the rejects' own folder.
    Apart,
}

/// What becomes of the rows of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Fates {
    /// Those that go, as documents that another one stands for.
    pub removed: RowSet,
    /// Those that the job rejected.
    pub rejected: RowSet,
    /// Where these go.
    pub rejects: Rejects,
}

impl Fates {
    /// What becomes of a row.
    pub(super) fn of(&self, position: u64) -> Fate {
        if self.removed.contains(position) {
            return Fate::Leave;
        }
        match self.rejects {
            Rejects::Keep => Fate::Keep,
            _ if !self.rejected.contains(position) => Fate::Keep,
            Rejects::Drop => Fate::Leave,
            Rejects::Apart => Fate::Apart,
        }
    }

    /// The rows that do not stay.
    pub(super) fn gone(&self) -> RowSet {
        match self.rejects {
            Rejects::Keep => self.removed.clone(),
            Rejects::Drop | Rejects::Apart => self.removed.union(&self.rejected),
        }
    }

    /// Whether some rows go to the rejects' own folder.
    pub(super) fn any_apart(&self) -> bool {
        self.rejects == Rejects::Apart && self.rejected.count() > 0
    }

    /// The documents of a file that has `rows`, where its output counted `expected`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it has more or fewer rows than the output knows.
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
