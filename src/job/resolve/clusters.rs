//! `[clusters]` and `[alarms]`: what a cluster is, which document represents it, and how many the others may be.

use super::super::{Against, Alarms, ClusterMethod, Clusters, Per, Preference, Source, file};
use super::wrong::{Checked, wrong};

pub(super) fn clusters_of(
    clusters: file::Clusters,
    source: &Source,
    against: Option<&Against>,
) -> Checked<Clusters> {
    const KEY: &str = "clusters.keep";
    let file::Clusters { method, keep: wanted } = clusters;
    if method == ClusterMethod::Representative && against.is_some() {
        return wrong(
            "clusters.method",
            "is \"representative\", which chooses among all documents, and with [against] known ones keep their clusters: use \
             \"components\", or compare all documents in one run",
        );
    }
    let mut keep: Vec<Preference> = Vec::with_capacity(wanted.len());
    for text in wanted {
        let preference: Preference = match text.parse() {
            Ok(preference) => preference,
            Err(said) => return wrong(KEY, format!("{said}, and got {text:?}")),
        };
        let column = &preference.column;
        if column == "group" && source.group.is_none() && !source.columns.contains(column) {
            return wrong(KEY, "names `group`, and no document is of a group: set `source.group`");
        }
        if !Preference::OWN.contains(&column.as_str()) && !source.columns.contains(column) {
            return wrong(
                KEY,
                format!(
                    "names `{column}`, which documents do not carry: add it to `source.columns`, or name one of {}",
                    Preference::OWN.map(|own| format!("`{own}`")).join(", ")
                ),
            );
        }
        keep.push(preference);
    }
    Ok(Clusters { method, keep })
}

pub(super) fn alarms_of(alarms: file::Alarms, source: &Source) -> Checked<Alarms> {
    let file::Alarms { removed_share, largest_cluster, per, fail } = alarms;
    if let Some(share) = removed_share.filter(|share| !(0.0..=1.0).contains(share)) {
        return wrong("alarms.removed_share", format!("is {share}: expected a number from 0 to 1"));
    }
    if per == Some(Per::Group) && source.group.is_none() {
        return wrong("alarms.per", "is \"group\", and no document is of a group: set `source.group`");
    }
    Ok(Alarms { removed_share, largest_cluster, per, fail })
}
