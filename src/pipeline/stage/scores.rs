//! scores: the exact similarity of candidates, and those that reach the threshold.

use std::borrow::Cow;

use arrow::array::RecordBatch;

use super::interface::{
    BoxFuture, Job, Place, Planned, Result, Stage, StageContext, Table, Tables, WorkTable, Writes, all,
    frames,
};
use super::pair_limit;
use crate::frames::copies::without_copies;
use crate::job::Method;
use crate::operator::score;
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::candidate_pairs::{CandidatePairs, of_sides};
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::tables::score_columns;
use crate::pipeline::verify::{every_two, verify};

/// Scores the candidates; every two documents, if the job's method has no candidates.
pub(crate) struct Scores;

impl WorkTable {
    /// Pairs that reach the threshold, except for those of copies.
    pub(crate) const SCORES: Self = Self::new("scores", score_columns);
}

async fn of_all(cx: &StageContext<'_>) -> Result<()> {
    let at_most = pair_limit::with_new(cx.rows(Table::Documents), cx.rows(WorkTable::REFERENCE));
    pair_limit::check_pairs(cx, None, at_most).await?;
    if cx.is_done(&Scores).await? {
        return cx.take_over(&Scores).await;
    }
    let documents = without_copies(cx.of_all()?, cx.table(WorkTable::COPIES)?)?;
    cx.run(&Scores, 0, every_two(cx, documents).await?).await
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
        let bound = job.score.bound();
        if job.candidates.method == Method::None {
            return "compare no documents".into();
        }
        if !job.compares() {
            return "take the pairs that were found".into();
        }
        if job.candidates.method == Method::All {
            return format!("keep every two documents of {bound} or more");
        }
        let cut = match AllSketches::of(job) {
            AllSketches::Nowhere => "cut the shingles of candidates again, and ",
            _ => "",
        };
        format!("{cut}keep candidates of {bound} or more")
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
            match cx.job.candidates.method {
                Method::All => of_all(cx).await?,
                Method::None => {
                    let none = RecordBatch::new_empty(score::schema());
                    let frames = vec![cx.session().read_batch(none)?];
                    let planned = Planned { place: Place::Here, ..Planned::new(0, frames) };
                    return cx.run_planned(self, planned).await;
                }
                Method::Lsh | Method::Prefix => {
                    let documents = cx.of_candidates(cx.wanted_of_candidates()?).await?;
                    let (candidates, same) = (CandidatePairs::to_compare(cx)?, of_sides(cx)?);
                    verify(cx, self, documents, candidates, same).await?;
                }
            }
            pair_limit::check_scores(cx).await
        })
    }
}
