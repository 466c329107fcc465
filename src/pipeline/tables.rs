//! The tables of a run: the public ones by their contracts, those between the steps here.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::Result;
use crate::job::{Job, Method, ShingleHash};
use crate::operator;
use crate::output::Layout;
use crate::output::write::{Rows, Target};
use crate::schema::{self, IdType, SourceColumn, SourceTypes, Table};

/// A table that steps write for later ones, and that goes when the run is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkTable {
    /// Documents whose key an earlier one has.
    Duplicates,
    /// The shingles of each document as they read.
    Cuts,
    /// A number for each shingle of each document.
    Numbers,
    /// What is known of each document without its shingles.
    Keys,
    /// The sketches of all documents.
    Sketches,
    /// Documents of a second source whose key an earlier one has.
    KnownDuplicates,
    /// The known documents that new ones may be similar to.
    Known,
    /// The keys of all documents of a second source.
    KnownKeys,
    /// Documents that share their shingles with another.
    Copies,
    /// Every two documents that may be similar.
    Candidates,
    /// Documents of hot buckets; in a prefix join of all documents, those of dense ones.
    Hot,
    /// Where the texts of documents of hot buckets are.
    HotPositions,
    /// Their sketches.
    HotSketches,
    /// Candidates, and those of hot buckets.
    AllCandidates,
    /// Documents of dense buckets, where hot documents are joined.
    Dense,
    /// How often shingles occur.
    Frequencies,
    /// Candidates whose signatures agree in the threshold or more.
    Agreeing,
    /// Where the texts of documents are that candidates name.
    Positions,
    /// The rarest shingles of the documents in dense buckets.
    Prefixes,
    /// Leaders of a round, and whom they are compared with.
    Proposed(u32),
    /// Leaders of a round.
    Leaders(u32),
    /// The pairs of leaders that reach the threshold.
    Followers(u32),
    /// Candidates, and those of dense buckets.
    DenseCandidates,
    /// Where the texts of a sample are.
    SamplePositions,
    /// Pairs of a sample that reach the threshold.
    Sample,
    /// Candidates that reach the threshold.
    Scores,
    /// A document and the least document of its component.
    Components,
    /// The edges that a round of large-star leaves.
    LargeStar(usize),
    /// The edges that a round of small-star leaves.
    SmallStar(usize),
    /// Documents that scores stand for.
    Members,
    /// The same, by components, in the order in which they are wanted.
    Ranks,
    /// What represents their shingle sets.
    Represented,
    /// Where their texts are.
    TextPositions,
    /// Their texts.
    Texts,
}

