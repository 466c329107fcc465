//! The stage totals, which counts the numbers in the manifest, and checks the tables against their contracts.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::cast::{as_list_array, as_string_array, as_uint64_array};
use datafusion::functions::expr_fn::{coalesce, concat};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::interface::{BYTES_OF_KEY, Error, Planned, Result, Stage, StageContext, Table, WorkTable, boxed};
use super::losses;
use crate::frames::copies::{Rules, set_sizes};
use crate::frames::pairs::count_of_left_out;
use crate::frames::{self, all_columns, merged, number, utf8};
use crate::job::{Compare, Short};
use crate::pipeline::tables::WorkColumns::{NumberList, Text};
use crate::schema::{self, AuditDepth};

impl WorkTable {
    const TOTALS: Self = Self::new("totals", &[Text("total"), NumberList("numbers")]);
}

/// The depth of the check at the end of each run.
const DEPTH: AuditDepth = AuditDepth::WithoutLists;

/// The name prefix of totals that count rejects by reason.
const REASON: &str = "reason ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum Total {
    /// The number of rows in a table, and the number of rows that break each promise of its contract.
    Contract(Table),
    /// Similar pairs that are not written because groups of copies are written as stars.
    PairsLeftOut,
    /// Documents with the same shingle set as an earlier document.
    RepeatedSets,
    Representatives,
    Removed,
    /// The two numbers of [`losses::total`], if losses were counted.
    Lost,
    SingleShingle,
    /// Connected components of documents, if the cluster method divides components into clusters.
    Components,
    /// Reference documents that were replaced.
    Replaced,
    /// Reference documents that the reference outputs kept and that this run removes.
    Superseded,
}

impl Total {
    fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the row of the total from the one row of `numbers`. Null becomes 0.
    fn row(self, numbers: DataFrame) -> Result<DataFrame> {
        let columns = all_columns(&numbers);
        with_numbers(lit(self.name()), columns, numbers)
    }

    /// Returns the row of a total that counts the rows in `frame`.
    fn count(self, frame: DataFrame) -> Result<DataFrame> {
        self.row(frame.aggregate(vec![], vec![count(lit(1)).alias("rows")])?)
    }
}

/// Returns (total, numbers), with one row for each row of `numbers`. Null becomes 0.
fn with_numbers(total: Expr, columns: Vec<Expr>, numbers: DataFrame) -> Result<DataFrame> {
    let all = columns.into_iter().map(|column| coalesce(vec![number(column), lit(0_u64)]));
    let total = cast(total, DataType::Utf8);
    Ok(numbers.select(vec![total.alias("total"), make_array(all.collect()).alias("numbers")])?)
}

async fn totals(cx: &StageContext<'_>) -> Result<DataFrame> {
    let job = cx.job;
    let mut totals = Vec::new();
    for table in Table::written_by(job) {
        let contract = schema::contract(table).over(&cx.types, job.columns());
        totals.push(Total::Contract(table).row(contract.audit(cx.with_views(table)?, DEPTH)?));
    }
    // Pairs across groups are never written as stars.
    let in_stars = cx.table(WorkTable::MEMBERS)?.filter(lit(job.candidates.compare != Compare::Across))?;
    let left_out = count_of_left_out(in_stars, cx.table(WorkTable::SCORES)?, Rules::new(job))?;
    totals.push(Total::PairsLeftOut.row(left_out));
    totals.push(Total::RepeatedSets.row(repeated_sets(cx)?));
    let representatives = cx.table(Table::Clusters)?.filter(col("representative"))?;
    totals.push(Total::Representatives.count(representatives));
    let removed = with_spared(cx)?.filter((!col("representative")).and(!col("reference")))?;
    totals.push(Total::Removed.count(removed));
    if let Some(lost) = losses::total(cx)? {
        totals.push(Total::Lost.row(lost));
    }
    let rejects = cx.table(Table::Rejects)?;
    let reasons = rejects.aggregate(vec![col("reason")], vec![count(lit(1)).alias("times")])?;
    let total = concat(vec![lit(REASON), col("reason")]);
    totals.push(with_numbers(total, vec![col("times")], reasons));
    if job.shingle.short == Short::Whole {
        let single = cx.table(Table::Documents)?.filter(col("shingle_count").eq(lit(1)))?;
        totals.push(Total::SingleShingle.count(single));
    }
    if !job.clusters.method.keeps_components_whole() {
        let components = cx.table(WorkTable::REPRESENTED)?.filter(col("rank").eq(lit(1_u64)))?;
        totals.push(Total::Components.count(components));
    }
    if let Some(outputs) = cx.reference_outputs() {
        totals.push(Total::Replaced.count(outputs.replaced(cx)?));
        totals.push(Total::Superseded.count(outputs.superseded(with_spared(cx)?).await?));
    }
    frames::union(totals)?.ok_or_else(|| Error::bug("the manifest has no totals"))
}

