//! cluster_id_changes: the clusters of earlier runs whose id changed.

use super::clusters::changes;
use super::interface::{AnyTable, BoxFuture, Error, Job, OneTable, Result, Stage, StageContext, Table};

/// Writes which clusters of earlier runs have another id now.
pub(crate) struct ClusterIdChanges;

impl OneTable for ClusterIdChanges {
    const TABLE: AnyTable = AnyTable::Public(Table::ClusterIdChanges);
    const WHAT: &'static str = "write which clusters of earlier runs have another id now";
}

impl Stage for ClusterIdChanges {
    fn is_in(&self, job: &Job) -> bool {
        job.continues_clusters()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let founders = cx.founders()?.ok_or_else(|| Error::bug("the job has no earlier clusters"))?;
            let frame = changes(cx.table(Table::Clusters)?, founders)?;
            cx.run(self, 0, vec![frame]).await
        })
    }
}
