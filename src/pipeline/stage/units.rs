//! units: the lines, sentences or paragraphs of all documents.

use arrow::datatypes::Field;

use super::interface::{AnyTable, Error, Job, Planned, SourceTypes, Stage, StagePlan, WorkTable, frames};
use crate::job::TextUnit;
use crate::pipeline::tables::numbers;

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

/// Cuts all texts into lines, sentences or paragraphs.
pub(super) static UNITS: Stage = Stage::new(
    AnyTable::Work(WorkTable::UNITS),
    |job| {
        let units = unit(job).map(|(unit, _)| format!("{}s", unit.name())).unwrap_or_default();
        format!("read the texts again and cut them into {units}")
    },
    |job| unit(job).is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
            let units = frames::spans::units(cx.searched_texts().await?, by, &cx.job.shingle)?;
            Ok(Planned { parts: cx.parts_of_source(), ..Planned::new(0, vec![units]) })
        })
    }),
);
