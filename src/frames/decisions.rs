//! Applies the decisions of people to pairs and clusters.
//!
//! Documents that are the same form a *unit*. `units` is (doc, unit), with a row for each document in a decision. `different` is (one,
//! other), the units with different documents, in both orders.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::copies::JUDGED;
use super::{all_columns, columns, float, merged, renamed, suffixed};
use crate::error::Result;
use crate::udf::expr_fn::document_key;

/// The units of the documents in decisions, and the pairs of different units.
#[derive(Debug, Clone)]
pub(crate) struct PairDecisions {
    pub units: DataFrame,
    pub different: DataFrame,
}

impl PairDecisions {
    /// Adds [`JUDGED`] to documents (doc, ..): the key of a document in a decision, or 0 for any other document.
    pub(crate) fn apart_from_copies(&self, documents: DataFrame) -> Result<DataFrame> {
        let judged = coalesce(vec![col("judged_doc"), lit(0_u64)]).alias(JUDGED);
        let columns = [all_columns(&documents), vec![judged]].concat();
        let units = self.units.clone().select(renamed([("doc", "judged_doc")]))?;
        Ok(units.join(documents, JoinType::Right, &["judged_doc"], &["doc"], None)?.select(columns)?)
    }

    /// Adds `decision: Utf8` to pairs with the keys `a` and `b`: `same`, `different` or null.
    pub(crate) fn with_decision(&self, pairs: DataFrame, a: Expr, b: Expr) -> Result<DataFrame> {
        let mut columns = all_columns(&pairs);
        let keyed = pairs.with_column("key_a", a)?.with_column("key_b", b)?;
        let end = |end: &str| suffixed(&self.units, &["doc", "unit"], end);
        let joined = end("a")?.join(keyed, JoinType::Right, &["doc_a"], &["key_a"], None)?;
        let joined = end("b")?.join(joined, JoinType::Right, &["doc_b"], &["key_b"], None)?;
        let keys = (&["one", "other"], &["unit_a", "unit_b"]);
        let joined = self.different.clone().join(joined, JoinType::Right, keys.0, keys.1, None)?;
        let decision = when(col("unit_a").eq(col("unit_b")), lit("same"))
            .when(col("one").is_not_null(), lit("different"))
            .end()?;
        columns.push(cast(decision, DataType::Utf8).alias("decision"));
        Ok(joined.select(columns)?)
    }

    /// Adds `decision` to pairs (id_a, id_b, ..): see [`Self::with_decision`].
    pub(crate) fn decided(&self, pairs: DataFrame) -> Result<DataFrame> {
        self.with_decision(pairs, document_key(col("id_a")), document_key(col("id_b")))
    }

    /// Drops the pairs (a, b, ..) of different documents, which join no documents.
    pub(crate) fn joining(&self, pairs: DataFrame) -> Result<DataFrame> {
        let columns = all_columns(&pairs);
        let decided = self.with_decision(pairs, col("a"), col("b"))?;
        Ok(decided.filter(col("decision").eq(lit("different")).is_not_true())?.select(columns)?)
    }

    /// Shingle sets (set, root, rank, representative, ..) -> (set): the sets whose unit differs from an earlier unit of the cluster. A unit
    /// is earlier if its first document in the cluster is.
    pub(crate) fn apart(&self, represented: DataFrame) -> Result<DataFrame> {
        let members = self.units.clone().join(represented, JoinType::Inner, &["doc"], &["set"], None)?;
        let members = members.select(columns(["unit", "set", "root", "representative", "rank"]))?;
        let of = ["unit", "root", "representative"];
        let heads = members.clone().aggregate(columns(of), vec![min(col("rank")).alias("head")])?;
        let later = suffixed(&heads, &["unit", "root", "representative", "head"], "later")?;
        let keys = (&["other"], &["unit_later"]);
        let later = self.different.clone().join(later, JoinType::Inner, keys.0, keys.1, None)?;
        let keys = (&of, &["one", "root_later", "representative_later"]);
        let later = heads
            .join(later, JoinType::Inner, keys.0, keys.1, None)?
            .filter(col("head").lt(col("head_later")))?
            .select(columns(["unit_later", "root_later", "representative_later"]))?
            .distinct()?;
        let keys = (&["unit_later", "root_later", "representative_later"], &of);
        Ok(later.join(members, JoinType::RightSemi, keys.0, keys.1, None)?.select(columns(["set"]))?)
    }
}

