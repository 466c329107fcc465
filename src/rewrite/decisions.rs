//! The table of decisions about documents, which is read in the order of files and positions. Also the columns that are added to documents.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::error::{Error, Result};
use crate::job;
use crate::output::manifest::File;
use crate::output::{Layout, read};
use crate::schema::IdType;
use crate::source::{AddedValue, RowFormat};

/// The action for a removed document. Documents without an action are kept.
pub(crate) const REMOVE: &str = "remove";
/// The action for a document that the job rejected.
pub(crate) const REJECT: &str = "reject";
/// The action for a row that `forget` left out of the output.
pub(crate) const FORGET: &str = "forget";

pub(crate) const DECISION_ORDER: &[&str] = &["source", "position", "byte_start", "group"];

/// The columns of the table that are read as text, separated by spaces.
const TEXTS: &str = "action cluster_id representative kept_id cluster_size group documents copies weight";

/// Returns the columns of the table. Several rows can describe one document, each with some of the values. The values are the action, a
/// passage to cut or mark, added columns, and the number of documents in a group.
pub(crate) fn decision_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("action", DataType::Utf8, true),
        Field::new("byte_start", DataType::Int64, true),
        Field::new("byte_end", DataType::Int64, true),
        Field::new("words", DataType::Int64, true),
        Field::new("cluster_id", id.arrow(), true),
        Field::new("representative", DataType::Boolean, true),
        Field::new("kept_id", id.arrow(), true),
        Field::new("cluster_size", DataType::Int64, true),
        Field::new("group", DataType::Utf8, true),
        Field::new("documents", DataType::Int64, true),
        Field::new("copies", DataType::Int64, true),
        Field::new("weight", DataType::Float64, true),
    ]))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RowAction {
    #[default]
    Keep,
    /// Remove the document, because it is a duplicate or became too short.
    Remove,
    /// Treat the document as rejected by the job.
    Reject,
    /// Skip the row, and do not count it.
    Forget,
}

#[derive(Debug, Default)]
pub(super) struct Decision {
    pub action: RowAction,
    /// The byte ranges to cut out of the document's text, in ascending order.
    pub cuts: Vec<Range<usize>>,
    pub added: Vec<AddedValue>,
}

/// A builder that collects rows of texts. The texts are cast to the types of the columns.
pub(super) struct TextColumns(Vec<(StringBuilder, DataType)>);

impl TextColumns {
    pub(super) fn new(types: impl IntoIterator<Item = DataType>) -> Self {
        Self(types.into_iter().map(|data_type| (StringBuilder::new(), data_type)).collect())
    }

    /// Adds a row with the texts `own` and the values `added`.
    pub(super) fn push<const N: usize>(&mut self, own: [Option<&str>; N], added: &[AddedValue]) {
        let added = added.iter().map(|value| match value {
            AddedValue::Null => None,
            AddedValue::Literal(text) | AddedValue::Text(text) => Some(text.as_str()),
        });
        for ((texts, _), text) in self.0.iter_mut().zip(own.into_iter().chain(added)) {
            texts.append_option(text);
        }
    }

    /// Returns the rows as columns, and clears the builder.
    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        let columns = self.0.iter_mut();
        columns.map(|(texts, data_type)| Ok(cast_array(&texts.finish(), data_type)?)).collect()
    }
}

/// A cursor over the decisions about the files of a part. The first call of [`Self::at`] starts the scan.
#[derive(Clone)]
pub(super) struct Decisions {
    annotations: Arc<[Annotation]>,
    id: IdType,
    walk: Arc<Mutex<DecisionWalk>>,
}

struct DecisionWalk {
    /// The sorted table. `None` once the scan has started, or if the table has no rows.
    table: Option<DataFrame>,
    batches: Option<SendableRecordBatchStream>,
    rows: Option<DecisionRows>,
}

struct DecisionRows {
    sources: StringArray,
    positions: UInt64Array,
    starts: UInt64Array,
    ends: UInt64Array,
    /// The columns [`TEXTS`].
    texts: Vec<StringArray>,
    at: usize,
}