/// Counts the new documents with the same shingle set as an earlier document: one row (repeated: UInt64), null if there are no documents.
fn repeated_sets(cx: &StageContext<'_>) -> Result<DataFrame> {
    let sizes = match cx.job.candidates.compare {
        // Documents in decisions are in no group of copies.
        Compare::All if cx.job.candidates.method.compares() && cx.job.clusters.decisions.is_none() => {
            let groups = cx.table(WorkTable::COPIES)?;
            groups.filter(col("doc").eq(col("rep")).and(!col("reference")))?.select(vec![col("size")])?
        }
        // Copies are always in the same group.
        Compare::All | Compare::Within | Compare::Across => set_sizes(cx.table(WorkTable::KEYS)?)?,
    };
    let repeated = sizes.select(vec![(col("size") - lit(1_u64)).alias("repeated")])?;
    Ok(repeated.aggregate(vec![], vec![sum(col("repeated")).alias("repeated")])?)
}

/// The table `clusters`, with spared documents marked as representatives, since they are kept too.
fn with_spared(cx: &StageContext<'_>) -> Result<DataFrame> {
    let clusters = cx.table(Table::Clusters)?;
    if !cx.job.clusters.spares() {
        return Ok(clusters);
    }
    merged::with_spared(clusters, cx.table(Table::Spared)?)
}

pub(super) static COUNT_TOTALS: Stage = Stage::work(
    WorkTable::TOTALS,
    |_| "check the tables against their contracts, and count".into(),
    |_| true,
    boxed!(|cx| {
        let totals = totals(cx).await?;
        Ok(Planned::new(cx.rows(WorkTable::KEYS) * BYTES_OF_KEY, vec![totals]))
    }),
);

pub(in crate::pipeline) struct Totals(BTreeMap<String, Vec<u64>>);

impl Totals {
    pub(in crate::pipeline) async fn read(cx: &StageContext<'_>) -> Result<Self> {
        let mut totals = BTreeMap::new();
        let columns = vec![utf8("total"), col("numbers")];
        for batch in cx.table(WorkTable::TOTALS)?.select(columns)?.collect().await? {
            let (names, lists) = (as_string_array(batch.column(0))?, as_list_array(batch.column(1))?);
            for (name, numbers) in names.iter().flatten().zip(lists.iter().flatten()) {
                totals.insert(name.to_owned(), as_uint64_array(&numbers)?.values().to_vec());
            }
        }
        Ok(Self(totals))
    }

    /// Returns the number at the index `at` of a total, if the stage counted the total.
    pub(in crate::pipeline) fn optional(&self, total: Total, at: usize) -> Option<u64> {
        self.0.get(&total.name())?.get(at).copied()
    }

    /// The first number of a total. Fails with `Kind::Bug` if the stage did not count the total.
    pub(in crate::pipeline) fn number(&self, total: Total) -> Result<u64> {
        self.optional(total, 0).ok_or_else(|| not_counted(total))
    }

    pub(in crate::pipeline) fn rejects(&self) -> BTreeMap<String, u64> {
        let reasons = self.0.iter().filter_map(|(name, numbers)| Some((name.strip_prefix(REASON)?, numbers)));
        reasons.map(|(reason, numbers)| (reason.to_owned(), numbers.iter().sum())).collect()
    }

    /// Checks that `table` contains as many rows as were written, and that the rows keep its contract. Fails with `Kind::Bug`.
    pub(in crate::pipeline) fn check(&self, cx: &StageContext<'_>, table: Table) -> Result<()> {
        let contract = schema::contract(table).over(&cx.types, cx.job.columns());
        let (written, total) = (cx.rows(table), Total::Contract(table));
        let counted = self.0.get(&total.name()).and_then(|numbers| numbers.split_first());
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
