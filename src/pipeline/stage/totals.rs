//! totals: what the manifest says of the tables, and whether their rows keep the contracts.

use arrow::datatypes::{DataType, Field};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    AnyTable, Error, Planned, Result, SourceTypes, Stage, StageContext, StagePlacement, StagePlan, Table,
    WorkTable, frames,
};
use super::losses;
use crate::frames::copies::Rules;
use crate::job::{Compare, Short};
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::tables::list_column;
use crate::pipeline::totals::{DEPTH, Total};
use crate::schema;

impl WorkTable {
    /// The numbers of each total.
    pub(in crate::pipeline) const TOTALS: Self = Self::new("totals", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    vec![
        Field::new("total", DataType::Utf8, false),
        // Null for a total that has one row.
        Field::new("key", DataType::Utf8, true),
        list_column("numbers", DataType::UInt64, false),
    ]
}

/// Tables of at most this many rows in all are read in this process, which takes less time than to submit a plan.
const ROWS_OF_DRIVER: u64 = 1_000_000;

impl Total {
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
        totals.push(Total::Replaced.rows_of(outputs.replaced(cx)?));
        totals.push(Total::Superseded.rows_of(outputs.superseded(with_spared(cx)?)?));
    }
    frames::union(totals)?.ok_or_else(|| Error::bug("the manifest has no totals"))
}

/// The number of the run's own documents whose shingles an earlier one has: one row (repeated: UInt64), null if there
/// is none.
fn repeated_sets(cx: &StageContext<'_>) -> Result<DataFrame> {
    let sizes = match cx.job.candidates.compare {
        Compare::All if cx.job.candidates.method.compares() => {
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

/// Counts what the manifest says of the tables.
pub(super) static COUNT_TOTALS: Stage = Stage::new(
    AnyTable::Work(WorkTable::TOTALS),
    |_| "check the tables against their contracts, and count".into(),
    |_| true,
    StagePlan::Now(|cx| {
        let rows: u64 = Table::of(cx.job).iter().map(|&table| cx.rows(table)).sum();
        let place = if rows <= ROWS_OF_DRIVER { StagePlacement::Here } else { StagePlacement::Engine };
        Ok(Planned { place, ..Planned::new(cx.rows(WorkTable::KEYS) * BYTES_OF_SET, vec![totals(cx)?]) })
    }),
);

/// Bytes of a row (the two halves of a set's hash, the number of its documents).
const BYTES_OF_SET: u64 = 24;
