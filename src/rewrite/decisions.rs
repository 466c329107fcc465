//! The table of decisions about documents, read in the order of files and positions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StringBuilder, UInt64Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};
use futures::TryStreamExt;
use tokio::sync::Mutex;

use super::annotations::Annotation;
use crate::error::{Error, Result};
use crate::output::manifest::File;
use crate::output::{Layout, read};
use crate::schema::IdType;
use crate::source::AddedValue;

/// The actions in the table: the document is removed, or the job rejected it. All others are kept.
pub(crate) const REMOVE: &str = "remove";
pub(crate) const REJECT: &str = "reject";

/// The order of the rows of the table.
pub(crate) const DECISION_ORDER: &[&str] = &["source", "position", "byte_start", "group"];

/// The columns that are read as text.
const TEXTS: [&str; 7] =
    ["action", "cluster_id", "representative", "kept_id", "cluster_size", "group", "documents"];

/// The columns of the table. A document has one row or more, and each row has some of the values: the action, a span that is cut or
/// marked, the values of added columns, or the number of documents of a group.
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
    ]))
}

/// Whether a document is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RowAction {
    #[default]
    Keep,
    /// It is a duplicate, or became too short.
    Remove,
    /// The job rejected it.
    Reject,
}

/// The decision about a document.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub action: RowAction,
    /// The ranges of the bytes of its text that are cut out, in ascending order.
    pub cuts: Vec<Range<usize>>,
    /// The values of the added columns.
    pub added: Vec<AddedValue>,
}

/// DecisionRows of texts on their way into columns of other types.
pub(super) struct TextColumns(Vec<(StringBuilder, DataType)>);

impl TextColumns {
    /// No rows of columns of these types.
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

    /// The rows, which are removed from here.
    ///
    /// # Errors
    /// When a text is not of the type of its column.
    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        let columns = self.0.iter_mut();
        columns.map(|(texts, data_type)| Ok(cast_array(&texts.finish(), data_type)?)).collect()
    }
}

/// A walk through the decisions about neighbouring files. The table is read when the first decision is asked for.
#[derive(Clone)]
pub(super) struct Decisions {
    annotations: Arc<[Annotation]>,
    id: IdType,
    walk: Arc<Mutex<DecisionWalk>>,
}

struct DecisionWalk {
    /// The rows, until they are read; `None` without a table.
    table: Option<DataFrame>,
    batches: Option<SendableRecordBatchStream>,
    rows: Option<DecisionRows>,
}

/// The rows of a batch of the table.
struct DecisionRows {
    sources: StringArray,
    positions: UInt64Array,
    starts: UInt64Array,
    ends: UInt64Array,
    /// The columns [`TEXTS`].
    texts: Vec<StringArray>,
    /// The next row.
    at: usize,
}

impl Decisions {
    /// The decisions in the table `files` about the files whose names are in the range `sources`.
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
        columns.extend(TEXTS.iter().map(|name| to(name, &DataType::Utf8)));
        let order = DECISION_ORDER.iter().map(|name| col(*name).sort(true, false)).collect();
        let table = read::frame(session, records, files, decision_schema(id))?;
        Ok(walk(Some(table.filter(is_inside)?.select(columns)?.sort(order)?)))
    }

    /// The decision about the document at `position` of the file `source`. Places must increase from call to call.
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
    /// The batch that has the next row; `None` at the end.
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

/// The rows about a document.
#[derive(Default)]
struct DocumentRows {
    spans: Vec<Range<usize>>,
    /// The documents of each group.
    groups: Vec<(Option<String>, String)>,
    /// The other values of the columns [`TEXTS`].
    texts: BTreeMap<&'static str, String>,
}

impl DocumentRows {
    /// Adds the next one of `rows`.
    fn add(&mut self, rows: &DecisionRows) {
        if rows.starts.is_valid(rows.at) {
            self.spans.push(rows.starts.value(rows.at) as usize..rows.ends.value(rows.at) as usize);
        }
        let known = TEXTS.into_iter().zip(&rows.texts).filter(|(_, column)| column.is_valid(rows.at));
        self.texts.extend(known.map(|(name, column)| (name, column.value(rows.at).to_owned())));
        if let Some(documents) = self.texts.remove("documents") {
            self.groups.push((self.texts.remove("group"), documents));
        }
    }

    fn decision(self, annotations: &[Annotation], id: IdType) -> Decision {
        let action = match self.texts.get("action").map(String::as_str) {
            None => RowAction::Keep,
            Some(REMOVE) => RowAction::Remove,
            Some(_) => RowAction::Reject,
        };
        let mut added = Vec::new();
        for annotation in annotations {
            match annotation {
                Annotation::Clusters | Annotation::ClusterSize => {
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

    /// The documents of each group that has a name, as a JSON object; null if no group has documents.
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

    /// The spans as a JSON array; null without spans.
    fn repeated_spans(&self) -> AddedValue {
        if self.spans.is_empty() {
            return AddedValue::Null;
        }
        let spans: Vec<[usize; 2]> = self.spans.iter().map(|span| [span.start, span.end]).collect();
        AddedValue::Literal(serde_json::json!(spans).to_string())
    }
}

/// The error for a text that does not have the spans that the run found in it.
pub(super) fn other_text(path: &str, position: u64) -> Error {
    Error::input(format!(
        "the text of row {position} of {path}, counted from 0, is not the one in which the run found passages: run the job again with \
         --overwrite, and apply its output"
    ))
}
