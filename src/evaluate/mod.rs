//! Estimates how many pairs and removals a finished output missed. An exact search finds the true partners of sampled shingle sets,
//! without the candidates of the run. For most documents, the beginning of the text rules out all drawn sets. Found pairs are counted,
//! and missed pairs are estimated. [`audit`](mod@audit) writes pairs for people to judge.

pub mod audit;
pub(crate) mod interval;
mod partners;
pub mod proof;
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

pub(crate) const MAX_EVALUATED: usize = 1_000_000;

/// The settings of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct EvaluationSettings {
    /// Approximate number of shingle sets to draw
    #[arg(long, value_name = "N", default_value_t = Self::SAMPLE, value_parser = whole(1..=MAX_EVALUATED))]
    pub sample: usize,
    /// The seed of the draw
    #[arg(long, value_name = "N", default_value_t = Self::SEED)]
    pub seed: u64,
    /// A CSV or Parquet file of known pairs (id_a, id_b) or known clusters (id, cluster_id) to compare with
    #[arg(long, value_name = "FILE")]
    pub truth: Option<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = parse_size)]
    pub memory: u64,
}

impl EvaluationSettings {
    /// The default of [`Self::sample`].
    pub const SAMPLE: usize = 1000;
    /// The default of [`Self::seed`].
    pub const SEED: u64 = 1;
}

/// Estimates from a sample how many pairs and removals the finished output at `url` missed.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if the job has a reference, or if `output.keep` dropped the needed columns.
/// Returns [`Kind::Input`](crate::error::Kind::Input) if the output or its source is missing or has changed.
pub async fn evaluate(
    session: &SessionContext,
    url: &str,
    settings: &EvaluationSettings,
) -> Result<Evaluation> {
    evaluate_stored(&Stored::open(session, url).await?, settings).await
}

/// Like [`evaluate`], but for an output that is already open.
async fn evaluate_stored(stored: &Stored, settings: &EvaluationSettings) -> Result<Evaluation> {
    if let Some(because) = refusal(stored.job()) {
        return Err(Error::job(format!("{} {because}", stored.layout().shown())));
    }
    let sets = Arc::new(Sets::read(stored, settings.memory).await?);
    let draw = sets::draw(&sets.sets, settings.sample, settings.seed);
    let drawn: Vec<u64> = draw.drawn.iter().map(|drawn| drawn.set).collect();
    let found = sets::found_pairs(stored, &sets, &drawn);
    let agreeing = partners::agreeing(stored, &sets, &drawn).await?;
    let partners = partners::partners(stored, &sets, &drawn, agreeing);
    let (found, partners) = tokio::try_join!(found, partners)?;
    let stay = partners::kept_ranks(stored, &sets, &partners).await?;
    let evaluation = summary::summary(stored, &sets, &draw, &EvaluatedSets { partners, found, stay });
    Ok(match &settings.truth {
        Some(file) => Evaluation { truth: Some(truth::agreement(stored, file).await?), ..evaluation },
        None => evaluation,
    })
}

/// Returns the reason why outputs of `job` cannot be evaluated, if there is one. The text continues a sentence that begins with the
/// output. The true pairs of such an output cannot be found from its source alone.
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
