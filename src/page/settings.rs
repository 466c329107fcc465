//! The section on the job's settings in every page.

use super::text::{count, decimal};
use super::{HtmlTable, Section};
use crate::job::{Job, Minhash, Modulus, ScoreBy};

/// The settings that determine times and pairs.
pub(crate) fn section(job: &Job) -> Section {
    let steps: Vec<String> = job.shingle.normalize.iter().map(ToString::to_string).collect();
    let score = match job.score.by {
        ScoreBy::Shingles => "exact Jaccard similarity of the shingle sets",
        ScoreBy::Signature => "share of equal values in the signatures",
    };
    let rows = [
        ("source", job.source.urls.join(", ")),
        ("normalisation", if steps.is_empty() { "none".into() } else { steps.join(", ") }),
        ("shingles", shingles(job, job.shingle.size)),
        ("shingle hash", plain(&job.shingle.hash)),
        ("permutations", format!("{}, seed {}", count(job.minhash.permutations as u64), job.minhash.seed)),
        ("bits of a signature value", u32::from(job.minhash.bits).to_string()),
        ("hash family", family(&job.minhash)),
        ("candidates", job.candidates.method.describe(&job.lsh)),
        ("score", score.to_owned()),
        ("threshold", job.score.threshold.to_string()),
        ("threads", job.engine.thread_count().to_string()),
        ("resemblance", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let table = HtmlTable {
        caption: "The settings of the job that affect these measurements.".into(),
        header: vec!["setting".into(), "value".into()],
        rows: rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    };
    Section { heading: "Settings".into(), tables: vec![table], ..Section::default() }
}

/// `linear mod 2147483647`.
fn family(minhash: &Minhash) -> String {
    let family = plain(&minhash.family);
    match minhash.modulus {
        None => family,
        Some(Modulus::Is(modulus)) => format!("{family} mod {modulus}"),
        Some(Modulus::NextPrime) => format!("{family} mod the next prime"),
    }
}

/// A setting of one word, as in the manifest.
fn plain(setting: &impl serde::Serialize) -> String {
    match serde_json::to_value(setting) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(value) => value.to_string(),
        // Settings are plain data, which can always be serialised.
        Err(_) => String::new(),
    }
}

/// `5-word shingles`.
pub(crate) fn shingles(job: &Job, size: usize) -> String {
    format!("{size}-{} shingles", job.shingle.unit.noun())
}

/// Seconds, to the millisecond.
pub(crate) fn seconds(seconds: f64) -> String {
    decimal(seconds, 3)
}

/// A fragment as a sentence.
pub(crate) fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
