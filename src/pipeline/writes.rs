//! The name, the description and the tables of a stage.

use std::borrow::Cow;

use super::tables::{AnyTable, WorkTable};
use crate::job::Job;
use crate::output::write::Rows;

/// The name, the description and the tables of a stage.
pub(crate) trait Writes: Send + Sync {
    /// Its name, in logs, records and the names of its files.
    fn name(&self) -> Cow<'static, str>;

    /// What it does for `job`, in one line; the name of a stage that is on no list.
    fn describe(&self, _job: &Job) -> String {
        self.name().into_owned()
    }

    /// The tables that it writes, and which of its rows go into each.
    fn tables(&self, job: &Job) -> Tables;
}

/// The tables of a stage, and which of its rows go into each.
pub(crate) type Tables = Vec<(AnyTable, Rows)>;

/// The stage that writes this table: one that only the data show to be needed.
impl Writes for WorkTable {
    fn name(&self) -> Cow<'static, str> {
        WorkTable::name(*self)
    }

    fn tables(&self, _job: &Job) -> Tables {
        vec![((*self).into(), Rows::All)]
    }
}
