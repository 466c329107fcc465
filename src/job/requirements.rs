//! `alarms.require` and `apply --require`: the figures of an output that must be proven before documents are removed.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::share;

/// A figure of an output that a requirement bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The share of the true pairs that are in the output. At least the bound.
    Recall,
    /// The share of pairs in the output that are true. At least the bound.
    Precision,
    /// The share of removed documents that lose more than 2 % of their shingles. At most the bound.
    Lossy,
    /// The share of compared documents that are removed. At most the bound.
    Removed,
}

impl Figure {
    const ALL: [Self; 4] = [Self::Recall, Self::Precision, Self::Lossy, Self::Removed];

    fn name(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::Precision => "precision",
            Self::Lossy => "lossy",
            Self::Removed => "removed",
        }
    }

    /// Whether the figure must be at least its bound. The other figures must be at most their bounds.
    pub fn is_minimum(self) -> bool {
        matches!(self, Self::Recall | Self::Precision)
    }
}

/// Writes the figure and its sign, as in `recall>=`.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name(), if self.is_minimum() { ">=" } else { "<=" })
    }
}

/// The bounds of the figures that must be proven, each in \[0, 1\], in the order of [`Figure`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Requirements([Option<f64>; Figure::ALL.len()]);

impl Requirements {
    /// Returns the required figures and their bounds.
    pub fn bounds(self) -> impl Iterator<Item = (Figure, f64)> {
        Figure::ALL.into_iter().zip(self.0).filter_map(|(figure, bound)| Some((figure, bound?)))
    }
}

impl FromStr for Requirements {
    /// The message about invalid text.
    type Err = String;

    /// Parses `recall>=0.95, lossy<=0.02`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut requirements = Self::default();
        for rule in text.split(',') {
            let rule: String = rule.split_whitespace().collect();
            let parts = Figure::ALL.map(|figure| Some((figure, rule.strip_prefix(&figure.to_string())?)));
            let parts =
                parts.into_iter().flatten().find_map(|(figure, bound)| Some((figure, share(bound).ok()?)));
            let Some((figure, bound)) = parts else {
                return Err(format!(
                    "expected shares from 0 to 1, as in \"recall>=0.95, precision>=0.9, lossy<=0.02, removed<=0.3\", and {rule:?} is none"
                ));
            };
            if requirements.0[figure as usize].replace(bound).is_some() {
                return Err(format!("requires `{}` twice", figure.name()));
            }
        }
        Ok(requirements)
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> = self.bounds().map(|(figure, bound)| format!("{figure}{bound}")).collect();
        f.write_str(&rules.join(","))
    }
}

impl Serialize for Requirements {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_bounds_of_figures() {
        let parsed: Requirements = "removed <= 0.3, recall>=0.95".parse().unwrap();
        assert_eq!(parsed.to_string(), "recall>=0.95,removed<=0.3");
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
        let bounds: Vec<_> = parsed.bounds().collect();
        assert_eq!(bounds, [(Figure::Recall, 0.95), (Figure::Removed, 0.3)]);
        for text in [
            "",
            "recall",
            "recall<=0.9",
            "recall>=1.1",
            "recall>=",
            "lossy>=0.1",
            "recall>=0.9,",
            "found>=0.1",
        ] {
            assert!(text.parse::<Requirements>().unwrap_err().contains("as in"), "{text}");
        }
        assert!("lossy<=0.1,lossy<=0.2".parse::<Requirements>().unwrap_err().contains("twice"));
    }
}
