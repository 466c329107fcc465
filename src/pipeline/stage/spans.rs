//! units, spans: the lines, sentences or paragraphs of all documents, and those that repeat.

use std::borrow::Cow;

use arrow::datatypes::Field;
use async_trait::async_trait;
use datafusion::prelude::col;

use super::interface::{OneTable, Stage, Tables, Writes, all};
use crate::error::{Error, Result};
use crate::job::{Job, Passages};
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{AnyTable, WorkTable, numbers};
use crate::pipeline::{by_group, frames};
use crate::schema::{SourceTypes, Table};

/// Cuts all texts into lines, sentences or paragraphs.
pub(crate) struct Units;

/// Finds those that repeat, and keeps one of each.
pub(crate) struct Spans;

impl WorkTable {
    /// The lines, sentences or paragraphs of all documents: their hashes and places.
    pub(crate) const UNITS: Self = Self::new("units", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let places = ["char_start", "char_end", "byte_start", "byte_end", "words"];
    [numbers(["doc", "hash_0", "hash_1"]), numbers(places)].concat()
}

/// Bytes of a row of units in memory, with what ranks it.
const BYTES_OF_UNIT: u64 = 128;

/// The section of the job, which all stages of passages need.
pub(super) fn section(job: &Job) -> Result<Passages> {
    job.passages.ok_or_else(|| Error::bug("the job asks for no passages"))
}

impl Writes for Units {
    fn name(&self) -> Cow<'static, str> {
        "units".into()
    }

    fn describe(&self, job: &Job) -> String {
        let unit = job.passages.map(|passages| format!("{}s", passages.unit.name())).unwrap_or_default();
        format!("read the texts again and cut them into {unit}")
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::UNITS)
    }
}

#[async_trait]
impl Stage for Units {
    fn is_in(&self, job: &Job) -> bool {
        job.passages.is_some()
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        if cx.is_done(self).await? {
            return cx.take_over(self).await;
        }
        let documents = frames::spans::compared(cx.whole_texts().await?, cx.table(Table::Rejects)?)?;
        let units = frames::spans::units(documents, &section(cx.job)?, &cx.job.shingle)?;
        cx.run_in_parts(self, 0, cx.parts_of_source(), units).await
    }
}

impl OneTable for Spans {
    const TABLE: AnyTable = AnyTable::Public(Table::Spans);
    const WHAT: &'static str = "find those that repeat";
}

#[async_trait]
impl Stage for Spans {
    fn is_in(&self, job: &Job) -> bool {
        Units.is_in(job)
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let mut columns = by_group::ordered(cx.job)?;
        columns.extend(["source", "position"].map(col));
        let documents = cx.table(Table::Documents)?.select(columns)?;
        let spans = frames::spans::spans(cx.table(WorkTable::UNITS)?, documents, &cx.job.clusters.order())?;
        cx.run(self, cx.rows(WorkTable::UNITS) * BYTES_OF_UNIT, vec![spans]).await
    }
}
