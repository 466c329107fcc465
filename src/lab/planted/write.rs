//! Reads a source, and writes its documents with the planted ones, and the planted pairs, as Parquet files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::common::cast::{as_boolean_array, as_string_array};
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;

use super::planter::{Planted, Planter, Settings};
use crate::error::{Context, Error, Result};
use crate::frames::utf8;
use crate::job::Source;
use crate::lab::corpus::write::{Partial, check_free, properties};
use crate::pipeline::OnExisting;
use crate::source;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Documents of the source.
    pub originals: u64,
    /// Planted documents.
    pub planted: u64,
    /// Rows of the source without an id or a text, which were left out.
    pub left_out: u64,
    /// Bytes of the file of documents.
    pub bytes: u64,
    /// Bytes of the file of planted pairs; `None` if it was not asked for.
    pub truth_bytes: Option<u64>,
}

/// Writes the documents of `source`, or the first `most` in the order of their files, as the Parquet file `out` with the columns
/// `id` and `text`, and behind some of them a planted one. `truth` gets a row for each planted document and its original: `id_a`
/// < `id_b`, `kind` (`copy`, `near`, `contained`, `header`), `jaccard` (exact) and `size` (words in a shingle).
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for settings that are out of range, and files that exist;
/// [`Kind::Input`](crate::error::Kind::Input) where the source cannot be read, or a file cannot be written.
pub async fn write(
    session: &SessionContext,
    source: &Source,
    most: Option<usize>,
    settings: &Settings,
    (out, truth, existing): (&Path, Option<&Path>, OnExisting),
) -> Result<Written> {
    let mut planter = Planter::new(settings)?;
    check_free(out, existing)?;
    let mut documents = Table::create(out, existing, &documents_batch(&[])?)?;
    let size = settings.shingle.size;
    let mut pairs = match truth {
        Some(path) => {
            check_free(path, existing)?;
            Some(Table::create(path, existing, &truth_batch(&[], size)?)?)
        }
        None => None,
    };
    let read = source::open(session, source).await?;
    let order = vec![col("source").sort(true, false), col("position").sort(true, false)];
    let frame = read.frame.sort(order)?.limit(0, most)?;
    let has_defect = col("defect").is_not_null().alias("has_defect");
    let mut batches = frame.select(vec![utf8("id"), utf8("text"), has_defect])?.execute_stream().await?;
    let (mut originals, mut planted_documents, mut left_out) = (0, 0, 0);
    while let Some(batch) = batches.try_next().await? {
        let (ids, texts) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let defects = as_boolean_array(batch.column(2))?;
        let (mut rows, mut truths) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            if ids.is_null(row) || texts.is_null(row) || defects.value(row) {
                left_out += 1;
                continue;
            }
            let (id, text) = (ids.value(row), texts.value(row));
            originals += 1;
            rows.push((id.to_owned(), text.to_owned()));
            if let Some(planted) = planter.plant(id, text)? {
                planted_documents += 1;
                rows.push((planted.id.clone(), planted.text.clone()));
                truths.push((id.to_owned(), planted));
            }
        }
        documents.write(&documents_batch(&rows)?)?;
        if let Some(pairs) = &mut pairs {
            pairs.write(&truth_batch(&truths, size)?)?;
        }
    }
    if originals == 0 {
        return Err(Error::input(format!(
            "{} has no document with an id and a text",
            source.urls.join(", ")
        )));
    }
    Ok(Written {
        originals,
        planted: planted_documents,
        left_out,
        bytes: documents.finish()?,
        truth_bytes: pairs.map(Table::finish).transpose()?,
    })
}

/// A Parquet file that is being written.
struct Table {
    partial: Partial,
    path: PathBuf,
    writer: ArrowWriter<File>,
}

impl Table {
    fn create(path: &Path, existing: OnExisting, empty: &RecordBatch) -> Result<Self> {
        let (partial, file) = Partial::create(path, existing)?;
        let writer = ArrowWriter::try_new(file, empty.schema(), Some(properties(path)))?;
        Ok(Self { partial, path: path.to_owned(), writer })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).context(|| format!("cannot write {}", self.path.display()))
    }

    fn finish(self) -> Result<u64> {
        self.writer.close().context(|| format!("cannot write {}", self.path.display()))?;
        self.partial.finish()
    }
}

fn documents_batch(rows: &[(String, String)]) -> Result<RecordBatch> {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.0)))),
        ("text", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.1)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn truth_batch(rows: &[(String, Planted)], size: usize) -> Result<RecordBatch> {
    let first = rows.iter().map(|(id, planted)| id.min(&planted.id));
    let second = rows.iter().map(|(id, planted)| id.max(&planted.id));
    let columns: [(&str, ArrayRef); 5] = [
        ("id_a", Arc::new(StringArray::from_iter_values(first))),
        ("id_b", Arc::new(StringArray::from_iter_values(second))),
        ("kind", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1.kind)))),
        ("jaccard", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1.jaccard)))),
        ("size", Arc::new(Int64Array::from_iter_values(rows.iter().map(|_| size as i64)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
