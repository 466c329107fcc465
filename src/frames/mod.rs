//! Functions from frames to frames, which stages, look-ups and measurements share. They are lazy: they read no files and need no session.
//!
//! The docs state columns as `inputs -> output`: (a, b, ..) is a frame with the columns a and b, and perhaps more. Unless documented
//! otherwise, a function fails only if a frame lacks a column.

pub mod candidates;
pub mod clusters;
pub mod components;
pub mod copies;
pub(crate) mod decisions;
pub mod documents;
pub(crate) mod frequent_shingles;
pub(crate) mod groups;
pub(crate) mod keep;
pub(crate) mod losses;
pub(crate) mod merged;
pub(crate) mod pairs;
pub(crate) mod passages;
pub mod prefix;
pub mod ranks;
pub(crate) mod reference;
pub(crate) mod scores;
pub mod sketches;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{LogicalPlan, Union, ident};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::job::Shingle;
use crate::operator::keyed_rows::Lists;
use crate::operator::{Operator, apply};
use crate::source::CUT;
use crate::udf::expr_fn::shingles;

pub(crate) fn columns<const N: usize>(names: [&str; N]) -> Vec<Expr> {
    names.map(col).to_vec()
}

/// Renames columns. Each element of `names` is (name, new name).
pub(crate) fn renamed<const N: usize>(names: [(&str, &str); N]) -> Vec<Expr> {
    names.map(|(name, new)| col(name).alias(new)).to_vec()
}

/// The columns `names` of `frame`, with the suffix `_end`.
pub(crate) fn suffixed(frame: &DataFrame, names: &[&str], end: &str) -> Result<DataFrame> {
    let columns = names.iter().map(|name| col(*name).alias(format!("{name}_{end}")));
    Ok(frame.clone().select(columns.collect::<Vec<_>>())?)
}

/// All columns of `frame`, to restore them after a join.
pub(crate) fn all_columns(frame: &DataFrame) -> Vec<Expr> {
    frame.schema().columns().into_iter().map(|column| ident(column.name)).collect()
}

fn has_column(frame: &DataFrame, name: &str) -> bool {
    frame.schema().has_column_with_unqualified_name(name)
}

pub(crate) fn no_number() -> Expr {
    lit(ScalarValue::UInt64(None))
}

pub(crate) fn number(expr: Expr) -> Expr {
    cast(expr, DataType::UInt64)
}

pub(crate) fn float(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}

/// Casts a column to plain strings, because the engine may use another string type.
pub(crate) fn utf8(column: &str) -> Expr {
    cast(col(column), DataType::Utf8).alias(column)
}

/// The carried columns of the source in `frame`, in order: see [`crate::schema::carried`].
fn carried(frame: &DataFrame) -> impl Iterator<Item = Expr> {
    (0..).map(crate::schema::carried).take_while(|name| has_column(frame, name)).map(ident)
}

/// The columns `source`, `position` and `id`, then `own`, then the carried columns of `frame`.
pub(crate) fn document_columns(frame: &DataFrame, own: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
    columns(["source", "position", "id"]).into_iter().chain(own).chain(carried(frame)).collect()
}

/// The column `text`, and [`CUT`] if the frame contains it: the shingles of texts that the reader has already split.
pub(crate) fn text_and_cut(frame: &DataFrame) -> Vec<Expr> {
    std::iter::once("text").chain(has_column(frame, CUT).then_some(CUT)).map(col).collect()
}

/// The shingles of each text in a frame, or null if the text is null.
pub(crate) fn shingles_of_text(frame: &DataFrame, text: Expr, shingle: &Shingle) -> Result<Expr> {
    if !has_column(frame, CUT) {
        return Ok(shingles(text, shingle));
    }
    // A text that the reader has already split is cut off in the column `text`.
    let uncut = when(col(CUT).is_null(), text.clone()).end()?;
    let cut = when(text.is_not_null(), col(CUT)).end()?;
    Ok(coalesce(vec![cut, shingles(uncut, shingle)]))
}

/// Adds the other columns of `by_doc` (doc, ..) to the rows of `frame` (doc, ..).
pub(crate) fn with_columns(frame: DataFrame, by_doc: DataFrame) -> Result<DataFrame> {
    let names = by_doc.schema().columns().into_iter().map(|column| column.name);
    let others: Vec<Expr> = names.filter(|name| name != "doc").map(ident).collect();
    let columns = [all_columns(&frame), others.clone()].concat();
    let by_doc = by_doc.select([renamed([("doc", "of_doc")]), others].concat())?;
    Ok(by_doc.join(frame, JoinType::Right, &["of_doc"], &["doc"], None)?.select(columns)?)
}

/// Keeps the `documents` (doc, ..) whose keys are in `needed` (needed: UInt64).
pub(crate) fn among(documents: DataFrame, needed: DataFrame) -> Result<DataFrame> {
    Ok(needed.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?)
}

/// (a, b) -> distinct (needed: UInt64), the documents in pairs.
pub(crate) fn needed(pairs: DataFrame) -> Result<DataFrame> {
    let a = pairs.clone().select(renamed([("a", "needed")]))?;
    Ok(a.union(pairs.select(renamed([("b", "needed")]))?)?.distinct()?)
}

/// (key: UInt64, value) -> (key, value: `List`), one row for each key.
pub(crate) fn lists(rows: DataFrame) -> Result<DataFrame> {
    apply(Operator::Lists(Lists), vec![rows])
}

