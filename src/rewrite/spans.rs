//! The spans of documents that are cut or marked, in the order of files and positions.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, cast, col, lit};
use futures::TryStreamExt;
use tokio::sync::Mutex;

use crate::error::{Error, Result};
use crate::output::manifest::File;
use crate::output::{Layout, read};

/// A walk through the spans of the files of a part, which are read once.
#[derive(Clone)]
pub(super) struct PartSpans(Arc<Mutex<Walk>>);

struct Walk {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    at: usize,
}

impl PartSpans {
    /// The spans of the documents of the files `sources`, which are neighbours, from the table `files` (source, position,
    /// byte_start, byte_end, ..).
    pub(super) async fn of(
        session: &SessionContext,
        records: &Layout,
        files: &[File],
        sources: (&str, &str),
    ) -> Result<Self> {
        let number = |name: &str| Field::new(name, DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![
            Field::new("source", DataType::Utf8, false),
            number("position"),
            number("byte_start"),
            number("byte_end"),
        ]));
        let is_inside = col("source").gt_eq(lit(sources.0)).and(col("source").lt_eq(lit(sources.1)));
        let unsigned = |name: &str| cast(col(name), DataType::UInt64).alias(name);
        let columns = [
            vec![cast(col("source"), DataType::Utf8).alias("source")],
            ["position", "byte_start", "byte_end"].map(unsigned).to_vec(),
        ];
        let sorted = ["source", "position", "byte_start"].map(|name| col(name).sort(true, false));
        let rows = read::frame(session, records, files, schema)?
            .filter(is_inside)?
            .select(columns.concat())?
            .sort(sorted.to_vec())?;
        let walk = Walk { rows: rows.execute_stream().await?, batch: None, at: 0 };
        Ok(Self(Arc::new(Mutex::new(walk))))
    }

    /// Those of one file. Files must be taken in the order of their names.
    pub(super) fn of_file(&self, source: &str) -> SpanCursor {
        SpanCursor { spans: self.clone(), source: source.to_owned() }
    }
}

/// A walk through the spans of a file.
pub(super) struct SpanCursor {
    spans: PartSpans,
    source: String,
}

impl SpanCursor {
    /// The spans of the document at `position`, which must increase from call to call: ranges of the bytes of its text, in
    /// ascending order.
    pub(super) async fn at(&mut self, position: u64) -> Result<Vec<Range<usize>>> {
        let mut walk = self.spans.0.lock().await;
        let wanted = (self.source.as_str(), position);
        let mut spans = Vec::new();
        loop {
            let at = walk.at;
            let Some(batch) = walk.batch.as_ref().filter(|batch| at < batch.num_rows()) else {
                match walk.rows.try_next().await? {
                    Some(batch) => (walk.batch, walk.at) = (Some(batch), 0),
                    None => return Ok(spans),
                }
                continue;
            };
            let number = |column: usize| {
                let numbers = batch.column(column).as_primitive_opt::<UInt64Type>();
                Some(numbers?.value(at))
            };
            let source = batch.column(0).as_string_opt::<i32>().map(|sources| sources.value(at));
            let (Some(source), Some(position), Some(start), Some(end)) =
                (source, number(1), number(2), number(3))
            else {
                return Err(Error::bug("the places of spans are of another type"));
            };
            match (source, position).cmp(&wanted) {
                std::cmp::Ordering::Greater => return Ok(spans),
                std::cmp::Ordering::Equal => spans.push(start as usize..end as usize),
                std::cmp::Ordering::Less => {}
            }
            walk.at += 1;
        }
    }
}

/// The error for a text that does not have the spans that the run found in it.
pub(super) fn other_text(path: &str, position: u64) -> Error {
    Error::input(format!(
        "the text of row {position} of {path}, counted from 0, is not the one in which the run found passages: run the job again with \
         --overwrite, and apply its output"
    ))
}
