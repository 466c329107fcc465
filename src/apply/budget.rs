//! The repeat budget of `--keep-up-to`: the first documents of each cluster that stay, and the repeat counts before and after.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use serde::Deserialize;

use super::decisions::removed;
use super::manifest::{ApplySettings, RepeatBudget, RepeatCount};
use crate::error::{Error, Result};
use crate::frames::{self, keep, number};
use crate::job::{Job, Preference};
use crate::lookup::rows;
use crate::origins::numbered;
use crate::output::Stored;
use crate::pipeline::numbers::one_number;
use crate::schema::Table;
use crate::source::{self, DocumentPlaces, Listed};
use crate::udf::expr_fn::document_key;

/// The decision about each document in a cluster: (id, kept_id, bytes, stays), in memory.
pub(super) struct BudgetRows(DataFrame);

/// Refuses, with `Kind::Job` and advice, an output or other settings to which the budget does not apply.
pub(super) fn refuse(stored: &Stored, settings: &ApplySettings) -> Result<()> {
    let Some(budget) = &settings.keep_up_to else { return Ok(()) };
    let job = stored.job();
    if job.reference().is_some() || job.second_source().is_some() {
        return Err(Error::job(format!(
            "--keep-up-to: {} was made with [against], and copies in the reference documents would not count: merge it with the outputs \
             that it was made against and apply the merged output, or apply without --keep-up-to",
            stored.layout().shown()
        )));
    }
    if settings.passages.cuts() {
        return Err(Error::job(
            "--keep-up-to keeps documents whose passages --passages cut and drop would cut out: use --passages mark, or leave out one of \
             the two options",
        ));
    }
    budget.value(job).map(drop)
}

impl RepeatBudget {
    /// Returns the value of the column with a budget for each value, in the table `documents`. Fails with `Kind::Job` if documents have no
    /// such column.
    fn value(&self, job: &Job) -> Result<Option<Expr>> {
        let Some(column) = self.per.as_deref() else { return Ok(None) };
        let group = job.source.group.as_deref();
        let name = match Preference::OWN.into_iter().find(|own| *own == column).or(Preference::own(column)) {
            _ if job.source.columns.iter().any(|carried| carried == column) => column,
            Some(Preference::GROUP) if group.is_none() => {
                return Err(Error::job(format!(
                    "--keep-up-to {column}: documents have no group: set source.group and run the job again"
                )));
            }
            Some(own) => own,
            None => {
                return Err(Error::job(format!(
                    "--keep-up-to: documents do not carry the column `{column}`: add it to source.columns and run the job again, or name \
                     one of {}",
                    Preference::OWN.map(|own| format!("`{own}`")).join(", ")
                )));
            }
        };
        Ok(Some(keep::stored(name, group)))
    }
}

/// Decides which documents stay, if the settings have a budget. Reads the texts of all documents in clusters.
pub(super) async fn decide(
    stored: &Stored,
    sources: &[(Job, Listed)],
    settings: &ApplySettings,
) -> Result<Option<BudgetRows>> {
    let Some(budget) = &settings.keep_up_to else { return Ok(None) };
    let gone = removed(stored, None, settings.contained, None)?.cache().await?;
    let kept = gone.clone().select_exprs(&[
        "kept_id AS id",
        "kept_id",
        "kept_origin_number AS origin_number",
        "kept_source AS source",
        "kept_position AS position",
    ])?;
    let members = gone
        .select_columns(&["id", "kept_id", "origin_number", "source", "position"])?
        .union(kept.distinct()?)?
        .select(vec![
            col("id"),
            col("kept_id"),
            number(col("origin_number")).alias("origin_number"),
            cast(col("source"), DataType::Utf8).alias("source"),
            number(col("position")).alias("position"),
        ])?
        .cache()
        .await?;
    let texts = texts(stored, sources, members.clone()).await?;
    let place = ["origin_number", "source", "position"];
    let of_text = ["text_origin", "text_source", "text_position"];
    let rows = staying(members.join(texts, JoinType::Inner, &place, &of_text, None)?, stored, budget)?;
    Ok(Some(BudgetRows(rows.cache().await?)))
}

