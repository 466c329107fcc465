//! The order in which documents represent clusters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A column, and which of its values come first: written as `year desc`, `year asc`, `year`, or `shop in (north, south)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preference {
    /// A column that is carried, or `length`, `group`, `source` or `id`.
    pub column: String,
    /// Which values come first. Missing values come last.
    pub prefer: Prefer,
}

/// Which values of a column come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// Smaller ones.
    Least,
    /// Greater ones.
    Most,
    /// These, in this order, and then all others.
    In(Vec<String>),
}

impl Preference {
    /// The columns that all documents have: the number of shingles, the group, the file and the id.
    pub(crate) const OWN: [&str; 4] = ["length", "group", "source", "id"];
}

impl FromStr for Preference {
    /// What is wrong with it.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let of = |column: &str, prefer| Ok(Self { column: column.trim().to_owned(), prefer });
        if let Some(listed) = text.strip_suffix(')') {
            let Some((column, values)) = listed.split_once(" in (") else {
                return Err("has a `)` and no ` in (`: expected \"COLUMN in (A, B)\"".into());
            };
            let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
            if values.iter().any(String::is_empty) {
                return Err("has an empty value: expected \"COLUMN in (A, B)\"".into());
            }
            return of(column, Prefer::In(values));
        }
        match text.rsplit_once(' ') {
            Some((column, "desc")) => of(column, Prefer::Most),
            Some((column, "asc")) => of(column, Prefer::Least),
            _ if text.is_empty() => Err("is empty: expected a column".into()),
            _ => of(text, Prefer::Least),
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, prefer } = self;
        match prefer {
            Prefer::Least => write!(f, "{column} asc"),
            Prefer::Most => write!(f, "{column} desc"),
            Prefer::In(values) => write!(f, "{column} in ({})", values.join(", ")),
        }
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
        ] {
            let preference: Preference = text.parse().unwrap();
            assert_eq!(preference.to_string(), shown);
            assert_eq!(shown.parse(), Ok(preference));
        }
        for wrong in ["", "shop in ()", "shop (a)", "shop in (a,,b)"] {
            assert!(wrong.parse::<Preference>().is_err(), "{wrong}");
        }
    }
}
