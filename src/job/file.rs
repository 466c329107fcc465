//! The job file: its sections and keys as they are written, with their defaults.
//!
//! Most sections of a [`Job`](super::Job) are those of its file. [`resolve()`](super::resolve()) makes the others of a `Section`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::against::AgainstSection;
use super::candidates::Candidates;
use super::clusters::{Alarms, Clusters};
use super::document::JobDocument;
use super::engine::Engine;
use super::format::FormatName;
use super::lsh::LshSection;
use super::minhash::MinhashSection;
use super::output::Output;
use super::passages::Passages;
use super::score::Score;
use super::shingle::ShingleSection;
use super::source::SourceSection;
use crate::error::Result;

/// Reads the job file `text`, with the overrides of `sets` (each `KEY=VALUE`) put over it.
///
/// KEY is dotted (`score.threshold`); VALUE is TOML, or else a plain string. `path` only names the file in messages.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the file, the line (or the override), the key, and what is allowed there.
pub fn read(text: &str, path: &str, sets: &[String]) -> Result<JobFile> {
    JobDocument::parse(text, path, sets)?.read()
}

/// A job file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The run's name in logs and in the manifest. Default: the job file's name without its ending.
    pub name: Option<String>,
    /// `[source]`: where the documents are. Required.
    pub source: SourceSection,
    /// `[shingle]`: how a text becomes a set of shingles. The source format `output` brings its own.
    pub shingle: Option<ShingleSection>,
    /// `[minhash]`: how a set of shingles becomes a signature. The source format `output` brings its own.
    pub minhash: Option<MinhashSection>,
    /// `[lsh]`: how a signature becomes buckets.
    #[serde(default)]
    pub lsh: LshSection,
    /// `[candidates]`: how candidates are found.
    #[serde(default)]
    pub candidates: Candidates,
    /// `[against]`: the reference documents, which those of the source are compared with.
    pub against: Option<AgainstSection>,
    /// `[score]`: what makes a candidate a pair.
    #[serde(default)]
    pub score: Score,
    /// `[clusters]`: what a cluster is, and which of its documents represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// `[passages]`: which passages are found that repeat inside documents.
    pub passages: Option<Passages>,
    /// `[alarms]`: bounds that a person should check before duplicates are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// `[output]`: where the tables go. Required.
    pub output: Output,
    /// `[engine]`: what runs the job; nothing here changes a row.
    #[serde(default)]
    pub engine: Engine,
}

impl JobFile {
    /// A job that reads `urls` and writes to `output`, with the default of every other key.
    pub(crate) fn new(format: FormatName, urls: Vec<String>, output: &str) -> Self {
        Self {
            name: None,
            source: SourceSection::new(format, urls),
            shingle: None,
            minhash: None,
            lsh: LshSection::default(),
            candidates: Candidates::default(),
            against: None,
            score: Score::default(),
            clusters: Clusters::default(),
            passages: None,
            alarms: Alarms::default(),
            output: Output::at(output),
            engine: Engine::default(),
        }
    }
}
