//! What the documents of clusters are told of, file by file and in the order of their positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanBuilder, RecordBatch, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, cast, col, lit};
use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::output::manifest::File;
use crate::output::{Layout, read};
use crate::schema::IdType;

/// The columns that documents get.
pub(crate) const NAMES: [&str; 3] = ["cluster_id", "representative", "kept_id"];

/// The columns of the table of documents in clusters.
pub(crate) fn clustered_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("cluster_id", id_type(id), false),
        Field::new("representative", DataType::Boolean, false),
        Field::new("kept_id", id_type(id), false),
    ]))
}

/// The Arrow type of ids.
pub(crate) fn id_type(id: IdType) -> DataType {
    match id {
        IdType::Utf8 => DataType::Utf8,
        IdType::Int64 => DataType::Int64,
    }
}

/// What a document of a cluster is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    /// The cluster.
    pub cluster_id: String,
    /// Whether it represents it.
    pub representative: bool,
    /// The document that does.
    pub kept_id: String,
    /// Whether ids are numbers.
    pub is_number: bool,
}

/// The table of documents in clusters.
pub(super) struct Annotations {
    /// Its files.
    pub files: Vec<File>,
    /// The type of ids.
    pub id: IdType,
}

impl Annotations {
    /// What is said of the documents of a file. Nothing of another file is read but where it stands in the table.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn of(&self, session: &SessionContext, target: &Layout, source: &str) -> Result<Cursor> {
        let table = read::frame(session, target, &self.files, clustered_schema(self.id))?;
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

/// A walk through what is said of the documents of a file.
pub(super) struct Cursor {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    at: usize,
    id: IdType,
}

impl Cursor {
    /// What is said of the document at a position, which is higher than any that was asked for before.
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

    /// The columns of the documents at so many positions from `first` on.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn columns(&mut self, first: u64, rows: usize) -> Result<Vec<ArrayRef>> {
        let positions = UInt64Array::from_iter_values(first..first + rows as u64);
        self.columns_at(&positions).await
    }

    /// The columns of the documents at these positions, which rise.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn columns_at(&mut self, positions: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let (mut cluster, mut kept) = (StringBuilder::new(), StringBuilder::new());
        let mut representative = BooleanBuilder::new();
        for position in positions.values() {
            let said = self.at(*position).await?;
            cluster.append_option(said.as_ref().map(|said| &said.cluster_id));
            representative.append_option(said.as_ref().map(|said| said.representative));
            kept.append_option(said.as_ref().map(|said| &said.kept_id));
        }
        Ok(vec![
            self.ids(Arc::new(cluster.finish()))?,
            Arc::new(representative.finish()),
            self.ids(Arc::new(kept.finish()))?,
        ])
    }

    /// Ids in their own type.
    fn ids(&self, text: ArrayRef) -> Result<ArrayRef> {
        match self.id {
            IdType::Utf8 => Ok(text),
            IdType::Int64 => Ok(cast_array(&text, &id_type(self.id))?),
        }
    }
}

fn annotation(batch: &RecordBatch, at: usize, id: IdType) -> Result<Annotation> {
    let text =
        |column: usize| batch.column(column).as_string_opt::<i32>().map(|ids| ids.value(at).to_owned());
    let representative = batch.column(2).as_boolean_opt().map(|flags| flags.value(at));
    match (text(1), representative, text(3)) {
        (Some(cluster_id), Some(representative), Some(kept_id)) => {
            Ok(Annotation { cluster_id, representative, kept_id, is_number: id == IdType::Int64 })
        }
        _ => Err(Error::bug("the table of documents in clusters came with other types")),
    }
}

/// The columns that documents get, as Arrow has them: null where a document is in no cluster.
pub(super) fn fields(id: IdType) -> Vec<FieldRef> {
    let types = [id_type(id), DataType::Boolean, id_type(id)];
    NAMES.into_iter().zip(types).map(|(name, of)| Arc::new(Field::new(name, of, true))).collect()
}

/// A schema with those columns behind its own.
pub(crate) fn annotated(schema: &Schema, id: IdType) -> Schema {
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(fields(id)).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
