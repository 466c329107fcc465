//! Functions from frames to frames that stages, look-ups and measurements share: lazy, without I/O and without a session. If a
//! function here does not say more, it fails only where a frame lacks its columns.

pub(crate) mod bands;
pub(crate) mod by_group;
pub mod cluster_id;
pub mod copies;
pub(crate) mod dictionary;
pub mod documents;
pub mod duplicates;
pub(crate) mod empty_text;
pub(crate) mod frequent;
pub(crate) mod given_pairs;
pub(crate) mod keep;
pub mod leaders;
pub(crate) mod mark;
pub(crate) mod may_match;
pub(crate) mod merged;
pub(crate) mod pairs;
pub(crate) mod passages;
pub mod prefix;
pub(crate) mod reference;
pub(crate) mod repeats;
pub(crate) mod reused;
pub(crate) mod scores;
pub(crate) mod shingles;
pub(crate) mod signatures;
pub mod sketches;
pub(crate) mod spans;
pub(crate) mod word_runs;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{LogicalPlan, Union, ident};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::job::Shingle;
use crate::operator::lists::Lists;
use crate::operator::{Operator, apply};
use crate::source::CUT;
use crate::udf::expr_fn::shingles;

/// The carried columns of the source in a frame, in their order: see [`crate::schema::carried`].
fn carried(frame: &DataFrame) -> impl Iterator<Item = Expr> {
    let has = |name: &String| frame.schema().as_arrow().column_with_name(name).is_some();
    (0..).map(crate::schema::carried).take_while(has).map(|name| col(name.as_str()))
}

/// The columns of documents after a stage: where they stand, their ids, `own` columns, and those that `frame` carries.
pub(crate) fn of_documents(frame: &DataFrame, own: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
    ["source", "position", "id"].map(col).into_iter().chain(own).chain(carried(frame)).collect()
}

/// The text of a frame, and `cut` if the frame has it: the shingles of texts that were cut while they were read.
pub(crate) fn text_and_cut(frame: &DataFrame) -> Vec<Expr> {
    let cut = frame.schema().as_arrow().column_with_name(CUT).map(|_| col(CUT));
    std::iter::once(col("text")).chain(cut).collect()
}

/// The shingles of the texts of a frame; null for a text that is null.
pub(crate) fn shingles_of_text(frame: &DataFrame, text: Expr, shingle: &Shingle) -> Result<Expr> {
    Ok(match frame.schema().as_arrow().column_with_name(CUT) {
        None => shingles(text, shingle),
        // A text that was cut already is here only in part.
        Some(_) => {
            let uncut = when(col(CUT).is_null(), text.clone()).end()?;
            let cut = when(text.is_not_null(), col(CUT)).end()?;
            coalesce(vec![cut, shingles(uncut, shingle)])
        }
    })
}

/// (doc, ..) with the other columns that `of_docs` (doc, ..) has for each document.
pub(crate) fn with_columns(frame: DataFrame, of_docs: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = frame.schema().columns().into_iter().map(Expr::Column).collect();
    let names = of_docs.schema().columns().into_iter().map(|column| column.name);
    let others: Vec<Expr> = names.filter(|name| name != "doc").map(ident).collect();
    columns.extend(others.iter().cloned());
    let of_docs = of_docs.select([vec![col("doc").alias("of_doc")], others].concat())?;
    Ok(of_docs.join(frame, JoinType::Right, &["of_doc"], &["doc"], None)?.select(columns)?)
}

/// A column as plain strings, whatever string type the engine uses.
pub(crate) fn utf8(column: &str) -> Expr {
    cast(col(column), DataType::Utf8).alias(column)
}

/// (key: UInt64, value) -> (key, value: `List`), one row for each key.
pub(crate) fn lists(rows: DataFrame) -> Result<DataFrame> {
    apply(Operator::Lists(Lists), vec![rows])
}

/// `rows` in the columns of `schema`, found by name. A column that it lacks is null.
pub(crate) fn in_columns(rows: DataFrame, schema: &Schema) -> Result<DataFrame> {
    let own = rows.schema().clone();
    let column = |field: &FieldRef| {
        let value = match own.has_column_with_unqualified_name(field.name()) {
            true => ident(field.name()),
            false => lit(ScalarValue::Null),
        };
        cast(value, field.data_type().clone()).alias(field.name())
    };
    Ok(rows.select(schema.fields().iter().map(column).collect::<Vec<_>>())?)
}

/// The rows of all frames, which have the same columns; `None` if there is no frame.
pub(crate) fn union(frames: impl IntoIterator<Item = Result<DataFrame>>) -> Result<Option<DataFrame>> {
    let frames = frames.into_iter().collect::<Result<Vec<_>>>()?;
    let mut frames = frames.into_iter();
    let Some(first) = frames.next() else { return Ok(None) };
    if frames.len() == 0 {
        return Ok(Some(first));
    }
    // One node for any number: the time for nested ones grows with the square of their number.
    let (state, first) = first.into_parts();
    let others = frames.map(|frame| frame.into_parts().1);
    let plans = std::iter::once(first).chain(others).map(Arc::new).collect();
    let all = LogicalPlan::Union(Union::try_new_with_loose_types(plans)?);
    Ok(Some(DataFrame::new(state, all)))
}

