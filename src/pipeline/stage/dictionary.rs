//! dictionary: a number for every distinct shingle of the collection.

use std::borrow::Cow;

use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Table, Tables, WorkTable, Writes, frames, not_null,
};
use crate::job::ShingleHash;
use crate::output::write::Rows;
use crate::pipeline::tables::numbers;

/// Numbers the shingles. Numbers are ranks in one order, so all rows end in one partition.
pub(crate) struct Dictionary;

impl WorkTable {
    /// A number for each shingle of each document.
    pub(crate) const NUMBERS: Self = Self::new("numbers", |_| numbers(["doc", "number"]));
}

impl Writes for Dictionary {
    fn name(&self) -> Cow<'static, str> {
        "dictionary".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "number the distinct shingles of the collection".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        vec![(WorkTable::NUMBERS.into(), Rows::All), not_null(Table::Dictionary, "shingle")]
    }
}

impl Stage for Dictionary {
    fn is_in(&self, job: &Job) -> bool {
        job.reads_texts() && job.shingle.hash == ShingleHash::Dictionary
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let numbers = frames::dictionary::numbers(cx.table(WorkTable::CUTS)?)?;
            cx.run(self, 0, vec![numbers]).await
        })
    }
}
