//! The annotations of documents, file by file in the order of positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, cast, col, lit};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::spans::{PartSpans, SpanCursor};
use crate::error::{Error, Result};
use crate::job;
use crate::output::manifest::File;
use crate::output::{Layout, read};
use crate::schema::IdType;
use crate::source::{AddedValue, RowFormat};

/// What a document is annotated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Annotation {
    /// Its cluster.
    Clusters,
    /// The spans that repeat in it and do not stay.
    Spans,
}

/// A column that annotates documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnotationColumn {
    pub name: &'static str,
    pub data_type: DataType,
}

impl Annotation {
    /// The columns of an annotation, for ids of the type `id`.
    fn columns(self, id: IdType) -> Vec<AnnotationColumn> {
        let column = |(name, data_type)| AnnotationColumn { name, data_type };
        match self {
            Self::Clusters => {
                let types = [id.arrow(), DataType::Boolean, id.arrow()];
                ["cluster_id", "representative", "kept_id"].into_iter().zip(types).map(column).collect()
            }
            Self::Spans => vec![column(("repeated_spans", DataType::Utf8))],
        }
    }

    /// The option of the command.
    fn option(self) -> &'static str {
        match self {
            Self::Clusters => "--annotate",
            Self::Spans => "--passages mark",
        }
    }
}

/// The columns of some annotations, in their order.
pub(crate) fn columns(annotations: &[Annotation], id: IdType) -> Vec<AnnotationColumn> {
    annotations.iter().flat_map(|annotation| annotation.columns(id)).collect()
}

/// The names of the columns of some annotations.
pub(crate) fn names(annotations: &[Annotation]) -> Vec<&'static str> {
    columns(annotations, IdType::Utf8).into_iter().map(|column| column.name).collect()
}

/// The columns of the table of documents in clusters.
pub(crate) fn clustered_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("cluster_id", id.arrow(), false),
        Field::new("representative", DataType::Boolean, false),
        Field::new("kept_id", id.arrow(), false),
    ]))
}

/// Appends the names of the columns of `annotations` to the header of the file `path`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if it already has one of the names.
pub(crate) fn append_names(
    format: &dyn RowFormat,
    source: &job::Source,
    annotations: &[Annotation],
    (header, path): (&[u8], &str),
    to: &mut Vec<u8>,
) -> Result<()> {
    format.append_names(source, header, &names(annotations), to).map_err(|name| column_exists(name, path))
}

/// The error for a file that already has a column of this name.
pub(crate) fn column_exists(name: &str, path: &str) -> Error {
    name_exists(name, &format!("{path} has a column `{name}`"))
}

/// The error for a name that an annotation would add; `what` has it.
pub(super) fn name_exists(name: &str, what: &str) -> Error {
    let option = match names(&[Annotation::Spans]).contains(&name) {
        true => Annotation::Spans.option(),
        false => Annotation::Clusters.option(),
    };
    Error::input(format!(
        "{what} already, which {option} would add: rename it and run the job again, or apply without {option}"
    ))
}

/// An annotation, and the files of its table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnnotationTable {
    pub annotation: Annotation,
    pub files: Vec<File>,
}

/// The annotations of a source.
pub(super) struct Annotations {
    pub tables: Vec<AnnotationTable>,
    /// The type of ids.
    pub id: IdType,
}

impl Annotations {
    /// The annotations of the documents of a file; `None` if documents are not annotated.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn of(
        &self,
        session: &SessionContext,
        records: &Layout,
        source: &str,
    ) -> Result<Option<Cursor>> {
        if self.tables.is_empty() {
            return Ok(None);
        }
        let mut cursors = Vec::with_capacity(self.tables.len());
        for AnnotationTable { annotation, files } in &self.tables {
            cursors.push(match annotation {
                Annotation::Clusters => TableCursor::Clusters(
                    ClusterCursor::of(session, records, files, (source, self.id)).await?,
                ),
                Annotation::Spans => {
                    let spans = PartSpans::of(session, records, files, (source, source)).await?;
                    TableCursor::Spans(spans.of_file(source))
                }
            });
        }
        let annotations: Vec<Annotation> = self.tables.iter().map(|table| table.annotation).collect();
        Ok(Some(Cursor { columns: columns(&annotations, self.id), annotations, cursors, id: self.id }))
    }
}

/// A walk through the annotations of a file.
pub(super) struct Cursor {
    pub annotations: Vec<Annotation>,
    pub columns: Vec<AnnotationColumn>,
    /// The type of ids.
    pub id: IdType,
    cursors: Vec<TableCursor>,
}