impl Decisions {
    /// Opens the decisions in the table `files` about source files with names in the range `sources`.
    pub(super) fn open(
        session: &SessionContext,
        records: &Layout,
        files: &[File],
        sources: (&str, &str),
        (annotations, id): (&Arc<[Annotation]>, IdType),
    ) -> Result<Self> {
        let walk = |table| Self {
            annotations: Arc::clone(annotations),
            id,
            walk: Arc::new(Mutex::new(DecisionWalk { table, batches: None, rows: None })),
        };
        if files.iter().all(|file| file.rows == 0) {
            return Ok(walk(None));
        }
        let is_inside = col("source").gt_eq(lit(sources.0)).and(col("source").lt_eq(lit(sources.1)));
        let to = |name: &&str, data_type: &DataType| cast(col(*name), data_type.clone()).alias(*name);
        let mut columns = vec![to(&"source", &DataType::Utf8)];
        columns.extend(["position", "byte_start", "byte_end"].iter().map(|name| to(name, &DataType::UInt64)));
        columns.extend(TEXTS.split(' ').map(|name| to(&name, &DataType::Utf8)));
        let order = DECISION_ORDER.iter().map(|name| col(*name).sort(true, false)).collect();
        let table = read::frame(session, records, files, decision_schema(id))?;
        Ok(walk(Some(table.filter(is_inside)?.select(columns)?.sort(order)?)))
    }

    /// Returns the decision about the document at `position` in the file `source`. Callers must ask for documents in ascending order.
    pub(super) async fn at(&self, source: &str, position: u64) -> Result<Decision> {
        let mut walk = self.walk.lock().await;
        let mut decided = DocumentRows::default();
        while let Some(rows) = walk.rows().await? {
            match (rows.sources.value(rows.at), rows.positions.value(rows.at)).cmp(&(source, position)) {
                Ordering::Greater => break,
                Ordering::Equal => decided.add(rows),
                Ordering::Less => {}
            }
            rows.at += 1;
        }
        Ok(decided.decision(&self.annotations, self.id))
    }
}

impl DecisionWalk {
    /// Returns the batch with the next row, or `None` at the end.
    async fn rows(&mut self) -> Result<Option<&mut DecisionRows>> {
        if let Some(table) = self.table.take() {
            self.batches = Some(table.execute_stream().await?);
        }
        while self.rows.as_ref().is_none_or(|rows| rows.at == rows.positions.len()) {
            let Some(batches) = &mut self.batches else { return Ok(None) };
            match batches.try_next().await? {
                Some(batch) => self.rows = Some(DecisionRows::new(&batch)?),
                None => (self.batches, self.rows) = (None, None),
            }
        }
        Ok(self.rows.as_mut())
    }
}

impl DecisionRows {
    fn new(batch: &RecordBatch) -> Result<Self> {
        let number = |at: usize| Ok::<_, Error>(as_uint64_array(batch.column(at))?.clone());
        let texts = batch.columns().iter().skip(4).map(|column| Ok(as_string_array(column)?.clone()));
        Ok(Self {
            sources: as_string_array(batch.column(0))?.clone(),
            positions: number(1)?,
            starts: number(2)?,
            ends: number(3)?,
            texts: texts.collect::<Result<_>>()?,
            at: 0,
        })
    }
}

#[derive(Default)]
struct DocumentRows {
    spans: Vec<Range<usize>>,
    /// The number of documents per group.
    groups: Vec<(Option<String>, String)>,
    /// The other values of the columns [`TEXTS`].
    texts: BTreeMap<&'static str, String>,
}

impl DocumentRows {
    fn add(&mut self, rows: &DecisionRows) {
        if rows.starts.is_valid(rows.at) {
            self.spans.push(rows.starts.value(rows.at) as usize..rows.ends.value(rows.at) as usize);
        }
        let known = TEXTS.split(' ').zip(&rows.texts).filter(|(_, column)| column.is_valid(rows.at));
        self.texts.extend(known.map(|(name, column)| (name, column.value(rows.at).to_owned())));
        if let Some(documents) = self.texts.remove("documents") {
            self.groups.push((self.texts.remove("group"), documents));
        }
    }

    fn decision(self, annotations: &[Annotation], id: IdType) -> Decision {
        let action = match self.texts.get("action").map(String::as_str) {
            None => RowAction::Keep,
            Some(REMOVE) => RowAction::Remove,
            Some(FORGET) => RowAction::Forget,
            Some(_) => RowAction::Reject,
        };
        let mut added = Vec::new();
        for annotation in annotations {
            match annotation {
                Annotation::Clusters | Annotation::ClusterSize | Annotation::Copies => {
                    added.extend(annotation.columns(id).into_iter().map(|column| self.value(column)));
                }
                Annotation::GroupSizes => added.push(self.group_sizes()),
                Annotation::Spans => added.push(self.repeated_spans()),
            }
        }
        let marks = annotations.contains(&Annotation::Spans);
        Decision { action, cuts: if marks { Vec::new() } else { self.spans }, added }
    }

