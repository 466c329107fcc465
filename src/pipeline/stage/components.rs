//! components: the documents that are connected by scores: by union-find while that fits in memory, else by rounds of
//! [`super::stars`].

use datafusion::prelude::{DataFrame, col};

use super::interface::{
    AnyTable, Planned, Result, Stage, StageContext, StagePlacement, StagePlan, WorkTable,
};
use super::stars;
use super::union_find::union_find;
use crate::pipeline::tables::numbers;

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

/// Finds which documents are connected by scores.
pub(super) static COMPONENTS: Stage = Stage::new(
    AnyTable::Work(WorkTable::COMPONENTS),
    |_| "find which documents are connected by scores".into(),
    |_| true,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let edges = edges(cx).await?;
            match union_find(cx, edges.clone()).await? {
                Some(found) => {
                    let schema = WorkTable::COMPONENTS.schema(cx.job, &cx.types);
                    Ok(Planned {
                        place: StagePlacement::Here,
                        ..Planned::new(0, vec![found.rows(cx.session(), schema)?])
                    })
                }
                None => {
                    let (edges, bytes) = stars::rounds(cx, edges).await?;
                    Ok(Planned::new(bytes, vec![stars::components(edges)?]))
                }
            }
        })
    }),
);
