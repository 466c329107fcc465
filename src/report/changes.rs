use datafusion::prelude::SessionContext;

use super::numbers::{settings, similarities};
use super::view::{Before, Change, ComparedOutputs};
use crate::address::masked;
use crate::apply::decisions;
use crate::error::Result;
use crate::lookup::Finished;
use crate::lookup::rows::query;
use crate::output::Stored;
use crate::schema::Table;

/// Returns the query that counts the documents of `table` in only one of the two outputs. Ids are compared as text, since their types can
/// differ.
fn documents(table: &str) -> String {
    format!(
        "SELECT count(*) FILTER (WHERE b.id IS NULL) AS new, count(*) FILTER (WHERE n.id IS NULL) AS gone, CAST(NULL AS BIGINT) AS changed
        FROM (SELECT arrow_cast(id, 'Utf8') AS id FROM {table}) n
        FULL JOIN (SELECT arrow_cast(id, 'Utf8') AS id FROM before_{table}) b ON n.id = b.id"
    )
}

const PAIRS: &str = "
    SELECT count(*) FILTER (WHERE b.a IS NULL) AS new, count(*) FILTER (WHERE n.a IS NULL) AS gone,
        count(*) FILTER (WHERE n.jaccard <> b.jaccard) AS changed
    FROM (SELECT arrow_cast(id_a, 'Utf8') AS a, arrow_cast(id_b, 'Utf8') AS b, reference_b AS r, jaccard FROM pairs) n
    FULL JOIN (SELECT arrow_cast(id_a, 'Utf8') AS a, arrow_cast(id_b, 'Utf8') AS b, reference_b AS r, jaccard FROM before_pairs) b
    ON n.a = b.a AND n.b = b.b AND n.r = b.r";

/// Counts new, gone and changed clusters. A new cluster has no document that was in a cluster before, and a gone cluster has none that is
/// in a cluster now. Any other cluster is changed unless a cluster of the earlier output has exactly its documents.
const CLUSTERS: &str = "
    WITH n AS (SELECT arrow_cast(id, 'Utf8') AS id, reference AS r, arrow_cast(cluster_id, 'Utf8') AS c, size FROM clusters),
        b AS (SELECT arrow_cast(id, 'Utf8') AS id, reference AS r, arrow_cast(cluster_id, 'Utf8') AS c, size FROM before_clusters),
        both_have AS (SELECT n.c AS nc, b.c AS bc, count(*) AS common, max(n.size) AS ns, max(b.size) AS bs
            FROM n JOIN b ON n.id = b.id AND n.r = b.r GROUP BY n.c, b.c)
    SELECT (SELECT count(DISTINCT c) FROM n) - (SELECT count(DISTINCT nc) FROM both_have) AS new,
        (SELECT count(DISTINCT c) FROM b) - (SELECT count(DISTINCT bc) FROM both_have) AS gone,
        (SELECT count(DISTINCT nc) FROM both_have) - (SELECT count(*) FROM both_have WHERE common = ns AND common = bs) AS changed";

/// Compares `finished` with the finished output at `url`. The session has the tables of `finished` and the view `removals`.
pub(super) async fn compare(
    session: &SessionContext,
    finished: &Finished,
    url: &str,
    per_unit: u32,
) -> Result<Before> {
    let before = Stored::open(session, url).await?;
    for table in [Table::Documents, Table::Pairs, Table::Clusters] {
        let rows = before.table(table)?;
        session.register_table(format!("before_{table}"), rows.into_view())?;
    }
    let removals = decisions::removed(&before, None, None, None)?;
    session.register_table("before_removals", removals.into_view())?;
    let mut compared = Vec::new();
    for (what, sql) in [
        ("documents", documents("documents")),
        ("pairs", PAIRS.to_owned()),
        ("clusters", CLUSTERS.to_owned()),
        ("removals", documents("removals")),
    ] {
        let rows: Vec<ComparedOutputs> = query(session, &sql).await?;
        compared.extend(rows.into_iter().map(|row| ComparedOutputs { what: what.to_owned(), ..row }));
    }
    let (now, then) = (&finished.manifest().counts, &before.manifest().counts);
    let counts = [
        ("documents", then.documents, now.documents),
        ("rejected documents", then.rejects, now.rejects),
        ("pairs", then.pairs, now.pairs),
        ("clusters", then.clusters, now.clusters),
        ("documents in clusters", then.clustered_documents, now.clustered_documents),
        ("removals", then.removed_documents, now.removed_documents),
    ];
    let counts = counts.map(|(name, before, now)| Change { name: name.to_owned(), before, now });
    let then = settings(before.job());
    let changes = settings(finished.job()).into_iter().filter_map(|now| {
        let then = then.iter().find(|then| then.name == now.name && then.value != now.value)?;
        Some(Change { name: now.name, before: then.value.clone(), now: now.value })
    });
    Ok(Before {
        output: masked(url),
        counts: counts.into(),
        compared,
        similarities: similarities(session, "before_pairs", per_unit).await?,
        settings: changes.collect(),
    })
}
