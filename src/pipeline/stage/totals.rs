//! totals: what the manifest says of the tables, and whether their rows keep the contracts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field};
use datafusion::common::cast::{as_list_array, as_string_array, as_uint64_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    AnyTable, BoxFuture, Error, OneTable, Result, SourceTypes, Stage, StageContext, Table, WorkTable, frames,
};
use super::losses;
use crate::frames::{copies::Rules, utf8};
use crate::job::{Compare, Method, Short};
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::reference::same_ids;
use crate::pipeline::tables::list_column;
use crate::schema::{self, Depth};

/// Counts what the manifest says of the tables.
pub(crate) struct CountTotals;

impl WorkTable {
    /// The numbers of each total.
    const TOTALS: Self = Self::new("totals", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    vec![
        Field::new("total", DataType::Utf8, false),
        // Null for a total that has one row.
        Field::new("key", DataType::Utf8, true),
        list_column("numbers", DataType::UInt64, false),
    ]
}

impl OneTable for CountTotals {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::TOTALS);
    const WHAT: &'static str = "check the tables against their contracts, and count";
}

/// Tables of at most this many rows in all are read in this process, which takes less time than to submit a plan.
const ROWS_OF_DRIVER: u64 = 1_000_000;

/// The columns that the check of each run reads.
const DEPTH: Depth = Depth::WithoutLists;

/// One number or more for the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum Total {
    /// The rows of a table, and how many of them break each promise of its contract.
    Contract(Table),
    /// Pairs within groups of copies that are written as stars.
    PairsLeftOut,
    /// Documents whose shingle set an earlier one has.
    RepeatedSets,
    /// Documents that represent a cluster.
    Representatives,
    /// Documents that `apply` removes.
    Removed,
    /// Documents whose removal loses much, and the shingles that are lost; nothing if they were not counted.
    Lost,
    /// Documents with a single shingle.
    SingleShingle,
    /// Components of documents, where the cluster method divides them.
    Components,
    /// Rejects, by their reason.
    Reasons,
    /// Reference documents that were replaced.
    Replaced,
    /// Reference documents that the reference outputs kept, and that are removed now.
    Superseded,
}

impl Total {
    fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Contract(table) => return format!("contract of {}", table.name()).into(),
            Self::PairsLeftOut => "pairs_left_out",
            Self::RepeatedSets => "repeated_sets",
            Self::Representatives => "representatives",
            Self::Removed => "removed",
            Self::Lost => "lost",
            Self::SingleShingle => "single_shingle",
            Self::Components => "components",
            Self::Reasons => "reasons",
            Self::Replaced => "replaced",
            Self::Superseded => "superseded",
        })
    }

    /// The total of the one row of `numbers`, which are 0 if they are null.
    fn of_row(self, numbers: DataFrame) -> Result<DataFrame> {
        let columns = numbers.schema().columns().into_iter().map(Expr::Column);
        self.of(lit(ScalarValue::Utf8(None)), columns.collect(), numbers)
    }

    /// The total of the rows of `numbers`: a number for each value of `key`.
    fn by_key(self, key: &str, number: &str, numbers: DataFrame) -> Result<DataFrame> {
        self.of(col(key), vec![col(number)], numbers)
    }

    fn of(self, key: Expr, columns: Vec<Expr>, numbers: DataFrame) -> Result<DataFrame> {
        let all = columns.into_iter().map(|of| coalesce(vec![cast(of, DataType::UInt64), lit(0_u64)]));
        Ok(numbers.select(vec![
            lit(self.name().as_ref()).alias("total"),
            cast(key, DataType::Utf8).alias("key"),
            make_array(all.collect()).alias("numbers"),
        ])?)
    }

    /// The number of rows of `frame`.
    fn rows_of(self, frame: DataFrame) -> Result<DataFrame> {
        self.of_row(frame.aggregate(vec![], vec![count(lit(1)).alias("rows")])?)
    }
}

/// The totals that the manifest of the job needs.
fn totals(cx: &StageContext<'_>) -> Result<DataFrame> {
    let job = cx.job;
    let mut totals = Vec::new();
    for table in Table::of(job) {
        let contract = schema::contract(table).over(&cx.types, job.columns());
        totals.push(Total::Contract(table).of_row(contract.audit(cx.stored(table)?, DEPTH)?));
    }
    // Across groups there are no stars.
    let in_stars = cx.table(WorkTable::MEMBERS)?.filter(lit(job.candidates.compare != Compare::Across))?;
    let left_out = frames::pairs::left_out(in_stars, cx.table(WorkTable::SCORES)?, Rules::of(job))?;
    totals.push(Total::PairsLeftOut.of_row(left_out));
    totals.push(Total::RepeatedSets.of_row(repeated_sets(cx)?));
    let representatives = cx.table(Table::Clusters)?.filter(col("representative"))?;
    totals.push(Total::Representatives.rows_of(representatives));
    let removed = with_spared(cx)?.filter((!col("representative")).and(!col("reference")))?;
    totals.push(Total::Removed.rows_of(removed));
    if let Some(lost) = losses::lost(cx)? {
        totals.push(Total::Lost.of_row(lost));
    }
    let rejects = cx.table(Table::Rejects)?;
    let reasons = rejects.aggregate(vec![col("reason")], vec![count(lit(1)).alias("times")])?;
    totals.push(Total::Reasons.by_key("reason", "times", reasons));
    if job.shingle.short == Short::Whole {
        let single = cx.table(Table::Documents)?.filter(col("shingle_count").eq(lit(1)))?;
        totals.push(Total::SingleShingle.rows_of(single));
    }
    if !job.clusters.method.keeps_chains() {
        let components = cx.table(WorkTable::REPRESENTED)?.filter(col("rank").eq(lit(1_u64)))?;
        totals.push(Total::Components.rows_of(components));
    }
    if let Some(outputs) = cx.reference.and_then(ReferenceDocuments::outputs) {
        totals.push(Total::Replaced.rows_of(same_ids::replaced(cx, outputs.names()?)?));
        totals.push(Total::Superseded.rows_of(outputs.superseded(with_spared(cx)?)?));
    }
    frames::union(totals)?.ok_or_else(|| Error::bug("the manifest has no totals"))
}

