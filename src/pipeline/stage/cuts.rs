//! cuts: the shingles of each document as text, for a dictionary.

use arrow::datatypes::{DataType, Field};

use super::dictionary::DICTIONARY;
use super::duplicates::first_of_each_id;
use super::interface::{AnyTable, Planned, SourceTypes, Stage, StagePlan, WorkTable, frames};
use crate::pipeline::tables::{id_column, list_column};
use crate::schema;

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

/// Cuts all texts.
pub(super) static CUTS: Stage = Stage::new(
    AnyTable::Work(WorkTable::CUTS),
    |job| {
        format!(
            "read {} from {} and cut the shingles",
            job.source.text.join(" + "),
            job.source.urls.join(", ")
        )
    },
    |job| (DICTIONARY.is_in)(job),
    StagePlan::Now(|cx| {
        let documents = first_of_each_id(cx, cx.documents.clone())?;
        let cuts = frames::dictionary::cuts(documents, &cx.job.shingle)?;
        Ok(Planned { parts: cx.parts_of_source(), ..Planned::new(0, vec![cuts]) })
    }),
);
