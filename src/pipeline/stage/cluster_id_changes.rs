//! cluster_id_changes: the clusters of earlier runs whose id changed.

use super::clusters::changes;
use super::interface::{AnyTable, Error, Planned, Table, TableStage};

/// Writes which clusters of earlier runs have another id now.
pub(super) static CLUSTER_ID_CHANGES: TableStage = TableStage {
    table: AnyTable::Public(Table::ClusterIdChanges),
    what: "write which clusters of earlier runs have another id now",
    is_in: |job| job.continues_clusters(),
    plan: |cx| {
        Box::pin(async move {
            let founders = cx.founders()?.ok_or_else(|| Error::bug("the job has no earlier clusters"))?;
            let frame = changes(cx.table(Table::Clusters)?, founders)?;
            Ok(Planned::new(0, vec![frame]))
        })
    },
};
