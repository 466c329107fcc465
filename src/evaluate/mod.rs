//! Measures, by an exact search on a sample, the pairs and removals that a finished output missed.
//!
//! - `sets`: the shingle sets of the output, a stratified sample of them, and the output's pairs and kept documents for the sample.
//! - `partners`: compares all documents with the sample by their texts, without the candidates of the run. For most documents, the
//!   beginning of the text rules out every drawn set. If the job decides on pairs by signatures, it compares all signatures with the
//!   sample.
//! - `interval`: estimates with intervals. `summary`: the numbers of the evaluation; it counts found pairs and
//!   estimates missed pairs.
//! - `truth`: compares the output with known pairs or clusters.

pub(crate) mod interval;
mod partners;
mod sets;
mod summary;
mod truth;

use std::sync::Arc;

use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::job::{Job, parse_size, whole};
use crate::output::Stored;
pub use interval::Estimate;
use sets::Sets;
use summary::EvaluatedSets;
pub use summary::{Bias, ByExactRule, Evaluation, Recall, RecallAt};
pub use truth::Agreement;

/// The maximum size of a sample.
pub(crate) const MAX_EVALUATED: usize = 1_000_000;

/// The settings of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct EvaluationSettings {
    /// Approximate number of shingle sets to draw
    #[arg(long, value_name = "N", default_value = "1000", value_parser = whole(1..=MAX_EVALUATED))]
    pub sample: usize,
    /// The seed of the draw
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// A CSV or Parquet file of known pairs (id_a, id_b) or known clusters (id, cluster_id) to compare with
    #[arg(long, value_name = "FILE")]
    pub truth: Option<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = parse_size)]
    pub memory: u64,
}

/// Measures, on a sample, the pairs and removals that the finished output at `url` missed.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the output has a reference or keeps too little; [`Kind::Input`](crate::error::Kind::Input) if
/// the output or its source is missing or has changed.
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
    let draw = sets::draw(&sets.sets, settings.sample, settings.seed);
    let drawn: Vec<u64> = draw.drawn.iter().map(|drawn| drawn.set).collect();
    let found = sets::found_pairs(&stored, &sets, &drawn);
    let agreeing = partners::agreeing(&stored, &sets, &drawn).await?;
    let partners = partners::partners(&stored, &sets, &drawn, agreeing);
    let (found, partners) = tokio::try_join!(found, partners)?;
    let stay = partners::kept_ranks(&stored, &sets, &partners).await?;
    let evaluation = summary::summary(&stored, &sets, &draw, &EvaluatedSets { partners, found, stay });
    Ok(match &settings.truth {
        Some(file) => Evaluation { truth: Some(truth::agreement(&stored, file).await?), ..evaluation },
        None => evaluation,
    })
}

/// Returns the reason why outputs of a job cannot be evaluated, as a predicate to follow the name of the output. `None` if they can be
/// evaluated. The pairs of such outputs cannot be found from the source alone.
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
