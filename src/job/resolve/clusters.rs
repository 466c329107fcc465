//! `[clusters]` and `[alarms]`: what a cluster is, which document represents it, and how many others there may be.

use super::super::{Alarms, Clusters, Per, Preference, Score, ScoreBy, Source, file};
use super::wrong::{Checked, wrong};

pub(super) fn clusters_of(clusters: file::Clusters, source: &Source, score: &Score) -> Checked<Clusters> {
    const KEY: &str = "clusters.keep";
    let file::Clusters { method, keep: wanted, thresholds, contained } = clusters;
    let thresholds = thresholds_of(thresholds, score)?;
    if let Some(share) = contained.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
        return wrong("clusters.contained", format!("is {share}: expected a number over 0 and at most 1"));
    }
    let mut keep: Vec<Preference> = Vec::with_capacity(wanted.len());
    for text in wanted.iter().flat_map(|text| Preference::entries(text)) {
        let preference: Preference = match text.parse() {
            Ok(preference) => preference,
            Err(fault) => return wrong(KEY, format!("{fault}, and got {text:?}")),
        };
        let Preference::Column { column, .. } = &preference else {
            keep.push(preference);
            continue;
        };
        if matches!(column.as_str(), "group" | Preference::GROUP)
            && source.group.is_none()
            && !source.columns.contains(column)
        {
            return wrong(KEY, "names `group`, and no document has a group: set `source.group`");
        }
        if column == "known" && !source.columns.contains(column) {
            return wrong(
                KEY,
                "names `known`, and no column has this name: for reference documents, write `reference`",
            );
        }
        let own_column = preference.clone().column_of_data();
        if let Some(column) = own_column.filter(|column| !source.columns.contains(column)) {
            return wrong(
                KEY,
                format!(
                    "names `{column}`, which documents do not carry: add it to `source.columns`, or name one of {}, `reference`",
                    Preference::OWN.map(|own| format!("`{own}`")).join(", ")
                ),
            );
        }
        keep.push(preference);
    }
    Ok(Clusters { method, keep, thresholds, contained })
}

/// The thresholds in ascending order.
fn thresholds_of(mut thresholds: Vec<f64>, score: &Score) -> Checked<Vec<f64>> {
    const KEY: &str = "clusters.thresholds";
    if let Some(wrong_one) = thresholds.iter().find(|at| !(score.threshold..=1.0).contains(*at)) {
        return wrong(
            KEY,
            format!(
                "has {wrong_one}: expected numbers from {} to 1, because less similar documents are not pairs (score.threshold)",
                score.threshold
            ),
        );
    }
    if !thresholds.is_empty() && score.by == ScoreBy::Signature {
        return wrong(
            KEY,
            "needs exact similarities, and `score.by` is \"signature\": expected \"shingles\"",
        );
    }
    thresholds.sort_by(f64::total_cmp);
    match thresholds.windows(2).find(|two| two[0] == two[1]) {
        Some(twice) => wrong(KEY, format!("has {} twice", twice[0])),
        None => Ok(thresholds),
    }
}

pub(super) fn check_alarms(alarms: &Alarms, source: &Source) -> Checked<()> {
    if let Some(share) = alarms.removed_share.filter(|share| !(0.0..=1.0).contains(share)) {
        return wrong("alarms.removed_share", format!("is {share}: expected a number from 0 to 1"));
    }
    if alarms.per == Some(Per::Group) && source.group.is_none() {
        return wrong("alarms.per", "is \"group\", and no document has a group: set `source.group`");
    }
    Ok(())
}
