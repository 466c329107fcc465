//! Reads a source, and writes its documents with the planted ones, and the planted pairs, as Parquet files.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use datafusion::common::cast::{as_boolean_array, as_string_array};
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;

use super::planter::{PlantedDocument, Planter, PlantingSettings};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::Source;
use crate::lab::corpus::write::{NewFile, PlantedPair, check_free, truth_batch};
use crate::pipeline::OnExisting;
use crate::source;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedFiles {
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
    settings: &PlantingSettings,
    (out, truth, existing): (&Path, Option<&Path>, OnExisting),
) -> Result<PlantedFiles> {
    let mut planter = Planter::new(settings)?;
    check_free(out, existing)?;
    let mut documents = NewFile::create(out, existing, &documents_batch(&[])?)?;
    let size = settings.shingle.size;
    let mut pairs = match truth {
        Some(path) => {
            check_free(path, existing)?;
            Some(NewFile::create(path, existing, &truth_batch(Vec::new(), size)?)?)
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
                let PlantedDocument { id: planted_id, text, kind, jaccard } = planted;
                truths.push(PlantedPair { ids: [id.to_owned(), planted_id.clone()], kind, jaccard });
                rows.push((planted_id, text));
            }
        }
        documents.write(&documents_batch(&rows)?)?;
        if let Some(pairs) = &mut pairs {
            pairs.write(&truth_batch(truths, size)?)?;
        }
    }
    if originals == 0 {
        return Err(Error::input(format!(
            "{} has no document with an id and a text",
            source.urls.join(", ")
        )));
    }
    Ok(PlantedFiles {
        originals,
        planted: planted_documents,
        left_out,
        bytes: documents.finish()?,
        truth_bytes: pairs.map(NewFile::finish).transpose()?,
    })
}

fn documents_batch(rows: &[(String, String)]) -> Result<RecordBatch> {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.0)))),
        ("text", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.1)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