enum TableCursor {
    Clusters(ClusterCursor),
    Spans(SpanCursor),
}

impl Cursor {
    /// The values of the annotation columns of the document at `position`, which must increase from call to call; null where it is
    /// in no cluster or has no span.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn at(&mut self, position: u64) -> Result<Vec<AddedValue>> {
        let mut values = Vec::with_capacity(self.columns.len());
        for cursor in &mut self.cursors {
            match cursor {
                TableCursor::Clusters(cursor) => values.extend(cursor.at(position).await?),
                TableCursor::Spans(cursor) => {
                    let spans = cursor.at(position).await?;
                    let spans: Vec<[usize; 2]> =
                        spans.into_iter().map(|span| [span.start, span.end]).collect();
                    values.push(match spans.is_empty() {
                        true => AddedValue::Null,
                        false => AddedValue::Literal(serde_json::json!(spans).to_string()),
                    });
                }
            }
        }
        Ok(values)
    }

    /// The annotation columns of the documents at these positions, which must increase.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn columns_at(&mut self, positions: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let mut texts: Vec<StringBuilder> = self.columns.iter().map(|_| StringBuilder::new()).collect();
        for position in positions.values() {
            for (texts, value) in texts.iter_mut().zip(self.at(*position).await?) {
                match value {
                    AddedValue::Null => texts.append_null(),
                    AddedValue::Literal(text) | AddedValue::Text(text) => texts.append_value(text),
                }
            }
        }
        let typed = texts.iter_mut().zip(&self.columns);
        typed.map(|(texts, column)| Ok(cast_array(&texts.finish(), &column.data_type)?)).collect()
    }
}

/// A walk through the clusters of the documents of a file.
struct ClusterCursor {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    at: usize,
    id: IdType,
}

impl ClusterCursor {
    async fn of(
        session: &SessionContext,
        records: &Layout,
        files: &[File],
        (source, id): (&str, IdType),
    ) -> Result<Self> {
        let table = read::frame(session, records, files, clustered_schema(id))?;
        let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
        let rows = table
            .filter(col("source").eq(lit(source)))?
            .select(vec![
                cast(col("position"), DataType::UInt64).alias("position"),
                text("cluster_id"),
                col("representative"),
                text("kept_id"),
            ])?
            .sort(vec![col("position").sort(true, false)])?;
        Ok(Self { rows: rows.execute_stream().await?, batch: None, at: 0, id })
    }

    async fn at(&mut self, position: u64) -> Result<[AddedValue; 3]> {
        let none = || [AddedValue::Null, AddedValue::Null, AddedValue::Null];
        loop {
            let rows = self.batch.as_ref().map_or(0, RecordBatch::num_rows);
            if self.at >= rows {
                match self.rows.try_next().await? {
                    Some(batch) => (self.batch, self.at) = (Some(batch), 0),
                    None => return Ok(none()),
                }
                continue;
            }
            let Some(batch) = &self.batch else { return Ok(none()) };
            let Some(positions) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
                return Err(Error::bug("positions came of another type"));
            };
            match positions.value(self.at) {
                found if found > position => return Ok(none()),
                found if found < position => self.at += 1,
                _ => {
                    let at = self.at;
                    self.at += 1;
                    return cluster(batch, at, self.id);
                }
            }
        }
    }
}

/// The cluster of a document, whether it represents it, and the document that does.
fn cluster(batch: &RecordBatch, at: usize, id: IdType) -> Result<[AddedValue; 3]> {
    let value = |column: usize| {
        let text = batch.column(column).as_string_opt::<i32>()?.value(at).to_owned();
        Some(match id {
            IdType::Utf8 => AddedValue::Text(text),
            IdType::Int64 => AddedValue::Literal(text),
        })
    };
    let representative = batch.column(2).as_boolean_opt().map(|flags| flags.value(at));
    match (value(1), representative, value(3)) {
        (Some(cluster_id), Some(representative), Some(kept_id)) => {
            Ok([cluster_id, AddedValue::Literal(representative.to_string()), kept_id])
        }
        _ => Err(Error::bug("the table of documents in clusters came with other types")),
    }
}

/// A schema with the columns of `annotations` after its own.
pub(crate) fn annotated(schema: &Schema, annotations: &[Annotation], id: IdType) -> Schema {
    let field =
        |column: AnnotationColumn| Arc::new(Field::new(column.name, column.data_type, true)) as FieldRef;
    let added = columns(annotations, id).into_iter().map(field);
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(added).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
