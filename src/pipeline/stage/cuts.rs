//! cuts: the shingles of each document as text, for a dictionary.

use std::borrow::Cow;

use arrow::datatypes::{DataType, Field};

use super::dictionary;
use super::duplicates::first_of_each_id;
use super::interface::{
    BoxFuture, Job, Planned, Result, SourceTypes, Stage, StageContext, Tables, WorkTable, Writes, all, frames,
};
use crate::pipeline::tables::{id_column, list_column};
use crate::schema::{self};

/// Cuts all texts.
pub(crate) struct Cuts;

impl WorkTable {
    /// The shingles of each document as text.
    pub(crate) const CUTS: Self = Self::new("cuts", columns);
}

fn columns(source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::UInt64, false),
        id_column(source, true),
        Field::new("doc", DataType::UInt64, true),
        Field::new("reason", DataType::Utf8, true),
        list_column("texts", DataType::LargeUtf8, true),
    ];
    let carried = source.columns.iter().enumerate();
    columns
        .extend(carried.map(|(at, column)| Field::new(schema::carried(at), column.data_type.clone(), true)));
    columns
}

impl Writes for Cuts {
    fn name(&self) -> Cow<'static, str> {
        "cuts".into()
    }

    fn describe(&self, job: &Job) -> String {
        format!(
            "read {} from {} and cut the shingles",
            job.source.text.join(" + "),
            job.source.urls.join(", ")
        )
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::CUTS)
    }
}

impl Stage for Cuts {
    fn is_in(&self, job: &Job) -> bool {
        dictionary::Dictionary.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let documents = first_of_each_id(cx, cx.documents.clone())?;
            let cuts = frames::dictionary::cuts(documents, &cx.job.shingle)?;
            let parts = cx.parts_of_source();
            cx.run_planned(self, Planned { parts, ..Planned::new(0, vec![cuts]) }).await
        })
    }
}