    fn value(&self, (name, data_type): (&str, DataType)) -> AddedValue {
        match (self.texts.get(name).cloned(), data_type) {
            (None, _) => AddedValue::Null,
            (Some(text), DataType::Utf8) => AddedValue::Text(text),
            (Some(text), _) => AddedValue::Literal(text),
        }
    }

    /// Returns the number of documents in each named group as a JSON object. Returns null if there are no documents in any group.
    fn group_sizes(&self) -> AddedValue {
        if self.groups.is_empty() {
            return AddedValue::Null;
        }
        let named = self.groups.iter().filter_map(|(group, documents)| Some((group.as_deref()?, documents)));
        let fields: Vec<String> = named
            .map(|(group, documents)| format!("{}:{documents}", serde_json::Value::from(group)))
            .collect();
        AddedValue::Literal(format!("{{{}}}", fields.join(",")))
    }

    fn repeated_spans(&self) -> AddedValue {
        if self.spans.is_empty() {
            return AddedValue::Null;
        }
        let spans: Vec<[usize; 2]> = self.spans.iter().map(|span| [span.start, span.end]).collect();
        AddedValue::Literal(serde_json::json!(spans).to_string())
    }
}

/// Returns the error for a text that does not contain the passages found by the run.
pub(super) fn other_text(path: &str, position: u64) -> Error {
    Error::input(format!(
        "the text of row {position} of {path}, counted from 0, is not the one in which the run found passages: run the job again with \
         --overwrite, and apply its output"
    ))
}

/// Columns that are added to documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Annotation {
    /// Its cluster.
    #[value(skip)]
    Clusters,
    /// The number of documents that a document represents, itself included
    ClusterSize,
    /// The number of documents that a document represents in each group, itself included, as a JSON object; the job needs source.group
    GroupSizes,
    /// The number of documents in its cluster, and its share of them.
    #[value(skip)]
    Copies,
    /// The repeated passages in it that do not stay.
    #[value(skip)]
    Spans,
}

impl Annotation {
    const ALL: [Self; 5] = [Self::Clusters, Self::ClusterSize, Self::GroupSizes, Self::Copies, Self::Spans];

    /// Returns the names and types of the columns. `id` is the type of ids.
    pub(super) fn columns(self, id: IdType) -> Vec<(&'static str, DataType)> {
        match self {
            Self::Clusters => vec![
                ("cluster_id", id.arrow()),
                ("representative", DataType::Boolean),
                ("kept_id", id.arrow()),
            ],
            Self::ClusterSize => vec![("cluster_size", DataType::Int64)],
            Self::GroupSizes => vec![("group_sizes", DataType::Utf8)],
            Self::Copies => vec![("copies", DataType::Int64), ("weight", DataType::Float64)],
            Self::Spans => vec![("repeated_spans", DataType::Utf8)],
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Clusters => "--annotate",
            Self::ClusterSize | Self::GroupSizes => "--columns",
            Self::Copies => "--keep-up-to",
            Self::Spans => "--passages mark",
        }
    }
}

pub(super) fn columns(annotations: &[Annotation], id: IdType) -> Vec<(&'static str, DataType)> {
    annotations.iter().flat_map(|annotation| annotation.columns(id)).collect()
}

pub(crate) fn names(annotations: &[Annotation]) -> Vec<&'static str> {
    columns(annotations, IdType::Utf8).into_iter().map(|(name, _)| name).collect()
}

/// Returns the header of the file `path` with the columns of `annotations`. Fails with `Kind::Input` if the header already contains one of
/// the names.
pub(crate) fn with_names(
    format: &dyn RowFormat,
    source: &job::Source,
    annotations: &[Annotation],
    (header, path): (&[u8], &str),
) -> Result<Vec<u8>> {
    format.with_names(source, header, &names(annotations)).map_err(|name| column_exists(name, path))
}

pub(crate) fn column_exists(name: &str, path: &str) -> Error {
    name_exists(name, &format!("{path} has a column `{name}`"))
}

/// Returns the error for a name that an annotation would add. `what` says where the name already exists.
pub(super) fn name_exists(name: &str, what: &str) -> Error {
    let adds = |annotation: &Annotation| names(&[*annotation]).contains(&name);
    let option = Annotation::ALL.into_iter().find(adds).map_or("this", Annotation::option);
    Error::input(format!(
        "{what} already, which {option} would add: rename it and run the job again, or apply without {option}"
    ))
}

pub(crate) fn annotated(schema: &Schema, annotations: &[Annotation], id: IdType) -> Schema {
    let added = columns(annotations, id).into_iter();
    let added = added.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)) as FieldRef);
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(added).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