/// Returns the texts of `documents` (origin_number, source, position, ..) as (text_origin, text_source, text_position, text_key, bytes).
/// `text_key` is a 64-bit hash of the text.
async fn texts(stored: &Stored, sources: &[(Job, Listed)], documents: DataFrame) -> Result<DataFrame> {
    let places = DocumentPlaces::from_frame(documents, col("origin_number")).await?.or_none_in(0);
    let read = source::read_at(stored.session(), numbered(sources), places, None).await?;
    let read = read.into_iter().map(|(origin, read)| {
        Ok(read.select(vec![
            lit(origin).alias("text_origin"),
            cast(col("source"), DataType::Utf8).alias("text_source"),
            number(col("position")).alias("text_position"),
            document_key(col("text")).alias("text_key"),
            number(octet_length(cast(col("text"), DataType::Utf8View))).alias("bytes"),
        ])?)
    });
    frames::union(read)?.ok_or_else(|| Error::bug("no source is read"))
}

/// Returns the rows of [`BudgetRows`] for `members` (id, kept_id, text_key, bytes, ..).
fn staying(members: DataFrame, stored: &Stored, budget: &RepeatBudget) -> Result<DataFrame> {
    let job = stored.job();
    let order = job.clusters.order();
    let value = budget.value(job)?.unwrap_or_else(|| lit(0_i64));
    let mut columns = vec![col("id").alias("document_id"), col("shingle_count"), value.alias("budget_value")];
    columns.extend(keep::order_columns(&order, job.source.group.as_deref())?);
    let documents = stored.table(Table::Documents)?.select(columns)?;
    let members = members.drop_columns(&["source", "position"])?;
    let rows = members.join(documents, JoinType::Inner, &["id"], &["document_id"], None)?;
    let rows = rows.with_column("is_kept", col("id").eq(col("kept_id")))?;
    let in_order =
        || -> Vec<SortExpr> { [vec![col("is_kept").sort(false, false)], keep::sorted(&order)].concat() };
    let first = |by: &[&str], name: &str| -> Result<Expr> {
        let by = by.iter().map(|name| col(*name)).collect();
        Ok(row_number().partition_by(by).order_by(in_order()).build()?.alias(name))
    };
    let rows = rows.window(vec![first(&["kept_id", "text_key", "bytes"], "copy")?])?;
    let counts = col("copy").eq(lit(1_u64)).or(lit(budget.identical));
    let rows = rows.with_column("counts", counts)?;
    let rows = rows.window(vec![first(&["kept_id", "budget_value", "counts"], "rank")?])?;
    let stays = col("is_kept").or(col("counts").and(col("rank").lt_eq(lit(budget.up_to))));
    Ok(rows.select(vec![col("id"), col("kept_id"), col("bytes"), stays.alias("stays")])?)
}

impl BudgetRows {
    /// Returns the documents (stay_id) that stay in addition to the representatives.
    pub(super) fn added(&self) -> Result<DataFrame> {
        let added = self.0.clone().filter(col("stays").and(col("id").not_eq(col("kept_id"))))?;
        Ok(added.select_exprs(&["id AS stay_id"])?)
    }

    /// Returns the values (source, position, copies, weight) of the documents `kept` (id, source, position, ..). `copies` is the number of
    /// documents in the cluster, which its documents that stay share as `weight`.
    pub(super) fn copies(&self, kept: DataFrame) -> Result<DataFrame> {
        let numbers = vec![count(lit(1)).alias("copies"), count(self.if_stays(lit(1))?).alias("staying")];
        let clusters = self.0.clone().aggregate(vec![col("kept_id")], numbers)?;
        let stays = self.0.clone().filter(col("stays"))?;
        let stays = stays.select_exprs(&["id AS stay_id", "kept_id AS stay_kept_id"])?;
        let stays = clusters.join(stays, JoinType::Inner, &["kept_id"], &["stay_kept_id"], None)?;
        let rows = stays.join(kept, JoinType::Right, &["stay_id"], &["id"], None)?;
        Ok(rows.select_exprs(&[
            "source",
            "position",
            "coalesce(copies, 1) AS copies",
            "coalesce(CAST(copies AS DOUBLE) / staying, 1.0) AS weight",
        ])?)
    }

