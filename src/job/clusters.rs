//! `[clusters]` and `[alarms]`: the clusters, their representatives, and limits on removals and cluster sizes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::requirements::Requirements;
use super::score::{Score, ScoreBy};
use super::source::Source;
use super::values::{Checked, require, wrong};

/// `[clusters]`: the definition of a cluster, and the document that represents it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clusters {
    /// The definition of a cluster. With `representative` (default), each document is paired with the representative of its cluster.
    /// Documents are processed in the order of `keep`: each document joins the first representative with which it is paired, or becomes a
    /// representative. With `components`, pairs connect the documents, so a chain of pairs may join documents that are not similar.
    pub method: ClusterMethod,
    /// The order in which documents become representatives. The first entry that differs between two documents decides: `"COLUMN"` or
    /// `"COLUMN asc"` (smallest value first), `"COLUMN desc"`, or `"COLUMN in (A, B)"` (A before B before all others). A column is one of
    /// `source.columns`, or `length()` (the number of shingles), `group()`, `source()` (the file), `position()` (the row in the file) or
    /// `id()`. The brackets may be omitted if the data has no column with this name. `"longest"` means `"length() desc"`, `"first"` means
    /// `"source()", "position()"`, and `"last"` means both in descending order. Strings of digits are compared as numbers. Missing values
    /// come last. The smallest id breaks remaining ties. `"reference"` ranks reference documents before new documents; without this entry,
    /// reference documents come first. Default: `["reference", "length desc"]`.
    #[serde(deserialize_with = "entries")]
    #[schemars(with = "Vec<String>")]
    pub keep: Vec<Preference>,
    /// Higher similarities for which the table `cluster_levels` also contains clusters. Each level uses only pairs with at least this
    /// similarity. Each value is at least `score.threshold`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<f64>,
    /// The minimum share of a removed document's shingles that its representative must contain, greater than 0 and at most 1. A document
    /// with a smaller share, or without a pair with the representative, is kept and listed in the table `spared`. Default: every document
    /// except the representative is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contained: Option<f64>,
    /// A CSV or Parquet file of decisions, with the columns `id_a`, `id_b` and `verdict`. A pair that is `different` joins no documents,
    /// and neither document is removed because of the other. Two documents that are the `same` are in one cluster whatever their
    /// similarity. A row without a verdict, or with `unsure`, is no decision. The decisions of the outputs in `against.output` also apply,
    /// except for pairs that the file names; with `"against"`, only they apply. Default: `"against"` if these outputs have decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<String>,
}

/// Parses the entries of `keep`. Some words, such as `first`, stand for several entries.
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Preference>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let entries = texts.iter().flat_map(|text| Preference::entries(text));
    let wrong = |text, fault: String| de::Error::custom(format!("{fault}, and got {text:?}"));
    entries.map(|text| text.parse().map_err(|fault| wrong(text, fault))).collect()
}

impl Clusters {
    /// The value of `decisions` if only the decisions of earlier outputs apply.
    pub(crate) const EARLIER: &'static str = "against";

    /// Returns whether documents can be kept besides the representatives, in the table `spared`.
    pub(crate) fn spares(&self) -> bool {
        self.contained.is_some() || self.decisions.is_some()
    }

    /// Returns the order with the default entries. Reference documents come first, unless `keep` has an entry for them. Documents with
    /// more shingles come next, unless an entry names a column.
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

/// The definition of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterMethod {
    /// Each document is paired with the representative of its cluster.
    #[default]
    #[value(help = "Each document is paired with the one that represents it")]
    Representative,
    /// Pairs connect the documents, so two documents in a cluster need not be similar.
    #[value(help = "Pairs connect documents")]
    Components,
}

impl ClusterMethod {
    /// Returns whether each component is one cluster, represented by the first document of the component.
    pub(crate) fn keeps_components_whole(self) -> bool {
        match self {
            ClusterMethod::Components => true,
            ClusterMethod::Representative => false,
        }
    }

    /// Returns whether a document can join a cluster without a pair with its representative.
    pub(crate) fn joins_unpaired(self) -> bool {
        match self {
            ClusterMethod::Components => true,
            ClusterMethod::Representative => false,
        }
    }

    /// Returns whether the method finds the weakest link between a document and its representative, for the column `weakest_link`.
    pub(crate) fn has_weakest_links(self) -> bool {
        match self {
            ClusterMethod::Components => true,
            ClusterMethod::Representative => false,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            ClusterMethod::Components => "components: documents that pairs connect",
            ClusterMethod::Representative => {
                "representative: each document is paired with its representative"
            }
        }
    }

