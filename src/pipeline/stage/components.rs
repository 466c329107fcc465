//! components: the documents that are connected by scores: by union-find while that fits in memory, else by rounds of
//! [`super::stars`].

use datafusion::prelude::{DataFrame, col};

use super::interface::{AnyTable, BoxFuture, OneTable, Result, Stage, StageContext, WorkTable};
use super::stars;
use super::union_find::union_find;
use crate::pipeline::tables::numbers;

/// Finds which documents are connected by scores.
pub(crate) struct Components;

impl WorkTable {
    /// A document and the least document of its component.
    pub(crate) const COMPONENTS: Self = Self::new("components", |_| numbers(["doc", "root"]));
}

/// The edges between documents: (a, b).
async fn edges(cx: &StageContext<'_>) -> Result<DataFrame> {
    match cx.reference {
        None => Ok(cx.table(WorkTable::SCORES)?.select(vec![col("a"), col("b")])?),
        Some(known) => known.edges(cx).await,
    }
}

impl OneTable for Components {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::COMPONENTS);
    const WHAT: &'static str = "find which documents are connected by scores";
}

impl Stage for Components {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let edges = edges(cx).await?;
            match union_find(cx, edges.clone()).await? {
                Some(found) => {
                    let schema = WorkTable::COMPONENTS.schema(cx.job, &cx.types);
                    cx.run_here(self, found.rows(cx.session(), schema)?).await
                }
                None => {
                    let (edges, bytes) = stars::rounds(cx, edges).await?;
                    cx.run(self, bytes, vec![stars::components(edges)?]).await
                }
            }
        })
    }
}
