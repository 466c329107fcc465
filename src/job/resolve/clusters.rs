//! `[clusters]`: which document of a cluster represents it.

use super::super::{Clusters, Preference, Source, file};
use super::wrong::{Checked, wrong};

pub(super) fn clusters_of(clusters: file::Clusters, source: &Source) -> Checked<Clusters> {
    const KEY: &str = "clusters.keep";
    let mut keep: Vec<Preference> = Vec::with_capacity(clusters.keep.len());
    for text in clusters.keep {
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
    Ok(Clusters { keep })
}
