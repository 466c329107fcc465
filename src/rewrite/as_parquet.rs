//! Rewrites files in formats that this program does not write, such as SGML, as Parquet with ids and texts.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, SessionContext, cast, col};
use futures::TryStreamExt;
use parquet::arrow::AsyncArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::decisions::{Decision, TextColumns, annotated, other_text};
use super::work::{DocumentCounts, RewriteSettings, RowDestination, WrittenFile, rejected_path, written};
use crate::error::{Context, Result};
use crate::job;
use crate::kernel::text::common_passages::without_spans;
use crate::output::upload::Upload;
use crate::source::{self, Listed, ReadRequest, SourceFile};

/// A row group ends when its encoded size reaches this number of bytes. The value does not depend on the memory, so every attempt writes
/// the same file.
const ROW_GROUP_BYTES: usize = 4 << 20;

/// Writes the kept documents in a file, and the rejects if they are separate. Returns the counts and the written files.
pub(super) async fn write(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let own =
        Schema::new(vec![Field::new("id", DataType::Utf8, true), Field::new("text", DataType::Utf8, true)]);
    let mut files = vec![DocumentFile::begin(work, path, annotated(&own, &work.annotations, work.id)).await?];
    if work.rejects.are_separate(expected) {
        files.push(DocumentFile::begin(work, &rejected_path(path), own).await?);
    }
    let mut counts = DocumentCounts::default();
    // Files without bytes have no documents.
    if file.size() > 0 {
        let mut batches = documents(&work.session, &work.source, file).await?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let (ids, texts) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
            for (row, position) in as_uint64_array(batch.column(2))?.values().iter().enumerate() {
                let Decision { action, cuts, added } = work.decisions.at(file.path(), *position).await?;
                counts.count(action);
                let [id, text] = [ids, texts].map(|texts| texts.is_valid(row).then(|| texts.value(row)));
                match (work.rejects.destination(action), &mut files[..]) {
                    (RowDestination::Kept, [kept, ..]) => {
                        let text = match (text, cuts.is_empty()) {
                            (text, true) => text.map(Cow::Borrowed),
                            (text, false) => {
                                let cut = text.and_then(|text| without_spans(text, &cuts));
                                Some(Cow::Owned(cut.ok_or_else(|| other_text(file.path(), *position))?))
                            }
                        };
                        kept.columns.push([id, text.as_deref()], &added);
                    }
                    (RowDestination::Rejected, [_, rejected]) => rejected.columns.push([id, text], &[]),
                    (_, _) => {}
                }
            }
            for file in &mut files {
                file.encode().await?;
            }
        }
    }
    let mut written = Vec::with_capacity(files.len());
    for file in files {
        written.push(file.finish().await?);
    }
    Ok((counts, written))
}

/// Returns all documents (id, text, position: UInt64) in a file, in order.
pub(super) async fn documents(
    session: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<DataFrame> {
    let all = job::Source { condition: None, limit: None, ..source.clone() };
    let listed = Listed::from_files(std::slice::from_ref(file));
    let read = source::read(session, &all, &listed, ReadRequest::all()).await?.frame;
    let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
    let position = cast(col("position"), DataType::UInt64).alias("position");
    Ok(read.select(vec![text("id"), text("text"), position])?)
}

struct DocumentFile {
    writer: AsyncArrowWriter<Upload>,
    schema: SchemaRef,
    /// The documents that are not yet encoded.
    columns: TextColumns,
    rows: u64,
    shown: String,
}

impl DocumentFile {
    async fn begin(work: &RewriteSettings, inside: &str, schema: Schema) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("resemblance ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .build();
        let shown = format!("{}/{inside}", work.target.shown());
        let upload = work.target.upload(inside).await?;
        let columns = TextColumns::new(schema.fields().iter().map(|field| field.data_type().clone()));
        let schema = Arc::new(schema);
        let writer = AsyncArrowWriter::try_new(upload, Arc::clone(&schema), Some(properties))?;
        Ok(Self { writer, schema, columns, rows: 0, shown })
    }

    async fn encode(&mut self) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.columns.finish()?)?;
        self.rows += batch.num_rows() as u64;
        let writing = || format!("cannot write {}", self.shown);
        self.writer.write(&batch).await.context(writing)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush().await.context(writing)
        } else {
            Ok(())
        }
    }

    async fn finish(mut self) -> Result<WrittenFile> {
        self.writer.finish().await.context(|| format!("cannot write {}", self.shown))?;
        written(self.writer.into_inner(), self.rows).await
    }
}
