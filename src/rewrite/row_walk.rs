//! A walk through the rows of a table about the documents of a file, in the order of positions.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, cast, col, lit};
use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::output::manifest::File;
use crate::output::{Layout, read};

/// The values of a row as text, without its source and position; `None` for null.
pub(super) type RowTexts = Vec<Option<String>>;

/// A walk through the rows about the documents of a file.
pub(super) struct RowWalk {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    at: usize,
}

impl RowWalk {
    /// The rows about the documents of the file `source`, from the table `files` with the columns `schema`: source, position, and
    /// any others.
    pub(super) async fn of(
        session: &SessionContext,
        records: &Layout,
        files: &[File],
        (source, schema): (&str, SchemaRef),
    ) -> Result<Self> {
        let texts = schema.fields().iter().skip(2).map(|field| cast(col(field.name()), DataType::Utf8));
        let position = cast(col("position"), DataType::UInt64).alias("position");
        let columns = std::iter::once(position)
            .chain(texts.enumerate().map(|(at, text)| text.alias(format!("text_{at}"))))
            .collect::<Vec<_>>();
        let order = (0..columns.len()).map(|at| match at {
            0 => col("position"),
            at => col(format!("text_{}", at - 1)),
        });
        let order = order.map(|column| column.sort(true, false)).collect();
        let table = read::frame(session, records, files, schema)?;
        let rows = table.filter(col("source").eq(lit(source)))?.select(columns)?.sort(order)?;
        Ok(Self { rows: rows.execute_stream().await?, batch: None, at: 0 })
    }

    /// The rows about the document at `position`, which must increase from call to call.
    pub(super) async fn at(&mut self, position: u64) -> Result<Vec<RowTexts>> {
        let mut found = Vec::new();
        loop {
            let at = self.at;
            let Some(batch) = self.batch.as_ref().filter(|batch| at < batch.num_rows()) else {
                match self.rows.try_next().await? {
                    Some(batch) => (self.batch, self.at) = (Some(batch), 0),
                    None => return Ok(found),
                }
                continue;
            };
            let Some(positions) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
                return Err(Error::bug("positions came of another type"));
            };
            match positions.value(at).cmp(&position) {
                std::cmp::Ordering::Greater => return Ok(found),
                std::cmp::Ordering::Equal => found.push(texts(batch, at)?),
                std::cmp::Ordering::Less => {}
            }
            self.at += 1;
        }
    }
}

/// The values of a row, without its position.
fn texts(batch: &RecordBatch, at: usize) -> Result<RowTexts> {
    let text = |column: &ArrayRef| {
        let texts = column.as_string_opt::<i32>()?;
        Some(texts.is_valid(at).then(|| texts.value(at).to_owned()))
    };
    let texts: Option<RowTexts> = batch.columns()[1..].iter().map(text).collect();
    texts.ok_or_else(|| Error::bug("the texts of a table came of another type"))
}
