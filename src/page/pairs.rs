//! A page of pairs with their texts side by side, to read, print or mail.

use askama::Template;

use super::side_by_side::Side;
use super::text::PageWords;

/// The first characters of every page of pairs.
pub(crate) const PAIRS_MARK: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"generator\" content=\"resemblance pairs\">";

#[derive(Debug, Clone, PartialEq, Template)]
#[template(path = "pairs.html", config = "src/page/askama.toml")]
pub(crate) struct PairsPage {
    /// The name of the compared data.
    pub dataset: String,
    pub intro: Vec<String>,
    pub pairs: Vec<PairOnPairsPage>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairOnPairsPage {
    /// The name and the value of the similarity by which the pairs are sorted.
    pub listed: String,
    /// The Jaccard similarity.
    pub jaccard: f64,
    /// The share of each document that the other one contains.
    pub containment: [f64; 2],
    pub sides: [Side; 2],
}

impl PageWords for PairsPage {}

impl PairsPage {
    /// Formats a share as a whole percentage. Only a share of exactly 0 or 1 becomes 0 % or 100 %.
    fn whole_percent(&self, share: &f64) -> String {
        match (100.0 * share).round() {
            0.0 if *share > 0.0 => "less than 1 %".into(),
            100.0 if *share < 1.0 => "more than 99 %".into(),
            percent => format!("{percent} %"),
        }
    }
}
