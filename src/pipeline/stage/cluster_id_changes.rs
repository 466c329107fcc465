//! cluster_id_changes: the clusters of earlier runs whose id changed.

use super::clusters::changes;
use super::interface::{AnyTable, Error, Planned, Stage, StagePlan, Table};

/// Writes which clusters of earlier runs have another id now.
pub(super) static CLUSTER_ID_CHANGES: Stage = Stage::new(
    AnyTable::Public(Table::ClusterIdChanges),
    |_| "write which clusters of earlier runs have another id now".into(),
    |job| job.continues_clusters(),
    StagePlan::Now(|cx| {
        let founders = cx.founders()?.ok_or_else(|| Error::bug("the job has no earlier clusters"))?;
        let frame = changes(cx.table(Table::Clusters)?, founders)?;
        Ok(Planned::new(0, vec![frame]))
    }),
);
