//! `candidates.method = "all"`: every two documents are scored.

use datafusion::prelude::lit;

use super::pair_limit;
use crate::frames::copies::without_copies;
use crate::pipeline::sketches;
use crate::pipeline::stage::interface::{
    CandidateSearch, Planned, ScoresWithoutCandidates, StagePlan, WorkTable,
};
use crate::pipeline::verify::every_two;

/// Scores every two documents.
pub(super) static ALL: CandidateSearch = CandidateSearch::without_candidates(
    |cx| Box::pin(pair_limit::check_every_two(cx)),
    ScoresWithoutCandidates {
        describe: |job| format!("keep every two documents of {} or more", job.score.bound()),
        plan: StagePlan::Later(|cx| {
            Box::pin(async move {
                let documents = without_copies(sketches::all(cx)?, cx.table(WorkTable::COPIES)?)?;
                Ok(Planned::new(0, every_two(cx, documents).await?))
            })
        }),
    },
    |_, documents| Box::pin(async move { Ok(documents.with_column("may_match", lit(true))?) }),
);
