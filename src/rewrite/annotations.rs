//! The annotations of documents, file by file in the order of positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::row_walk::{RowTexts, RowWalk};
use super::spans::{PartSpans, SpanCursor};
use crate::error::{Error, Result};
use crate::job;
use crate::output::Layout;
use crate::output::manifest::File;
use crate::schema::IdType;
use crate::source::{AddedValue, RowFormat};

/// What a document is annotated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Annotation {
    /// Its cluster.
    Clusters,
    /// The number of documents that it represents.
    ClusterSize,
    /// The numbers of documents of each group that it represents.
    GroupSizes,
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
    /// All of them.
    const ALL: [Self; 4] = [Self::Clusters, Self::ClusterSize, Self::GroupSizes, Self::Spans];

    /// The columns of an annotation, for ids of the type `id`.
    fn columns(self, id: IdType) -> Vec<AnnotationColumn> {
        let column = |(name, data_type)| AnnotationColumn { name, data_type };
        match self {
            Self::Clusters => {
                let types = [id.arrow(), DataType::Boolean, id.arrow()];
                ["cluster_id", "representative", "kept_id"].into_iter().zip(types).map(column).collect()
            }
            Self::ClusterSize => vec![column(("cluster_size", DataType::Int64))],
            Self::GroupSizes => vec![column(("group_sizes", DataType::Utf8))],
            Self::Spans => vec![column(("repeated_spans", DataType::Utf8))],
        }
    }

    /// The option of the command.
    fn option(self) -> &'static str {
        match self {
            Self::Clusters => "--annotate",
            Self::ClusterSize | Self::GroupSizes => "--columns",
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

/// The columns of the table of the sizes of clusters.
pub(crate) fn sizes_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("cluster_size", DataType::Int64, false),
    ]))
}

/// The columns of the table of the sizes of groups: a row for each group of each document.
pub(crate) fn group_sizes_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("group", DataType::Utf8, true),
        Field::new("documents", DataType::Int64, false),
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
    let adds = |annotation: &Annotation| names(&[*annotation]).contains(&name);
    let option = Annotation::ALL.into_iter().find(adds).map_or("this", Annotation::option);
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
            let walk = async |schema| RowWalk::of(session, records, files, (source, schema)).await;
            cursors.push(match annotation {
                Annotation::Clusters => TableCursor::Rows(walk(clustered_schema(self.id)).await?),
                Annotation::ClusterSize => TableCursor::Rows(walk(sizes_schema()).await?),
                Annotation::GroupSizes => TableCursor::Counts(walk(group_sizes_schema()).await?),
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
    /// A row has the values of the columns.
    Rows(RowWalk),
    /// Rows of (name, number) are a JSON object.
    Counts(RowWalk),
    Spans(SpanCursor),
}

impl Cursor {
    /// The values of the annotation columns of the document at `position`, which must increase from call to call; null where a
    /// table has no row about it.
    pub(super) async fn at(&mut self, position: u64) -> Result<Vec<AddedValue>> {
        let mut values = Vec::with_capacity(self.columns.len());
        for (annotation, cursor) in self.annotations.iter().zip(&mut self.cursors) {
            match cursor {
                TableCursor::Rows(rows) => {
                    let row = rows.at(position).await?.into_iter().next();
                    values.extend(row_values(&annotation.columns(self.id), row));
                }
                TableCursor::Counts(rows) => values.push(counts(rows.at(position).await?)),
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

/// The values of a row in these columns; all are null if there is no row.
fn row_values(columns: &[AnnotationColumn], row: Option<RowTexts>) -> Vec<AddedValue> {
    let value = |(column, text): (&AnnotationColumn, Option<String>)| match (text, &column.data_type) {
        (None, _) => AddedValue::Null,
        (Some(text), DataType::Utf8) => AddedValue::Text(text),
        (Some(text), _) => AddedValue::Literal(text),
    };
    let texts = row.unwrap_or_else(|| vec![None; columns.len()]);
    columns.iter().zip(texts).map(value).collect()
}

/// Rows of (name, number) as a JSON object, without those that have no name; null if there are no rows.
fn counts(rows: Vec<RowTexts>) -> AddedValue {
    if rows.is_empty() {
        return AddedValue::Null;
    }
    let field = |row: RowTexts| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(name), Some(number)]) => Some(format!("{}:{number}", serde_json::Value::from(name))),
        _ => None,
    };
    let fields: Vec<String> = rows.into_iter().filter_map(field).collect();
    AddedValue::Literal(format!("{{{}}}", fields.join(",")))
}

/// A schema with the columns of `annotations` after its own.
pub(crate) fn annotated(schema: &Schema, annotations: &[Annotation], id: IdType) -> Schema {
    let field =
        |column: AnnotationColumn| Arc::new(Field::new(column.name, column.data_type, true)) as FieldRef;
    let added = columns(annotations, id).into_iter().map(field);
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(added).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
