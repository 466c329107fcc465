//! An audit of a finished output: a pack of its pairs to judge, and what the judgements say about all of its pairs.
//!
//! `population` puts each pair that the output decides on into one stratum and draws from the strata. `pack` adds texts and
//! sources, and `page` writes the pack as a page to judge with the keyboard. `labels` reads the judgements, and `judged`
//! estimates the share of true duplicates from them.

mod judged;
mod labels;
mod pack;
mod page;
mod population;

use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::lookup::Finished;
pub use judged::{Judged, JudgedStratum, PrecisionAt};
pub use pack::{AuditSettings, AuditedPair, Pack, StratumOfPack};
pub use page::html;
use population::{Population, draw};

/// Draws pairs of the finished output at `url` to be judged, and reads their texts. The same seed draws the same pairs.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the output has no pairs, or more strata than pairs are wanted;
/// [`Kind::Input`](crate::error::Kind::Input) where it, or its source, is gone or has changed.
pub async fn audit(session: &SessionContext, url: &str, settings: &AuditSettings) -> Result<Pack> {
    let finished = Finished::open(session, url).await?.with_source_in(settings.places.clone());
    let population = Population::of(session, &finished).await?;
    let draw = draw(&population, settings.pairs, settings.seed).await?;
    if draw.drawn.is_empty() {
        return Err(Error::job(format!("{url} has no pairs, so there is nothing to judge")));
    }
    pack::pack(&finished, &population, draw, settings).await
}

/// What the labels in `file` say about all pairs of the finished output at `url`: the pairs of a stratum with a label have to be
/// a random sample of it, as those of [`audit`] are.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the row, where the file has a label that is not known, or a pair that the
/// output does not have; also where it cannot be read, and where the output is gone.
pub async fn judge(session: &SessionContext, url: &str, file: &str) -> Result<Judged> {
    let finished = Finished::open(session, url).await?;
    judge_finished(session, &finished, url, file).await
}

/// As [`judge`], for an output that is open in `session`.
///
/// # Errors
/// As [`judge`].
pub(crate) async fn judge_finished(
    session: &SessionContext,
    finished: &Finished,
    url: &str,
    file: &str,
) -> Result<Judged> {
    let labels = labels::read(file)?;
    let population = Population::of(session, finished).await?;
    judged::judge(&population, labels, url).await
}
