//! `[clusters]` and `[alarms]`: what a cluster is, which document represents it, and how many others there may be.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::preference::Preference;
use super::score::{Score, ScoreBy};
use super::source::Source;
use super::wrong::{Checked, require, wrong};

/// `[clusters]`: what a cluster is, and which of its documents represents it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clusters {
    /// What makes documents a cluster. `representative` (default): each is paired with the document that represents them.
    /// Documents are taken in the order of `keep`: each joins the first representative that it is paired with, or becomes one.
    /// `components`: pairs connect them, so that a chain of pairs may join documents which are not similar.
    pub method: ClusterMethod,
    /// The order in which documents represent clusters, by the first of these that differs between two documents: `"COLUMN"` or
    /// `"COLUMN asc"` (the smallest value first), `"COLUMN desc"`, or `"COLUMN in (A, B)"` (A before B before all others). A
    /// column is one of `source.columns`, or `length()` (the number of shingles), `group()`, `source()` (the file), `position()`
    /// (the row in the file) or `id()`, whose brackets may be left out if the data have no such column. `"longest"` is short for
    /// `"length() desc"`, `"first"` for `"source()", "position()"`, and `"last"` for both in descending order. Texts that are all
    /// numbers are compared as numbers. Missing values come last, and at last the smallest id decides. `"reference"` says where it
    /// counts that a document is a reference document; if no entry says it, it counts first. Default: `["reference", "length desc"]`.
    #[serde(deserialize_with = "entries")]
    #[schemars(with = "Vec<String>")]
    pub keep: Vec<Preference>,
    /// Similarities for which the table `cluster_levels` has clusters too: those of the pairs that are at least so similar. Each is
    /// at least `score.threshold`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<f64>,
    /// The least share of its shingles, over 0 and at most 1, that the representative of a removed document must have. A document
    /// that is not paired with the representative, or has a smaller share there, stays and is in the table `spared`. Default:
    /// every document but the representative is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contained: Option<f64>,
}

/// The preferences that a list of texts means.
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Preference>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let entries = texts.iter().flat_map(|text| Preference::entries(text));
    let wrong = |text, fault: String| de::Error::custom(format!("{fault}, and got {text:?}"));
    entries.map(|text| text.parse().map_err(|fault| wrong(text, fault))).collect()
}

impl Clusters {
    /// The order in effect. If `keep` does not name reference documents, they come first, and if it names no column,
    /// the documents with the most shingles come first among the others.
    pub fn order(&self) -> Vec<Preference> {
        let mut order = self.keep.clone();
        if !order.contains(&Preference::Reference) {
            order.insert(0, Preference::Reference);
        }
        if order.iter().all(|preference| *preference == Preference::Reference) {
            order.push(Preference::longest());
        }
        order
    }

    /// Checks the section, and sorts its thresholds.
    pub(super) fn checked(mut self, source: &Source, score: &Score) -> Checked<Self> {
        self.check_thresholds(score)?;
        if let Some(share) = self.contained {
            let fault = format!("is {share}: expected a number over 0 and at most 1");
            require(share > 0.0 && share <= 1.0, "clusters.contained", fault)?;
        }
        for preference in &self.keep {
            check_column(preference, source)?;
        }
        Ok(self)
    }

    fn check_thresholds(&mut self, score: &Score) -> Checked<()> {
        const KEY: &str = "clusters.thresholds";
        for at in &self.thresholds {
            let fault = format!(
                "has {at}: expected numbers from {} to 1, because less similar documents are not pairs (score.threshold)",
                score.threshold
            );
            require((score.threshold..=1.0).contains(at), KEY, fault)?;
        }
        require(
            self.thresholds.is_empty() || score.by != ScoreBy::Signature,
            KEY,
            "needs exact similarities, and `score.by` is \"signature\": expected \"shingles\"",
        )?;
        self.thresholds.sort_by(f64::total_cmp);
        let twice = self.thresholds.windows(2).find(|two| two[0] == two[1]);
        twice.map_or(Ok(()), |twice| wrong(KEY, format!("has {} twice", twice[0])))
    }
}

/// Checks that documents have the column of `preference`.
fn check_column(preference: &Preference, source: &Source) -> Checked<()> {
    const KEY: &str = "clusters.keep";
    let Preference::Column { column, .. } = preference else { return Ok(()) };
    let is_carried = source.columns.contains(column);
    require(
        is_carried || source.group.is_some() || !matches!(column.as_str(), "group" | Preference::GROUP),
        KEY,
        "names `group`, and no document has a group: set `source.group`",
    )?;
    require(
        is_carried || column != "known",
        KEY,
        "names `known`, and no column has this name: for reference documents, write `reference`",
    )?;
    require(
        is_carried || preference.clone().column_of_data().is_none(),
        KEY,
        format!(
            "names `{column}`, which documents do not carry: add it to `source.columns`, or name one of {}, `reference`",
            Preference::OWN.map(|own| format!("`{own}`")).join(", ")
        ),
    )
}

/// What makes documents a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterMethod {
    /// Each is paired with the one that represents them.
    #[default]
    #[value(help = "Each document is paired with the one that represents it")]
    Representative,
    /// Pairs connect them, so that two documents of a cluster need not be similar.
    #[value(help = "Pairs connect documents")]
    Components,
}

impl ClusterMethod {
    /// Whether every document of a component is in one cluster, for chains of pairs of any length.
    pub(crate) fn keeps_chains(self) -> bool {
        matches!(self, ClusterMethod::Components)
    }

    /// A description of its clusters.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            ClusterMethod::Components => "components: documents that pairs connect",
            ClusterMethod::Representative => {
                "representative: each document is paired with its representative"
            }
        }
    }
}

/// `[alarms]`: bounds that a person should check before duplicates are removed. Nothing here changes a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Alarms {
    /// The largest share of the documents that may be removed, in \[0, 1\]: all of a cluster but the one that represents it.
    /// Default: any.
    pub removed_share: Option<f64>,
    /// The largest number of documents of a cluster. Default: any.
    pub largest_cluster: Option<u64>,
    /// `group`: the bounds hold for each group by itself. Default: for all documents together.
    pub per: Option<Per>,
    /// Whether a run or `apply` that exceeds a bound ends with exit code 6 instead of a warning: `apply` before it writes anything.
    pub fail: bool,
}

impl Alarms {
    pub(super) fn check(&self, source: &Source) -> Checked<()> {
        if let Some(share) = self.removed_share {
            let fault = format!("is {share}: expected a number from 0 to 1");
            require((0.0..=1.0).contains(&share), "alarms.removed_share", fault)?;
        }
        require(
            self.per != Some(Per::Group) || source.group.is_some(),
            "alarms.per",
            "is \"group\", and no document has a group: set `source.group`",
        )
    }
}

/// What the bounds of alarms hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each group by itself.
    Group,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_documents_come_first_unless_keep_says_when() {
        for (keep, order) in [
            (&[][..], &["reference", "length() desc"][..]),
            (&["reference"], &["reference", "length() desc"]),
            (&["year desc"], &["reference", "year desc"]),
            (&["length", "reference"], &["length asc", "reference"]),
        ] {
            let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
            let clusters = Clusters { keep: parsed(keep), ..Clusters::default() };
            assert_eq!(clusters.order(), parsed(order), "{keep:?}");
        }
    }
}