/// `frame`, planned with joins that sort both sides in partitions. Such a join holds a batch of its right side, which a
/// [`JoinType::Right`] keeps whole, and the rows of one key of the left one. A hash join would hold all of its left
/// side.
pub fn joined_by_sorting(frame: DataFrame) -> DataFrame {
    let (mut state, plan) = frame.into_parts();
    let config = state.config_mut();
    config.options_mut().optimizer.prefer_hash_join = false;
    // In a plan of one partition the engine joins by hash nevertheless.
    let partitions = config.target_partitions().max(2);
    config.options_mut().execution.target_partitions = partitions;
    DataFrame::new(state, plan)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
    use arrow::datatypes::UInt64Type;
    use datafusion::prelude::{SessionContext, lit};

    use super::*;

    fn frame(session: &SessionContext, names: [&str; 2], rows: &[(u64, u64)]) -> DataFrame {
        let (a, b): (Vec<u64>, Vec<u64>) = rows.iter().copied().unzip();
        let columns = names.into_iter().zip([a, b].map(|of| Arc::new(UInt64Array::from(of)) as ArrayRef));
        session.read_batch(RecordBatch::try_from_iter(columns).unwrap()).unwrap()
    }

    async fn numbers(frame: DataFrame) -> BTreeSet<u64> {
        let batches = frame.collect().await.unwrap();
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec())
            .collect()
    }

    /// The same frame of every run, with its number.
    fn of_runs(of_one: &DataFrame, runs: u64) -> DataFrame {
        let of_run = |run| {
            let columns = of_one.schema().columns().into_iter().map(Expr::Column);
            Ok(of_one
                .clone()
                .select(std::iter::once(lit(run).alias("run")).chain(columns).collect::<Vec<_>>())?)
        };
        union((0..runs).map(of_run)).unwrap().unwrap()
    }

    /// The number of nodes of a plan, and its depth.
    fn extent(frame: DataFrame) -> (usize, usize) {
        let plan = frame.into_optimized_plan().unwrap();
        let (mut nodes, mut depth, mut level) = (0, 0, vec![&plan]);
        while !level.is_empty() {
            (nodes, depth) = (nodes + level.len(), depth + 1);
            level = level.into_iter().flat_map(LogicalPlan::inputs).collect();
        }
        (nodes, depth)
    }

    /// A plan over many outputs has a branch for each, and no nesting.
    #[test]
    fn plans_grow_with_the_outputs_and_no_faster() {
        let session = SessionContext::new();
        let clusters = frame(&session, ["id", "cluster_id"], &[(1, 1), (2, 1)]);
        let documents = frame(&session, ["doc", "id"], &[(1, 1), (2, 2)]);
        type Plan<'a> = Box<dyn Fn(u64) -> DataFrame + 'a>;
        let plans: [(&str, Plan<'_>); 3] = [
            (
                "founders",
                Box::new(|runs| reference::founders(of_runs(&clusters, runs), None).unwrap().present),
            ),
            ("shared", Box::new(|runs| reference::shared_ids(of_runs(&documents, runs)).unwrap())),
            (
                "staying",
                Box::new(|runs| {
                    let all = of_runs(&documents, runs);
                    merged::staying(all.clone(), all.select(vec![col("run"), col("doc")]).unwrap()).unwrap()
                }),
            ),
        ];
        for (name, plan) in plans {
            let [small, large] = [10, 100].map(|runs| extent(plan(runs)));
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
        // 5 founds a cluster, which is later a part of that of 1; 7 founds one after it was in another.
        let clusters = runs(
            ["id", "cluster_id"],
            &[&[(5, 5), (6, 5), (7, 6)], &[(1, 1), (5, 1)], &[(7, 7), (8, 7), (9, 9)]],
        );
        assert_eq!(
            numbers(reference::founders(clusters, None).unwrap().present).await,
            BTreeSet::from([1, 7, 9])
        );
        // 11 is replaced by run 2, and the one of run 1 replaces no document.
        let documents = runs(["id", "doc"], &[&[(1, 11), (2, 12)], &[(3, 13)], &[(4, 11), (5, 15)]]);
        let later = runs(["doc", "id"], &[&[], &[], &[(11, 4), (15, 5)]]);
        let staying = merged::staying(documents, later).unwrap();
        assert!(!staying.schema().has_column_with_unqualified_name("run"));
        assert_eq!(numbers(staying).await, BTreeSet::from([2, 3, 4, 5]));
    }
}