/// Converts `rows` to the columns of `schema` by name. A missing column becomes null.
pub(crate) fn in_columns(rows: DataFrame, schema: &Schema) -> Result<DataFrame> {
    let column = |field: &FieldRef| {
        let value =
            if has_column(&rows, field.name()) { ident(field.name()) } else { lit(ScalarValue::Null) };
        cast(value, field.data_type().clone()).alias(field.name())
    };
    let columns: Vec<Expr> = schema.fields().iter().map(column).collect();
    Ok(rows.select(columns)?)
}

/// Returns the rows of all frames, which have the same columns. Returns `None` if there are no frames.
pub(crate) fn union(frames: impl IntoIterator<Item = Result<DataFrame>>) -> Result<Option<DataFrame>> {
    let frames = frames.into_iter().collect::<Result<Vec<_>>>()?;
    let mut frames = frames.into_iter();
    let Some(first) = frames.next() else { return Ok(None) };
    if frames.len() == 0 {
        return Ok(Some(first));
    }
    // One node unites all inputs, because the planning time of nested unions is quadratic in their number.
    let (state, first) = first.into_parts();
    let others = frames.map(|frame| frame.into_parts().1);
    let plans = std::iter::once(first).chain(others).map(Arc::new).collect();
    let all = LogicalPlan::Union(Union::try_new_with_loose_types(plans)?);
    Ok(Some(DataFrame::new(state, all)))
}

/// Plans `frame` with sort-merge joins. A hash join would keep its whole left side in memory. A sort-merge join keeps one batch of its
/// right side and the left rows with one key.
pub fn joined_by_sorting(frame: DataFrame) -> DataFrame {
    let (mut state, plan) = frame.into_parts();
    let config = state.config_mut();
    config.options_mut().optimizer.prefer_hash_join = false;
    // DataFusion still uses a hash join in a plan with one partition.
    let partitions = config.target_partitions().max(2);
    config.options_mut().execution.target_partitions = partitions;
    DataFrame::new(state, plan)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::UInt64Type;
    use datafusion::prelude::{SessionContext, lit};

    use super::*;
    use crate::operator::fixtures;

    fn frame(session: &SessionContext, names: [&str; 2], rows: &[(u64, u64)]) -> DataFrame {
        session.read_batch(fixtures::numbers(names, rows)).unwrap()
    }

    async fn numbers(frame: DataFrame) -> BTreeSet<u64> {
        let batches = frame.collect().await.unwrap();
        let first = |batch: &RecordBatch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
        batches.iter().flat_map(first).collect()
    }

    /// Repeats the rows for every run and adds the run's number.
    fn by_run(rows: &DataFrame, runs: u64) -> DataFrame {
        let with_run =
            |run| Ok(rows.clone().select([vec![lit(run).alias("run")], all_columns(rows)].concat())?);
        union((0..runs).map(with_run)).unwrap().unwrap()
    }

    fn extent(frame: DataFrame) -> (usize, usize) {
        let plan = frame.into_optimized_plan().unwrap();
        let (mut nodes, mut depth, mut level) = (0, 0, vec![&plan]);
        while !level.is_empty() {
            (nodes, depth) = (nodes + level.len(), depth + 1);
            level = level.into_iter().flat_map(LogicalPlan::inputs).collect();
        }
        (nodes, depth)
    }

    /// A plan that reads many outputs has one branch per output, without nesting.
    #[test]
    fn plans_grow_with_the_outputs_and_no_faster() {
        let session = SessionContext::new();
        let clusters = frame(&session, ["id", "cluster_id"], &[(1, 1), (2, 1)]);
        let documents = frame(&session, ["doc", "id"], &[(1, 1), (2, 2)]);
        let plans = |runs| {
            let (clusters, documents) = (by_run(&clusters, runs), by_run(&documents, runs));
            let later = documents.clone().select(vec![col("run"), col("doc")]).unwrap();
            [
                reference::founders(clusters, None).unwrap().present,
                reference::shared_ids(documents.clone()).unwrap(),
                merged::staying(documents, later).unwrap(),
            ]
            .map(extent)
        };
        let extents = plans(10).into_iter().zip(plans(100));
        for (name, (small, large)) in ["founders", "shared", "staying"].iter().zip(extents) {
            assert_eq!(small.1, large.1, "{name} grows in depth");
            assert!(large.0 <= 10 * small.0 && small.0 < 100, "{name}: {small:?} {large:?}");
        }
    }

    #[tokio::test]
    async fn founders_and_documents_are_those_of_the_last_run_that_has_them() {
        let session = SessionContext::new();
        let runs = |names, of: &[&[(u64, u64)]]| {
            let frames = (0_u64..).zip(of).map(|(run, rows)| {
                let frame: DataFrame = frame(&session, names, rows);
                Ok(frame.with_column("run", lit(run))?)
            });
            union(frames).unwrap().unwrap()
        };
        // Document 5 founds a cluster that document 1's cluster later absorbs. Document 7 founds a cluster after it was in another cluster.
        let clusters = runs(
            ["id", "cluster_id"],
            &[&[(5, 5), (6, 5), (7, 6)], &[(1, 1), (5, 1)], &[(7, 7), (8, 7), (9, 9)]],
        );
        let found = numbers(reference::founders(clusters, None).unwrap().present).await;
        assert_eq!(found, BTreeSet::from([1, 7, 9]));
        // Run 2 replaces document 11, and the document of run 1 replaces no document.
        let documents = runs(["id", "doc"], &[&[(1, 11), (2, 12)], &[(3, 13)], &[(4, 11), (5, 15)]]);
        let later = runs(["doc", "id"], &[&[], &[], &[(11, 4), (15, 5)]]);
        let staying = merged::staying(documents, later).unwrap();
        assert!(!staying.schema().has_column_with_unqualified_name("run"));
        assert_eq!(numbers(staying).await, BTreeSet::from([2, 3, 4, 5]));
    }
}