impl WorkTable {
    fn name(self) -> Cow<'static, str> {
        let name = match self {
            WorkTable::Duplicates => "duplicates",
            WorkTable::Cuts => "cuts",
            WorkTable::Numbers => "numbers",
            WorkTable::Keys => "keys",
            WorkTable::Sketches => "sketches",
            WorkTable::KnownDuplicates => "known_duplicates",
            WorkTable::Known => "known",
            WorkTable::KnownKeys => "known_keys",
            WorkTable::Copies => "copies",
            WorkTable::Candidates => "candidates",
            WorkTable::Hot => "hot",
            WorkTable::HotPositions => "hot_positions",
            WorkTable::HotSketches => "hot_sketches",
            WorkTable::AllCandidates => "all_candidates",
            WorkTable::Dense => "dense",
            WorkTable::Frequencies => "frequencies",
            WorkTable::Agreeing => "agreeing",
            WorkTable::Positions => "positions",
            WorkTable::Prefixes => "prefixes",
            WorkTable::Proposed(round) => return format!("proposed_{round}").into(),
            WorkTable::Leaders(round) => return format!("leaders_{round}").into(),
            WorkTable::Followers(round) => return format!("followers_{round}").into(),
            WorkTable::DenseCandidates => "dense_candidates",
            WorkTable::SamplePositions => "sample_positions",
            WorkTable::Sample => "sample",
            WorkTable::Scores => "scores",
            WorkTable::Components => "components",
            WorkTable::LargeStar(round) => return format!("large_star_{round}").into(),
            WorkTable::SmallStar(round) => return format!("small_star_{round}").into(),
            WorkTable::Members => "members",
            WorkTable::Ranks => "ranks",
            WorkTable::Represented => "represented",
            WorkTable::TextPositions => "text_positions",
            WorkTable::Texts => "texts",
        };
        name.into()
    }

    /// Its columns over a source of these types.
    pub(crate) fn schema(self, source: &SourceTypes) -> SchemaRef {
        let id = match source.id {
            IdType::Utf8 => DataType::Utf8,
            IdType::Int64 => DataType::Int64,
        };
        let u64s = |names: &[&str]| {
            names.iter().map(|n| Field::new(*n, DataType::UInt64, false)).collect::<Vec<_>>()
        };
        let fields = match self {
            WorkTable::Duplicates | WorkTable::KnownDuplicates => vec![
                Field::new("source", DataType::Utf8, false),
                Field::new("position", DataType::UInt64, false),
                Field::new("reason", DataType::Utf8, false),
            ],
            WorkTable::Cuts => {
                let texts = Field::new_list_field(DataType::LargeUtf8, true);
                let mut fields = vec![
                    Field::new("source", DataType::Utf8, false),
                    Field::new("position", DataType::UInt64, false),
                    Field::new("id", id, true),
                    Field::new("doc", DataType::UInt64, true),
                    Field::new("reason", DataType::Utf8, true),
                    Field::new_list("texts", texts, true),
                ];
                let carried = |(at, column): (usize, &SourceColumn)| {
                    Field::new(schema::carried(at), column.data_type.clone(), true)
                };
                fields.extend(source.columns.iter().enumerate().map(carried));
                fields
            }
            WorkTable::Numbers => u64s(&["doc", "number"]),
            WorkTable::Keys => {
                let mut fields = u64s(&["doc", "set_hash_0", "set_hash_1"]);
                fields.push(Field::new_list("buckets", Field::new_list_field(DataType::UInt64, true), false));
                fields
            }
            WorkTable::Sketches | WorkTable::HotSketches => {
                let list = |name, item| Field::new_list(name, Field::new_list_field(item, true), false);
                let mut fields = u64s(&["doc", "shingle_count"]);
                fields.extend([list("shingles", DataType::UInt64), list("signature", DataType::UInt32)]);
                fields
            }
            WorkTable::Positions
            | WorkTable::HotPositions
            | WorkTable::SamplePositions
            | WorkTable::TextPositions => {
                vec![
                    Field::new("source", DataType::Utf8, false),
                    Field::new("position", DataType::UInt64, false),
                    // The known output that the document is of, or 0 for one of a second source; null for one of the job's own.
                    Field::new("origin", DataType::UInt64, true),
                ]
            }
            WorkTable::Known => {
                let list =
                    |name, item, nullable| Field::new_list(name, Field::new_list_field(item, true), nullable);
                vec![
                    Field::new("origin", DataType::UInt64, false),
                    Field::new("id", id, false),
                    Field::new("source", DataType::Utf8, false),
                    Field::new("position", DataType::UInt64, false),
                    Field::new("doc", DataType::UInt64, false),
                    Field::new("shingle_count", DataType::UInt64, false),
                    Field::new("set_hash_0", DataType::UInt64, false),
                    Field::new("set_hash_1", DataType::UInt64, false),
                    list("signature", DataType::UInt32, false),
                    // Null where the output keeps none.
                    list("shingles", DataType::UInt64, true),
                    // Null where there are no groups.
                    Field::new("group", DataType::Utf8, true),
                ]
            }
            WorkTable::KnownKeys => {
                vec![Field::new("id", id, false), Field::new("doc", DataType::UInt64, false)]
            }
            WorkTable::Texts => vec![
                Field::new("doc", DataType::UInt64, false),
                Field::new("text", DataType::LargeUtf8, false),
                Field::new("bytes", DataType::UInt64, false),
            ],
            WorkTable::Copies => {
                let mut fields = u64s(&["rep", "doc", "size"]);
                fields.push(Field::new("known", DataType::Boolean, false));
                fields
            }
            WorkTable::Candidates
            | WorkTable::AllCandidates
            | WorkTable::Agreeing
            | WorkTable::Proposed(_)
            | WorkTable::DenseCandidates => u64s(&["a", "b"]),
            WorkTable::Hot | WorkTable::Dense | WorkTable::Leaders(_) => u64s(&["a"]),
            WorkTable::Frequencies => return operator::token_counts::schema(),
            WorkTable::Prefixes => return operator::prefixes::schema(),
            WorkTable::Scores | WorkTable::Followers(_) | WorkTable::Sample => {
                return operator::score::schema();
            }
            WorkTable::Components => u64s(&["doc", "root"]),
            WorkTable::LargeStar(_) | WorkTable::SmallStar(_) => u64s(&["high", "low"]),
            WorkTable::Ranks => {
                let mut fields = vec![Field::new("id", id, false)];
                fields.extend(u64s(&["set", "root", "rank"]));
                fields
            }
            WorkTable::Represented => {
                let mut fields = u64s(&["set", "root", "rank", "representative"]);
                fields.extend(["jaccard", "weakest"].map(|name| Field::new(name, DataType::Float64, true)));
                fields
            }
            WorkTable::Members => {
                let mut fields = vec![Field::new("id", id, false)];
                fields.extend(u64s(&["doc", "shingle_count", "rep", "size"]));
                fields.push(Field::new("known", DataType::Boolean, false));
                fields.push(Field::new("group", DataType::Utf8, true));
                fields
            }
        };
        Arc::new(Schema::new(fields))
    }
}

