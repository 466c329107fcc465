//! HTML pages with charts and tables, which need no scripts, fonts or other files.

use askama::Template;

use super::chart::Chart;
use crate::error::counts::count;
use crate::error::{Error, Result};
use crate::job::{Job, Modulus, ScoreBy};

#[derive(Debug, Clone, PartialEq, Template)]
#[template(path = "page.html", config = "src/page/askama.toml")]
pub(crate) struct HtmlPage {
    pub title: String,
    pub intro: Vec<String>,
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Section {
    pub heading: String,
    pub text: Vec<String>,
    /// The charts, each above its caption.
    pub charts: Vec<Chart>,
    /// The tables, each below its caption.
    pub tables: Vec<HtmlTable>,
}

/// A table. Columns of numbers are aligned to the right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HtmlTable {
    pub caption: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The first bytes of every page that this program writes.
pub(crate) const HTML_MARK: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"generator\" content=\"resemblance\">\n";

pub(crate) fn html(page: &impl Template) -> Result<String> {
    page.render().map_err(|e| Error::bug("a page cannot be written").because(e))
}

impl HtmlTable {
    /// Whether a column contains only formatted numbers or `-`.
    fn is_numeric(&self, column: &usize) -> bool {
        let is_number = |cell: &String| cell == "-" || cell.replace(',', "").parse::<f64>().is_ok();
        let mut cells = self.rows.iter().filter_map(|row| row.get(*column)).filter(|cell| !cell.is_empty());
        !self.rows.is_empty() && cells.all(is_number)
    }
}

/// Returns the settings that affect the time or the pairs of a run.
pub(crate) fn job_settings(job: &Job) -> Vec<(&'static str, String)> {
    let steps: Vec<String> = job.shingle.normalize.iter().map(ToString::to_string).collect();
    let score = match job.score.by {
        ScoreBy::Shingles => format!("exact {} of the shingle sets", job.score.measure.title()),
        ScoreBy::Signature => "share of equal values in the signatures".to_owned(),
    };
    let family = key_value(&job.minhash.family);
    let family = match job.minhash.modulus {
        None => family,
        Some(Modulus::Is(modulus)) => format!("{family} mod {modulus}"),
        Some(Modulus::NextPrime) => format!("{family} mod the next prime"),
    };
    vec![
        ("source", job.source.urls.join(", ")),
        ("normalisation", if steps.is_empty() { "none".into() } else { steps.join(", ") }),
        ("shingles", shingle_name(job, job.shingle.size)),
        ("shingle hash", key_value(&job.shingle.hash)),
        ("permutations", format!("{}, seed {}", count(job.minhash.permutations as u64), job.minhash.seed)),
        ("bits of a signature value", u32::from(job.minhash.bits).to_string()),
        ("hash family", family),
        ("candidates", job.candidates.method.describe(&job.lsh)),
        ("score", score),
        ("threshold", job.score.threshold.to_string()),
        ("threads", job.engine.thread_count().to_string()),
        ("resemblance", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

pub(crate) fn settings_section(settings: Vec<(&'static str, String)>) -> Section {
    let table = HtmlTable {
        caption: "The settings of the job that affect these measurements.".into(),
        header: vec!["setting".into(), "value".into()],
        rows: settings.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    };
    Section { heading: "Settings".into(), tables: vec![table], ..Section::default() }
}

/// Returns a setting, which is a single word, as a job file spells it.
fn key_value(setting: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(setting).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the name of shingles with this size, such as `5-word shingles`.
pub(crate) fn shingle_name(job: &Job, size: usize) -> String {
    format!("{size}-{} shingles", job.shingle.unit.noun())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_the_measure() {
        let job = crate::job::with_keys("candidates.method = 'prefix'\nscore.measure = 'containment'");
        let score = ("score", "exact contained share of the shingle sets".to_owned());
        assert!(job_settings(&job).contains(&score));
    }

    #[test]
    fn columns_of_numbers_stand_to_the_right() {
        let rows = [["a", "1,000"], ["b", "-"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        let header = ["name", "count"].map(str::to_owned).to_vec();
        let tables = vec![HtmlTable { caption: "plain".into(), header, rows }];
        let section = Section { heading: "plain".into(), text: Vec::new(), charts: Vec::new(), tables };
        let page = HtmlPage { title: "plain".into(), intro: Vec::new(), sections: vec![section] };
        let html = html(&page).unwrap();
        assert!(html.contains("<th scope=\"col\" class=\"number\">count</th>"), "{html}");
        assert!(html.contains("<td>a</td><td class=\"number\">1,000</td>"), "{html}");
    }
}
