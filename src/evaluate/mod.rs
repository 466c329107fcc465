//! What a finished output missed: measured on a sample, by an exact search.
//!
//! - `sets`: the shingle sets of the output; `draw`: draws a sample of them, in strata.
//! - `partners`: compares all documents with the sample by their texts, and does not use the candidates of the run. For most
//!   documents, the beginning of the text shows that they share too few shingles with every drawn set (`index`).
//! - `found`: the pairs of the sample that the output has. A pair that only the search finds is missed.
//! - `stay`: which documents of these pairs are kept.
//! - `interval`: estimates with intervals; `summary`: the numbers of the evaluation. Found pairs are counted, missed pairs
//!   estimated.
//! - `truth`: compares the output with known pairs or clusters.

mod draw;
mod found;
mod index;
pub(crate) mod interval;
mod partners;
mod sets;
mod stay;
mod summary;
mod truth;

use std::sync::Arc;

use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::job::{Job, Method, ScoreBy};
use crate::output::Stored;
pub use interval::Estimate;
use sets::Sets;
use summary::Seen;
pub use summary::{Bias, Evaluation, Recall, RecallAt};
pub use truth::Agreement;

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many shingle sets, about.
    pub sample: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// A file of known pairs or clusters.
    pub truth: Option<String>,
}

/// Measures on a sample what the finished output at `url` has missed.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the output was made against others, or keeps too little;
/// [`Kind::Input`](crate::error::Kind::Input) where it, or its source, is gone or has changed.
pub async fn evaluate(session: &SessionContext, url: &str, settings: &Settings) -> Result<Evaluation> {
    let stored = Stored::open(session, url).await?;
    refuse(stored.job(), url)?;
    let sets = Arc::new(Sets::read(&stored, settings.memory).await?);
    let draw = draw::draw(&sets, settings.sample, settings.seed);
    let drawn: Vec<u32> = draw.drawn.iter().map(|drawn| drawn.set).collect();
    let found = found::found(&stored, &sets, &drawn);
    let partners = partners::partners(&stored, &sets, &drawn);
    let (found, partners) = tokio::try_join!(found, partners)?;
    let stay = stay::stay(&stored, &sets, &partners).await?;
    let evaluation = summary::summary(&stored, &sets, &draw, &Seen { partners, found, stay });
    Ok(match &settings.truth {
        Some(file) => Evaluation { truth: Some(truth::agreement(&stored, file).await?), ..evaluation },
        None => evaluation,
    })
}

/// Refuses a job whose pairs cannot be found again from its source alone, or are not those of an exact similarity.
fn refuse(job: &Job, url: &str) -> Result<()> {
    let because = if job.candidates.method == Method::None {
        "compares no documents (candidates.method = \"none\"), so nothing can be measured: run its job again with another method"
    } else if job.second_source().is_some() {
        "was made with [against.source], and evaluate compares only the documents of one source: run a job over both sources together"
    } else if job.reference().is_some() {
        "was made with [against], and evaluate compares only the documents of one source: merge it with the outputs that it was made \
         against, and evaluate the merged output"
    } else if job.score.by == ScoreBy::Signature || job.score.prefilter {
        "keeps pairs by their estimate (score.by = \"signature\" or score.prefilter), and evaluate measures what an exact search finds: \
         run its job again without these keys"
    } else if !job.output.keep.signatures() {
        "keeps nothing that shows which documents have the same shingles (output.keep = \"none\"): run its job again with output.keep = \
         \"signatures\""
    } else {
        return Ok(());
    };
    Err(Error::job(format!("{url} {because}")))
}