/// Keeps the members (rep, size, ..) that have a copy or are in `components` (doc, ..). The others are only in pairs of different documents.
pub(crate) fn connected(members: DataFrame, components: DataFrame) -> Result<DataFrame> {
    let copies = members.clone().filter(col("size").gt(lit(1_u64)))?;
    let single = members.filter(col("size").eq(lit(1_u64)))?;
    let components = components.select(renamed([("doc", "connected")]))?;
    Ok(copies.union(components.join(single, JoinType::RightSemi, &["connected"], &["rep"], None)?)?)
}

/// Adds `apart: Boolean` to `rows` (set, ..): whether the set is in `apart` (set).
pub(crate) fn mark_apart(rows: DataFrame, apart: DataFrame) -> Result<DataFrame> {
    let columns = [all_columns(&rows), vec![col("apart_set").is_not_null().alias("apart")]].concat();
    let apart = apart.select(renamed([("set", "apart_set")]))?;
    Ok(apart.join(rows, JoinType::Right, &["apart_set"], &["set"], None)?.select(columns)?)
}

/// Marks [`super::losses::removals`] that are kept: adds `apart`, and sets their number of removed documents to 0.
pub(crate) fn kept_removals(removals: DataFrame, apart: DataFrame) -> Result<DataFrame> {
    let removals = mark_apart(removals, apart)?;
    let documents = when(col("apart"), lit(0_u64)).otherwise(col("documents"))?;
    Ok(removals.with_column("documents", documents)?)
}

/// Pairs (a, b, ..), the keys of ids without a document (doc) -> the pairs of two documents.
pub(crate) fn pairs_of_documents(pairs: DataFrame, unknown: DataFrame) -> Result<DataFrame> {
    let mut pairs = pairs;
    for end in ["a", "b"] {
        let unknown = unknown.clone().select(renamed([("doc", "unknown")]))?;
        pairs = unknown.join(pairs, JoinType::RightAnti, &["unknown"], &[end], None)?;
    }
    Ok(pairs)
}

const MEASURED: [&str; 5] = ["estimate", "shared", "shingles_a", "shingles_b", "shared_bands"];

/// Decisions (document_a, document_b, verdict, low, high), scores (a, b, ..) -> the columns of `schemas/decisions.toml`.
pub(crate) fn decisions(ledger: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let all = float(col("shingles_a") + col("shingles_b") - col("shared"));
    let jaccard = float(col("shared")) / all;
    let in_order = document_key(col("document_a")).eq(col("low"));
    let of = |one: &str, other: &str| when(in_order.clone(), col(one)).otherwise(col(other));
    // Only documents that are the same have scores.
    let joined = scores.join(ledger, JoinType::Right, &["a", "b"], &["low", "high"], None)?;
    Ok(joined.select(vec![
        col("document_a"),
        col("document_b"),
        col("verdict"),
        jaccard.alias("jaccard"),
        col("estimate"),
        col("shared"),
        of("shingles_a", "shingles_b")?.alias("shingles_a"),
        of("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("shared_bands"),
    ])?)
}

/// Decisions of earlier outputs in the columns of `schemas/decisions.toml` -> the scores of documents that are the same.
pub(crate) fn known_scores(decisions: DataFrame) -> Result<DataFrame> {
    let end = |id: &str, end: &str| document_key(col(id)).alias(end);
    let ends = vec![end("document_a", "first"), end("document_b", "second")];
    merged::in_order(
        decisions.filter(col("jaccard").is_not_null())?.select([ends, columns(MEASURED)].concat())?,
    )
}