    pub(crate) fn describe_search(self) -> &'static str {
        match self {
            ClusterMethod::Components => "find how well documents are connected with the first one",
            ClusterMethod::Representative => {
                "let each document join the first representative that it is paired with"
            }
        }
    }
}

/// Writes the name in job files.
impl fmt::Display for ClusterMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// `[alarms]`: limits after which a person should check the result before duplicates are removed. They change no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Alarms {
    /// The maximum share of documents that may be removed, in \[0, 1\]. Removed documents are all documents in a cluster except its
    /// representative. Default: no limit.
    pub removed_share: Option<f64>,
    /// The maximum number of documents in a cluster. Default: no limit.
    pub largest_cluster: Option<u64>,
    /// The minimum number of compared documents, in all groups together. Default: no limit.
    pub min_documents: Option<u64>,
    /// The maximum share of read documents that may be rejected, in \[0, 1\], in all groups together. Default: no limit.
    pub max_rejected_share: Option<f64>,
    /// Figures that must be proven before `apply` removes documents, as in `recall>=0.95,lossy<=0.02`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub require: Option<Requirements>,
    /// `group`: the limits on removals and clusters apply to each group. Default: they apply to all documents together.
    pub per: Option<Per>,
    /// Whether an exceeded limit ends a run or `apply` with exit code 6 instead of a warning. `apply` then writes nothing.
    pub fail: bool,
}

impl Alarms {
    pub(crate) fn has_bounds(&self) -> bool {
        Self { require: None, per: None, fail: false, ..*self } != Self::default()
    }

    pub(super) fn check(&self, source: &Source) -> Checked<()> {
        for (key, share) in [
            ("alarms.removed_share", self.removed_share),
            ("alarms.max_rejected_share", self.max_rejected_share),
        ] {
            let share = share.unwrap_or_default();
            let fault = format!("is {share}: expected a number from 0 to 1");
            require((0.0..=1.0).contains(&share), key, fault)?;
        }
        require(
            self.per != Some(Per::Group) || source.group.is_some(),
            "alarms.per",
            "is \"group\", and no document has a group: set `source.group`",
        )
    }
}

/// The scope of the limits in `[alarms]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each group.
    Group,
}

/// An entry of the order in which documents become representatives. Job files and manifests write it in the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preference {
    /// `reference`: reference documents come before new documents, in the order of their outputs. Reference documents that were removed in
    /// their output come after new documents. In a merge, documents that were kept in the merged outputs come first.
    Reference,
    /// `year desc`, `year asc`, `year`, or `shop in (north, south)`: the order by the values of a column.
    Column {
        /// A carried column, or a value that is defined for every document, such as `length()`.
        column: String,
        /// The values that come first. Missing values come last.
        prefer: Prefer,
    },
}

/// The values of a column that come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prefer {
    /// Smaller values come first.
    Least,
    /// Greater values come first.
    Most,
    /// These values come first, in this order, before all other values.
    In(Vec<String>),
}

impl Preference {
    /// The values that every document has: the number of shingles, the group, the file, the position in the file, and the id. Their
    /// brackets distinguish them from columns, and may be omitted if no column has the same name.
    pub(crate) const OWN: [&str; 5] = [Self::LENGTH, Self::GROUP, Self::SOURCE, Self::POSITION, Self::ID];

    /// The order for commands without a job file, which `init` writes into job files.
    pub(crate) const LONGEST_FIRST: [&str; 2] = ["longest", "first"];

    pub(crate) const LENGTH: &str = "length()";
    pub(crate) const GROUP: &str = "group()";
    pub(crate) const SOURCE: &str = "source()";
    pub(crate) const POSITION: &str = "position()";
    pub(crate) const ID: &str = "id()";

    const REFERENCE: [&str; 2] = ["reference", "reference()"];

    /// Returns the entry of [`Self::OWN`] for `name` without brackets, if there is one.
    pub(crate) fn own(name: &str) -> Option<&'static str> {
        Self::OWN.into_iter().find(|own| own.strip_suffix("()") == Some(name))
    }

    /// Returns the column of the entry, unless it is in [`Self::OWN`], with or without brackets.
    pub(crate) fn column_of_data(self) -> Option<String> {
        match self {
            Self::Column { column, .. } => {
                (!Self::OWN.contains(&column.as_str()) && Self::own(&column).is_none()).then_some(column)
            }
            Self::Reference => None,
        }
    }

    /// Returns the entries for which `text` stands. `first`, `last` and `longest` are short forms of other entries.
    pub(crate) fn entries(text: &str) -> Vec<&str> {
        match text.trim() {
            "first" => vec!["source()", "position()"],
            "last" => vec!["source() desc", "position() desc"],
            "longest" => vec!["length() desc"],
            _ => vec![text],
        }
    }

    /// Returns the entry that ranks the longest document first.
    pub(crate) fn longest() -> Self {
        Self::Column { column: Self::LENGTH.to_owned(), prefer: Prefer::Most }
    }
}