/// The number of the run's own documents whose shingles an earlier one has: one row (repeated: UInt64), null if there
/// is none.
fn repeated_sets(cx: &StageContext<'_>) -> Result<DataFrame> {
    let sizes = match cx.job.candidates.compare {
        Compare::All if cx.job.candidates.method != Method::None => {
            let groups = cx.table(WorkTable::COPIES)?;
            groups.filter(col("doc").eq(col("rep")).and(!col("reference")))?.select(vec![col("size")])?
        }
        // Copies of each other are of one group.
        Compare::All | Compare::Within | Compare::Across => {
            frames::copies::sizes_of_sets(cx.table(WorkTable::KEYS)?)?
        }
    };
    let repeated = sizes.select(vec![(col("size") - lit(1_u64)).alias("repeated")])?;
    Ok(repeated.aggregate(vec![], vec![sum(col("repeated")).alias("repeated")])?)
}

/// The table clusters, in which the documents that the table spared has count as representatives too: they stay.
fn with_spared(cx: &StageContext<'_>) -> Result<DataFrame> {
    let clusters = cx.table(Table::Clusters)?;
    match cx.job.clusters.contained {
        None => Ok(clusters),
        Some(_) => frames::merged::with_spared(clusters, cx.table(Table::Spared)?),
    }
}

impl Stage for CountTotals {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let tables = Table::of(cx.job);
            let frame = totals(cx)?;
            let keys = cx.rows(WorkTable::KEYS);
            match tables.iter().map(|&table| cx.rows(table)).sum::<u64>() <= ROWS_OF_DRIVER {
                true => cx.run_here(self, frame).await,
                false => cx.run(self, keys * BYTES_OF_SET, vec![frame]).await,
            }
        })
    }
}

/// Bytes of a row (the two halves of a set's hash, the number of its documents).
const BYTES_OF_SET: u64 = 24;

/// The totals of a run.
pub(in crate::pipeline) struct Totals(Vec<TotalRow>);

/// A row of the table.
struct TotalRow {
    total: String,
    key: String,
    numbers: Vec<u64>,
}

impl Totals {
    /// Those that the stage counted.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(in crate::pipeline) async fn read(cx: &StageContext<'_>) -> Result<Self> {
        let mut rows = Vec::new();
        let columns = vec![utf8("total"), utf8("key"), col("numbers")];
        for batch in cx.table(WorkTable::TOTALS)?.select(columns)?.collect().await? {
            let (totals, keys) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
            let numbers = as_list_array(batch.column(2))?;
            for ((total, key), numbers) in totals.iter().zip(keys).zip(numbers.iter()) {
                let numbers = numbers.as_ref().map(|numbers| as_uint64_array(numbers)).transpose()?;
                rows.push(TotalRow {
                    total: total.unwrap_or_default().to_owned(),
                    key: key.unwrap_or_default().to_owned(),
                    numbers: numbers.map(|numbers| numbers.values().to_vec()).unwrap_or_default(),
                });
            }
        }
        Ok(Self(rows))
    }

    fn rows(&self, total: Total) -> impl Iterator<Item = &TotalRow> {
        let name = total.name();
        self.0.iter().filter(move |row| row.total == name)
    }

    /// The numbers of a total that has one row; `None` if the stage did not count it.
    pub(in crate::pipeline) fn numbers(&self, total: Total) -> Option<&[u64]> {
        self.rows(total).next().map(|row| row.numbers.as_slice())
    }

    /// The number of a total that has one.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) if the stage did not count it.
    pub(in crate::pipeline) fn number(&self, total: Total) -> Result<u64> {
        self.numbers(total).and_then(|numbers| numbers.first()).copied().ok_or_else(|| not_counted(total))
    }

    /// The number of each key of a total.
    pub(in crate::pipeline) fn by_key(&self, total: Total) -> BTreeMap<String, u64> {
        self.rows(total).map(|row| (row.key.clone(), row.numbers.iter().sum())).collect()
    }

    /// Checks that `table`, which was written with `written` rows, has these and that they keep its contract.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) if not.
    pub(in crate::pipeline) fn check(&self, cx: &StageContext<'_>, table: Table) -> Result<()> {
        let contract = schema::contract(table).over(&cx.types, cx.job.columns());
        let (written, total) = (cx.rows(table), Total::Contract(table));
        let counted = self.numbers(total).and_then(|numbers| numbers.split_first());
        let (&rows, broken) = counted.ok_or_else(|| not_counted(total))?;
        if rows != written {
            return Err(Error::bug(format!(
                "{} was written with {written} rows and reads back with {rows}",
                contract.table
            )));
        }
        contract.verdict(broken, DEPTH)
    }
}

fn not_counted(total: Total) -> Error {
    Error::bug(format!("the total {} was not counted", total.name()))
}
