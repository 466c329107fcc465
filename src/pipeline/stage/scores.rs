//! scores: the exact similarity of candidates, and those that reach the threshold.

use std::borrow::Cow;

use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Table, Tables, WorkTable, Writes, all, frames,
};
use super::{pair_limit, search};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::candidate_pairs::{CandidatePairs, of_sides};
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::tables::score_columns;
use crate::pipeline::verify::verify;

/// Scores the candidates; every two documents, if the job's method has no candidates.
pub(crate) struct Scores;

impl WorkTable {
    /// Pairs that reach the threshold, except for those of copies.
    pub(crate) const SCORES: Self = Self::new("scores", score_columns);
}

/// Takes the scores of the merged outputs, of documents that no later run replaced.
async fn of_merged(cx: &StageContext<'_>, earlier: &Chain) -> Result<()> {
    let frame = match earlier.replaced() {
        false => frames::merged::scores(earlier.pairs()?, cx.table(WorkTable::COPIES)?)?,
        true => {
            let columns = by_group::copies(cx.job);
            let there = cx.table(Table::Documents)?.select(columns.clone())?;
            let representatives = frames::merged::representatives(there)?;
            frames::merged::in_order(earlier.pairs_of_groups(&columns, None, representatives)?)?
        }
    };
    cx.run(&Scores, 0, vec![frame]).await
}

impl Writes for Scores {
    fn name(&self) -> Cow<'static, str> {
        "scores".into()
    }

    fn describe(&self, job: &Job) -> String {
        if job.candidates.method.compares() && !job.compares() {
            return "take the pairs that were found".into();
        }
        if let Some(scores) = &search::of_job(job).scores {
            return (scores.describe)(job);
        }
        let cut = match AllSketches::of(job) {
            AllSketches::Nowhere => "cut the shingles of candidates again, and ",
            _ => "",
        };
        format!("{cut}keep candidates of {} or more", job.score.bound())
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::SCORES)
    }
}

impl Stage for Scores {
    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if let Some(earlier) = cx.input.merged() {
                return of_merged(cx, earlier).await;
            }
            match &search::of_job(cx.job).scores {
                Some(scores) => (scores.run)(cx, self).await?,
                None => {
                    let documents = cx.of_candidates(cx.wanted_of_candidates()?).await?;
                    let (candidates, same) = (CandidatePairs::to_compare(cx)?, of_sides(cx)?);
                    verify(cx, self, documents, candidates, same).await?;
                }
            }
            pair_limit::check_scores(cx).await
        })
    }
}
