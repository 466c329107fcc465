//! Clusters of pairs that another program found.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt};
use datafusion::prelude::{DataFrame, cast, col, lit};

use crate::clusters::Division;
use crate::error::Result;
use crate::job::ClusterMethod;
use crate::operator::represent::Represent;
use crate::operator::{self, Operator};

/// (id_a, id_b, score: Float64) -> (id, cluster_id, size: Int64, representative: Boolean) of the pairs whose score is at least
/// `threshold`, one row for each document of such a pair, sorted by cluster and id.
///
/// The smallest id represents a cluster, and is its `cluster_id`. With [`ClusterMethod::Representative`] documents are taken in the
/// order of their ids.
pub(crate) fn clusters(pairs: DataFrame, threshold: f64, method: ClusterMethod) -> Result<DataFrame> {
    let paired = col("score").gt_eq(lit(threshold)).and(col("id_a").not_eq(col("id_b")));
    let pairs = pairs.filter(paired)?;
    let ids = |column: &str| pairs.clone().select(vec![col(column).alias("id")]);
    let by_id = row_number().order_by(vec![col("id").sort(true, false)]).build()?.alias("rank");
    let ranked = ids("id_a")?.union(ids("id_b")?)?.distinct()?.window(vec![by_id])?;
    let of = |end: &str| {
        let columns = ["id", "rank"].map(|column| col(column).alias(format!("{column}_of_{end}")));
        ranked.clone().select(columns.to_vec())
    };
    // A column that changes its name keeps the optimizer from putting the two joins into another order.
    let joined = of("a")?
        .join(pairs.clone(), JoinType::Inner, &["id_of_a"], &["id_a"], None)?
        .select(vec![col("id_b").alias("other"), col("rank_of_a"), col("score")])?;
    let ends = || vec![col("rank_of_a"), col("rank_of_b")];
    let edges = of("b")?.join(joined, JoinType::Inner, &["id_of_b"], &["other"], None)?.select(vec![
        // The pairs are taken as one component, whose parts are found.
        lit(0_u64).alias("root"),
        greatest(ends()).alias("high"),
        least(ends()).alias("low"),
        col("score").alias("jaccard"),
    ])?;
    let found = operator::apply(Operator::Represent(Represent(Division::Part(method))), vec![edges])?;
    let found = found.select(vec![col("rank").alias("found_rank"), col("representative")])?;
    let rows = found.join(ranked, JoinType::Right, &["found_rank"], &["rank"], None)?.select(vec![
        col("id"),
        col("rank"),
        coalesce(vec![col("representative"), col("rank")]).alias("of"),
    ])?;
    let counts = vec![min(col("id")).alias("cluster_id"), count(lit(1)).alias("size")];
    let clusters = rows.clone().aggregate(vec![col("of").alias("cluster_of")], counts)?;
    Ok(clusters
        .join(rows, JoinType::Right, &["cluster_of"], &["of"], None)?
        .select(vec![
            col("id"),
            col("cluster_id"),
            cast(col("size"), DataType::Int64).alias("size"),
            col("rank").eq(col("of")).alias("representative"),
        ])?
        .sort(sorted(["cluster_id", "id"]))?)
}

fn sorted(columns: [&str; 2]) -> Vec<datafusion::logical_expr::SortExpr> {
    columns.map(|column| Expr::sort(col(column), true, false)).to_vec()
}