    fn if_stays(&self, value: Expr) -> Result<Expr> {
        Ok(when(col("stays"), value).end()?)
    }

    /// Counts the texts by their repeat counts, in intervals that end at powers of two. Reads the texts of all compared documents.
    pub(super) async fn repeats(
        &self,
        stored: &Stored,
        sources: &[(Job, Listed)],
    ) -> Result<Vec<RepeatCount>> {
        let clusters = self.0.clone().aggregate(
            vec![col("kept_id")],
            vec![
                count(lit(1)).alias("before"),
                sum(col("bytes")).alias("bytes_before"),
                count(self.if_stays(lit(1))?).alias("after"),
                sum(self.if_stays(col("bytes"))?).alias("bytes_after"),
            ],
        )?;
        let by = async |count_of: &str, bytes: &str| {
            let numbers = vec![count(lit(1)).alias("texts"), sum(col(bytes)).alias("bytes")];
            let counted = clusters.clone().aggregate(vec![col(count_of).alias("documents")], numbers)?;
            rows::read::<TextsOfCount>(counted).await
        };
        let (before, after) = (by("before", "bytes_before").await?, by("after", "bytes_after").await?);
        let texts = texts(stored, sources, stored.table(Table::Documents)?).await?;
        let all = one_number(texts.aggregate(vec![], vec![sum(col("bytes")).alias("bytes")])?).await?;
        let clustered: u64 = before.iter().map(|of| of.documents * of.texts).sum();
        let alone = TextsOfCount {
            documents: 1,
            texts: stored.manifest().counts.documents - clustered,
            bytes: all - before.iter().map(|of| of.bytes).sum::<u64>(),
        };
        Ok(intervals(before.into_iter().chain([alone]), after.into_iter().chain([alone])))
    }
}

/// The texts with the same number of documents.
#[derive(Debug, Clone, Copy, Deserialize)]
struct TextsOfCount {
    documents: u64,
    texts: u64,
    bytes: u64,
}

/// Sums the texts in the intervals 1, 2, 3 to 4, 5 to 8, and so on.
fn intervals(
    before: impl Iterator<Item = TextsOfCount>,
    after: impl Iterator<Item = TextsOfCount>,
) -> Vec<RepeatCount> {
    let mut intervals: BTreeMap<u64, RepeatCount> = BTreeMap::new();
    let sides = before.map(|of| (true, of)).chain(after.map(|of| (false, of)));
    for (is_before, TextsOfCount { documents, texts, bytes }) in sides.filter(|(_, of)| of.texts > 0) {
        let to = documents.next_power_of_two();
        let interval =
            intervals.entry(to).or_insert(RepeatCount { from: to / 2 + 1, to, ..Default::default() });
        let side = if is_before { &mut interval.before } else { &mut interval.after };
        side.texts += texts;
        side.bytes += bytes;
    }
    intervals.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_end_at_powers_of_two() {
        let of = |documents| TextsOfCount { documents, texts: 1, bytes: 10 * documents };
        let found = intervals([1, 2, 3, 4, 5, 8, 9].map(of).into_iter(), [1, 1, 3].map(of).into_iter());
        let seen: Vec<[u64; 6]> = found
            .iter()
            .map(|at| [at.from, at.to, at.before.texts, at.before.bytes, at.after.texts, at.after.bytes])
            .collect();
        let expected = [
            [1, 1, 1, 10, 2, 20],
            [2, 2, 1, 20, 0, 0],
            [3, 4, 2, 70, 1, 30],
            [5, 8, 2, 130, 0, 0],
            [9, 16, 1, 90, 0, 0],
        ];
        assert_eq!(seen, expected);
    }
}
