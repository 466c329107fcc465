//! scores: the exact similarity of candidates, and those that reach the threshold.

use super::interface::{
    AnyTable, Job, Planned, Result, Stage, StageContext, StagePlan, Table, WorkTable, frames,
};
use super::{pair_limit, search};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::candidate_pairs::{CandidatePairs, of_sides};
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::tables::score_columns;
use crate::pipeline::verify::verify;

impl WorkTable {
    /// Pairs that reach the threshold, except for those of copies.
    pub(crate) const SCORES: Self = Self::new("scores", score_columns);
}

/// Takes the scores of the merged outputs, of documents that no later run replaced.
fn of_merged(cx: &StageContext<'_>, earlier: &Chain) -> Result<Planned<'static>> {
    let frame = match earlier.replaced() {
        false => frames::merged::scores(earlier.pairs()?, cx.table(WorkTable::COPIES)?)?,
        true => {
            let columns = by_group::copies(cx.job);
            let there = cx.table(Table::Documents)?.select(columns.clone())?;
            let representatives = frames::merged::representatives(there)?;
            frames::merged::in_order(earlier.pairs_of_groups(&columns, None, representatives)?)?
        }
    };
    Ok(Planned::new(0, vec![frame]))
}

/// Scores the candidates, or every two documents if the method of the job has no candidates.
async fn scores<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    if let Some(earlier) = cx.input.merged() {
        return of_merged(cx, earlier);
    }
    if let Some(scores) = &search::by_method(cx.job).scores {
        return scores.plan.plan(cx).await;
    }
    let (candidates, same) = (CandidatePairs::to_compare(cx)?, of_sides(cx)?);
    let needed = frames::scores::needed(candidates.pairs.clone())?;
    verify(cx, cx.of_candidates(needed).await?, candidates, same).await
}

fn describe(job: &Job) -> String {
    if job.candidates.method.compares() && !job.compares() {
        return "take the pairs that were found".into();
    }
    if let Some(scores) = &search::by_method(job).scores {
        return (scores.describe)(job);
    }
    let cut = match AllSketches::of(job) {
        AllSketches::Nowhere => "cut the shingles of candidates again, and ",
        _ => "",
    };
    format!("{cut}keep candidates of {} or more", job.score.bound())
}

/// Scores the candidates.
pub(super) static SCORES: Stage = Stage::new(
    AnyTable::Work(WorkTable::SCORES),
    describe,
    |_| true,
    StagePlan::Later(|cx| Box::pin(scores(cx))),
)
.then(|cx| {
    Box::pin(async move {
        if cx.input.merged().is_none() && cx.job.candidates.method.compares() {
            pair_limit::check_scores(cx).await?;
        }
        Ok(Vec::new())
    })
});
