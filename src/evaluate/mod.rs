//! What a finished output missed: measured on a sample, by an exact search.
//!
//! - `sets`: the shingle sets of the output; `draw`: draws a sample of them, in strata.
//! - `partners`: compares all documents with the sample by their texts, and does not use the candidates of the run. For most
//!   documents, the beginning of the text shows that they share too few shingles with every drawn set (`index`).
//! - `agreeing`: compares all signatures with those of the sample, where the job decides on pairs by signatures.
//! - `found`: the pairs of the sample that the output has, and which of their documents it keeps. A pair that only the search
//!   finds is missed.
//! - `interval`: estimates with intervals; `summary`: the numbers of the evaluation. Found pairs are counted, missed pairs
//!   estimated.
//! - `truth`: compares the output with known pairs or clusters.

mod agreeing;
mod draw;
mod found;
mod index;
pub(crate) mod interval;
mod partners;
mod sets;
mod summary;
mod truth;

use std::sync::Arc;

use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::job::Job;
use crate::output::Stored;
pub use interval::Estimate;
use sets::Sets;
use summary::EvaluatedSets;
pub use summary::{Bias, ByExactRule, Evaluation, Recall, RecallAt};
pub use truth::Agreement;

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationSettings {
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
pub async fn evaluate(
    session: &SessionContext,
    url: &str,
    settings: &EvaluationSettings,
) -> Result<Evaluation> {
    let stored = Stored::open(session, url).await?;
    if let Some(because) = refusal(stored.job()) {
        return Err(Error::job(format!("{url} {because}")));
    }
    let sets = Arc::new(Sets::read(&stored, settings.memory).await?);
    let draw = draw::draw(&sets.sets, settings.sample, settings.seed);
    let drawn: Vec<u64> = draw.drawn.iter().map(|drawn| drawn.set).collect();
    let found = found::found(&stored, &sets, &drawn);
    let agreeing = agreeing::agreeing(&stored, &sets, &drawn).await?;
    let partners = partners::partners(&stored, &sets, &drawn, agreeing);
    let (found, partners) = tokio::try_join!(found, partners)?;
    let stay = found::stay(&stored, &sets, &partners).await?;
    let evaluation = summary::summary(&stored, &sets, &draw, &EvaluatedSets { partners, found, stay });
    Ok(match &settings.truth {
        Some(file) => Evaluation { truth: Some(truth::agreement(&stored, file).await?), ..evaluation },
        None => evaluation,
    })
}

/// Why the outputs of a job cannot be evaluated, after their name; `None` if they can. Their pairs cannot be found again from the
/// source alone.
pub(crate) fn refusal(job: &Job) -> Option<&'static str> {
    Some(if !job.candidates.method.compares() {
        "compares no documents (candidates.method = \"none\"), so nothing can be measured: run its job again with another method"
    } else if job.second_source().is_some() {
        "was made with [against.source], and evaluate compares only the documents of one source: run a job over both sources together"
    } else if job.reference().is_some() {
        "was made with [against], and evaluate compares only the documents of one source: merge it with the outputs that it was made \
         against, and evaluate the merged output"
    } else if !job.output.keep.signatures() {
        "keeps nothing that shows which documents have the same shingles (output.keep = \"none\"): run its job again with output.keep = \
         \"signatures\""
    } else {
        return None;
    })
}
