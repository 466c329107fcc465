//! The annotations of documents in clusters, file by file in the order of positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanBuilder, RecordBatch, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, cast, col, lit};
use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::job;
use crate::output::manifest::File;
use crate::output::{Layout, read};
use crate::schema::IdType;
use crate::source::{AddedValue, RowFormat};

/// The names of the annotation columns.
pub(crate) const NAMES: [&str; 3] = ["cluster_id", "representative", "kept_id"];

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

/// The annotation of a document in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    pub cluster_id: String,
    /// Whether the document represents the cluster.
    pub representative: bool,
    /// The id of the document that represents the cluster.
    pub kept_id: String,
    /// The type of both ids.
    pub id: IdType,
}

/// The values of the annotation columns; null if the document is in no cluster.
pub(super) fn values(annotation: Option<Annotation>) -> [AddedValue; 3] {
    let Some(Annotation { cluster_id, representative, kept_id, id }) = annotation else {
        return [AddedValue::Null, AddedValue::Null, AddedValue::Null];
    };
    let value = |text: String| match id {
        IdType::Utf8 => AddedValue::Text(text),
        IdType::Int64 => AddedValue::Literal(text),
    };
    [value(cluster_id), AddedValue::Literal(representative.to_string()), value(kept_id)]
}

/// Appends the names of the annotation columns to the header of the file `path`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if it already has one of the names.
pub(crate) fn append_names(
    format: &dyn RowFormat,
    source: &job::Source,
    header: &[u8],
    path: &str,
    to: &mut Vec<u8>,
) -> Result<()> {
    format.append_names(source, header, &NAMES, to).map_err(|name| column_exists(name, path))
}

/// The error for a file that already has a column of this name.
pub(crate) fn column_exists(name: &str, path: &str) -> Error {
    Error::input(format!(
        "{path} has a column `{name}` already, which --annotate would add: rename it and run the job again, or apply \
         without --annotate"
    ))
}

/// The table of documents in clusters.
pub(super) struct Annotations {
    /// Its files.
    pub files: Vec<File>,
    /// The type of ids.
    pub id: IdType,
}

impl Annotations {
    /// The annotations of the documents of a file.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn of(
        &self,
        session: &SessionContext,
        records: &Layout,
        source: &str,
    ) -> Result<Cursor> {
        let table = read::frame(session, records, &self.files, clustered_schema(self.id))?;
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
        Ok(Cursor { rows: rows.execute_stream().await?, batch: None, at: 0, id: self.id })
    }
}

/// A walk through the annotations of a file.
pub(super) struct Cursor {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    at: usize,
    id: IdType,
}

impl Cursor {
    /// The annotation of the document at `position`, which must increase from call to call; `None` if it is in no
    /// cluster.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn at(&mut self, position: u64) -> Result<Option<Annotation>> {
        loop {
            let rows = self.batch.as_ref().map_or(0, RecordBatch::num_rows);
            if self.at >= rows {
                match self.rows.try_next().await? {
                    Some(batch) => (self.batch, self.at) = (Some(batch), 0),
                    None => return Ok(None),
                }
                continue;
            }
            let Some(batch) = &self.batch else { return Ok(None) };
            let Some(positions) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
                return Err(Error::bug("positions came of another type"));
            };
            match positions.value(self.at) {
                found if found > position => return Ok(None),
                found if found < position => self.at += 1,
                _ => {
                    let at = self.at;
                    self.at += 1;
                    return annotation(batch, at, self.id).map(Some);
                }
            }
        }
    }

    /// The annotation columns of `rows` documents from position `first` on.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn columns(&mut self, first: u64, rows: usize) -> Result<Vec<ArrayRef>> {
        let positions = UInt64Array::from_iter_values(first..first + rows as u64);
        self.columns_at(&positions).await
    }

    /// The annotation columns of the documents at these positions, which must increase.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn columns_at(&mut self, positions: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let (mut cluster, mut kept) = (StringBuilder::new(), StringBuilder::new());
        let mut representative = BooleanBuilder::new();
        for position in positions.values() {
            let found = self.at(*position).await?;
            cluster.append_option(found.as_ref().map(|found| &found.cluster_id));
            representative.append_option(found.as_ref().map(|found| found.representative));
            kept.append_option(found.as_ref().map(|found| &found.kept_id));
        }
        Ok(vec![
            self.ids(Arc::new(cluster.finish()))?,
            Arc::new(representative.finish()),
            self.ids(Arc::new(kept.finish()))?,
        ])
    }

    /// Ids in their own type.
    fn ids(&self, text: ArrayRef) -> Result<ArrayRef> {
        Ok(cast_array(&text, &self.id.arrow())?)
    }
}

fn annotation(batch: &RecordBatch, at: usize, id: IdType) -> Result<Annotation> {
    let text =
        |column: usize| batch.column(column).as_string_opt::<i32>().map(|ids| ids.value(at).to_owned());
    let representative = batch.column(2).as_boolean_opt().map(|flags| flags.value(at));
    match (text(1), representative, text(3)) {
        (Some(cluster_id), Some(representative), Some(kept_id)) => {
            Ok(Annotation { cluster_id, representative, kept_id, id })
        }
        _ => Err(Error::bug("the table of documents in clusters came with other types")),
    }
}

/// The Arrow fields of the annotation columns, which are null for a document that is in no cluster.
pub(super) fn fields(id: IdType) -> Vec<FieldRef> {
    let types = [id.arrow(), DataType::Boolean, id.arrow()];
    NAMES.into_iter().zip(types).map(|(name, of)| Arc::new(Field::new(name, of, true))).collect()
}

/// A schema with the annotation columns after its own.
pub(crate) fn annotated(schema: &Schema, id: IdType) -> Schema {
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(fields(id)).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