/// A table that a step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyTable {
    Public(Table),
    Work(WorkTable),
}

impl From<Table> for AnyTable {
    fn from(table: Table) -> Self {
        AnyTable::Public(table)
    }
}

impl From<WorkTable> for AnyTable {
    fn from(table: WorkTable) -> Self {
        AnyTable::Work(table)
    }
}

impl AnyTable {
    /// Its name, which is its folder's.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            AnyTable::Public(table) => table.name().into(),
            AnyTable::Work(table) => table.name(),
        }
    }

    /// Its columns for a job over a source of these types.
    pub(super) fn schema(self, job: &Job, source: &SourceTypes) -> SchemaRef {
        match self {
            AnyTable::Public(table) => schema::contract(table).over(source, job.columns()).arrow_schema(),
            AnyTable::Work(table) => table.schema(source),
        }
    }
}

impl fmt::Display for AnyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Where the steps of a job find the sketches of all documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllSketches {
    /// In a table that the step `sketches` writes.
    Written(AnyTable),
    /// In the output that is used again.
    Kept,
    /// Nowhere: the texts of those that are needed are read again.
    Nowhere,
}

impl AllSketches {
    pub(super) fn of(job: &Job) -> Self {
        if job.merge.is_some() {
            return match job.output.keep.shingles() {
                true => AllSketches::Written(Table::Documents.into()),
                false => AllSketches::Nowhere,
            };
        }
        let all_are_needed =
            job.candidates.method != Method::Lsh || job.shingle.hash == ShingleHash::Dictionary;
        if job.output.keep.shingles() {
            AllSketches::Written(Table::Documents.into())
        } else if job.reuse.as_ref().is_some_and(|reuse| reuse.keeps_shingles) {
            AllSketches::Kept
        } else if all_are_needed {
            AllSketches::Written(WorkTable::Sketches.into())
        } else {
            AllSketches::Nowhere
        }
    }
}

/// What the writer node needs to know of a table.
pub(super) fn target(table: AnyTable, rows: Rows, job: &Job, source: &SourceTypes) -> Target {
    let carried = if table == Table::Documents.into() { source.columns.len() } else { 0 };
    let (name, schema) = (table.name(), table.schema(job, source));
    Target { folder: Layout::table(&name), table: name.into_owned(), rows, schema, carried }
}

/// Slices that the comparison of all pairs is cut into, for each thread: enough that none waits long at the end.
const SLICES_PER_THREAD: usize = 16;

/// (slice, slices), a row and a batch for each slice, spread over as many partitions as there are threads.
pub(crate) fn slices(session: &SessionContext) -> Result<DataFrame> {
    let threads = session.state().config().target_partitions();
    let slices = (threads * SLICES_PER_THREAD) as u64;
    let column = |name| Field::new(name, DataType::UInt64, false);
    let schema = Arc::new(Schema::new(vec![column("slice"), column("slices")]));
    let mut partitions = vec![Vec::new(); threads];
    for slice in 0..slices {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(vec![slice])), Arc::new(UInt64Array::from(vec![slices]))];
        partitions[slice as usize % threads].push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?)
}
