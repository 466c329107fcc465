//! units: the lines, sentences or paragraphs of all documents.

use std::borrow::Cow;

use arrow::datatypes::Field;
use futures::future::BoxFuture;

use super::interface::{Planned, Stage, Tables, Writes, all};
use crate::error::{Error, Result};
use crate::frames;
use crate::job::{Job, TextUnit};
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, numbers};
use crate::schema::SourceTypes;

/// Cuts all texts into lines, sentences or paragraphs.
pub(crate) struct Units;

impl WorkTable {
    /// The lines, sentences or paragraphs of all documents: their hashes and places.
    pub(crate) const UNITS: Self = Self::new("units", columns);
}

pub(super) fn columns(_source: &SourceTypes) -> Vec<Field> {
    let places = ["char_start", "char_end", "byte_start", "byte_end", "words"];
    [numbers(["doc", "hash_0", "hash_1"]), numbers(places)].concat()
}

/// Bytes of a row of units or windows in memory, with what ranks it.
pub(super) const BYTES_OF_UNIT: u64 = 128;

/// The unit of the job, and the fewest words of a passage; `None` for words.
pub(super) fn unit(job: &Job) -> Option<(TextUnit, usize)> {
    job.passages?.units()
}

impl Writes for Units {
    fn name(&self) -> Cow<'static, str> {
        "units".into()
    }

    fn describe(&self, job: &Job) -> String {
        let units = unit(job).map(|(unit, _)| format!("{}s", unit.name())).unwrap_or_default();
        format!("read the texts again and cut them into {units}")
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::UNITS)
    }
}

impl Stage for Units {
    fn is_in(&self, job: &Job) -> bool {
        unit(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
            let units = frames::spans::units(cx.searched_texts().await?, by, &cx.job.shingle)?;
            let parts = cx.parts_of_source();
            cx.run_planned(self, Planned { parts, ..Planned::new(0, vec![units]) }).await
        })
    }
}
