//! The order in which documents represent clusters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What decides between two documents of a cluster. It is written alike in a job file and a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Preference {
    /// `reference`: reference documents come before new ones, in the order of their outputs. A document that one of these outputs
    /// removes comes behind the new ones. Of outputs that are merged, documents that these keep come first.
    Reference,
    /// `year desc`, `year asc`, `year`, or `shop in (north, south)`: by the values of a column.
    Column {
        /// A column that is carried, or a value that every document has, such as `length()`.
        column: String,
        /// Which of its values come first. Missing values come last.
        prefer: Prefer,
    },
}

/// Which values of a column come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prefer {
    /// Smaller ones.
    Least,
    /// Greater ones.
    Most,
    /// These, in this order, and then all others.
    In(Vec<String>),
}

impl Preference {
    /// The values that all documents have: the number of shingles, the group, the file, the place in it and the id. The brackets
    /// distinguish them from columns of the data, and may be left out for names that no column has.
    pub(crate) const OWN: [&str; 5] = [Self::LENGTH, Self::GROUP, Self::SOURCE, Self::POSITION, Self::ID];

    /// The order of commands without a job file, which `init` writes into job files.
    pub(crate) const LONGEST_FIRST: [&str; 2] = ["longest", "first"];

    /// The number of shingles.
    pub(crate) const LENGTH: &str = "length()";
    pub(crate) const GROUP: &str = "group()";
    pub(crate) const SOURCE: &str = "source()";
    pub(crate) const POSITION: &str = "position()";
    pub(crate) const ID: &str = "id()";

    const REFERENCE: [&str; 2] = ["reference", "reference()"];

    /// The value of all documents that a name without brackets may mean.
    pub(crate) fn own(name: &str) -> Option<&'static str> {
        Self::OWN.into_iter().find(|own| own.strip_suffix("()") == Some(name))
    }

    /// The column, unless its name may mean a value of all documents.
    pub(crate) fn column_of_data(self) -> Option<String> {
        match self {
            Self::Column { column, .. } => {
                (!Self::OWN.contains(&column.as_str()) && Self::own(&column).is_none()).then_some(column)
            }
            Self::Reference => None,
        }
    }

    /// The entries of a list that `text` means: the words `first`, `last` and `longest` are short for others.
    pub(crate) fn entries(text: &str) -> Vec<&str> {
        match text.trim() {
            "first" => vec!["source()", "position()"],
            "last" => vec!["source() desc", "position() desc"],
            "longest" => vec!["length() desc"],
            _ => vec![text],
        }
    }

    /// By length, the greatest first.
    pub(crate) fn longest() -> Self {
        Self::Column { column: Self::LENGTH.to_owned(), prefer: Prefer::Most }
    }
}

impl FromStr for Preference {
    /// The message about a wrong text.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let of = |column: &str, prefer| Ok(Self::Column { column: column.trim().to_owned(), prefer });
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

/// The order that is meant by one in the words of other programs: `date descending`, `date DESC`, `-date`, `newest date`.
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
    if others.is_empty() || matches!(*last, "desc" | "asc") {
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

impl TryFrom<String> for Preference {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Preference> for String {
    fn from(preference: Preference) -> Self {
        preference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_as_they_are_written() {
        for (text, shown) in [
            ("year desc", "year desc"),
            ("year", "year asc"),
            (" a column  asc ", "a column asc"),
            ("shop in (north,  south)", "shop in (north, south)"),
            ("shop in (one)", "shop in (one)"),
            (" reference", "reference"),
            ("reference()", "reference"),
            ("length()", "length() asc"),
            ("source() in (a.csv, b (1).csv)", "source() in (a.csv, b (1).csv)"),
            // A column of that name.
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
        for wrong in ["", "shop in ()", "shop (a)", "shop()", "shop in (a,,b)"] {
            assert!(wrong.parse::<Preference>().is_err(), "{wrong}");
        }
    }
}