impl FromStr for Preference {
    /// The message about an invalid entry.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let of = |column: &str, prefer| {
            let name = column.trim();
            let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
            Ok(Self::Column { column: bare.to_owned(), prefer })
        };
        if Self::REFERENCE.contains(&text) {
            return Ok(Self::Reference);
        }
        if let Some(listed) = text.strip_suffix(')').filter(|_| !Self::OWN.contains(&text)) {
            let Some((column, values)) = listed.split_once(" in (") else {
                return Err("has a `)` and no ` in (`: expected \"COLUMN in (A, B)\"".into());
            };
            let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
            if values.iter().any(String::is_empty) {
                return Err("has an empty value: expected \"COLUMN in (A, B)\"".into());
            }
            if values.iter().any(|value| {
                value.len() > 1 && value.starts_with(['\'', '"']) && value.ends_with(['\'', '"'])
            }) {
                return Err("has quotes around a value: write \"COLUMN in (A, B)\" without them".into());
            }
            return of(column, Prefer::In(values));
        }
        if let Some(order) = other_order(text) {
            return Err(format!("is an order in the words of another program: write {order:?}"));
        }
        match text.rsplit_once(' ') {
            Some((column, "desc")) => of(column, Prefer::Most),
            Some((column, "asc")) => of(column, Prefer::Least),
            _ if text.is_empty() => Err("is empty: expected a column".into()),
            _ => of(text, Prefer::Least),
        }
    }
}

/// Returns the correct form of an order in the syntax of another program: `date descending`, `date DESC`, `-date`, `newest date`.
fn other_order(text: &str) -> Option<String> {
    if let Some(column) = text.strip_prefix('-').filter(|column| !column.is_empty()) {
        return Some(format!("{column} desc"));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let [others @ .., last] = words.as_slice() else { return None };
    let [first, rest @ ..] = words.as_slice() else { return None };
    let of = |word: &str| match word.to_lowercase().as_str() {
        "descending" | "desc" | "desc." | "newest" | "latest" | "largest" | "longest" | "highest"
        | "last" => Some("desc"),
        "ascending" | "asc" | "asc." | "oldest" | "earliest" | "smallest" | "shortest" | "lowest"
        | "first" => Some("asc"),
        _ => None,
    };
    if matches!(others, [] | [.., "desc" | "asc"]) || matches!(*last, "desc" | "asc") {
        return None;
    }
    match (of(last), of(first)) {
        (Some(order), _) => Some(format!("{} {order}", others.join(" "))),
        (None, Some(order)) if words.len() == 2 => Some(format!("{} {order}", rest.join(" "))),
        _ => None,
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference => f.write_str("reference"),
            Self::Column { column, prefer: Prefer::Least } => write!(f, "{column} asc"),
            Self::Column { column, prefer: Prefer::Most } => write!(f, "{column} desc"),
            Self::Column { column, prefer: Prefer::In(values) } => {
                write!(f, "{column} in ({})", values.join(", "))
            }
        }
    }
}

impl Serialize for Preference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Preference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
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

    #[test]
    fn preferences_are_read_as_they_are_written() {
        for (text, shown) in [
            ("year desc", "year desc"),
            ("year", "year asc"),
            (" a column  asc ", "a column asc"),
            ("shop in (north,  south)", "shop in (north, south)"),
            ("shop in (one)", "shop in (one)"),
            ("\"a, b\" desc", "a, b desc"),
            (" reference", "reference"),
            ("reference()", "reference"),
            ("length()", "length() asc"),
            ("source() in (a.csv, b (1).csv)", "source() in (a.csv, b (1).csv)"),
            // A column with the name `reference`.
            ("reference asc", "reference asc"),
        ] {
            let preference: Preference = text.parse().unwrap();
            assert_eq!(preference.to_string(), shown);
            assert_eq!(shown.parse(), Ok(preference));
        }
        for (text, meant) in [
            ("date descending", "date desc"),
            ("date DESC", "date desc"),
            ("date Ascending", "date asc"),
            ("-date", "date desc"),
            ("newest date", "date desc"),
            ("a column oldest", "a column asc"),
        ] {
            let said = text.parse::<Preference>().unwrap_err();
            assert!(said.ends_with(&format!("write {meant:?}")), "{said}");
        }
        for wrong in
            ["", "shop in ()", "shop (a)", "shop()", "shop in (a,,b)", "shop in ('a')", "shop in (a, \"b\")"]
        {
            assert!(wrong.parse::<Preference>().is_err(), "{wrong}");
        }
    }
}
