//! components: the documents that are connected by scores: by union-find while that fits in memory, else by rounds of [`super::stars`].

use std::borrow::Cow;

use arrow::datatypes::Field;
use async_trait::async_trait;
use datafusion::prelude::{DataFrame, col};

use super::interface::{Stage, Tables, Writes, all};
use super::stars;
use super::union_find::union_find;
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, numbers};
use crate::schema::SourceTypes;

/// Finds which documents are connected by scores.
pub(crate) struct Components;

impl WorkTable {
    /// A document and the least document of its component.
    pub(crate) const COMPONENTS: Self = Self::new("components", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "root"])
}

/// The edges between documents: (a, b).
async fn edges(cx: &StageContext<'_>) -> Result<DataFrame> {
    match cx.reference {
        None => Ok(cx.table(WorkTable::SCORES)?.select(vec![col("a"), col("b")])?),
        Some(known) => known.edges(cx, cx.job).await,
    }
}

impl Writes for Components {
    fn name(&self) -> Cow<'static, str> {
        "components".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "find which documents are connected by scores".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::COMPONENTS)
    }
}

#[async_trait]
impl Stage for Components {
    fn is_in(&self, _job: &Job) -> bool {
        true
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        if cx.is_done(self).await? {
            return cx.take_over(self).await;
        }
        let edges = edges(cx).await?;
        match union_find(cx, edges.clone()).await? {
            Some(found) => {
                let schema = WorkTable::COMPONENTS.schema(&cx.types);
                cx.run_here(self, found.rows(cx.session(), schema)?).await
            }
            None => {
                let (edges, bytes) = stars::rounds(cx, edges).await?;
                cx.run(self, bytes, vec![stars::components(edges)?]).await
            }
        }
    }
}
