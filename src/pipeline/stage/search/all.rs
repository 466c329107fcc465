//! `candidates.method = "all"`: every two documents are scored.

use datafusion::prelude::lit;

use crate::frames::copies::without_copies;
use crate::pipeline::stage::interface::{CandidateSearch, ScoresWithoutCandidates, Table, WorkTable};
use crate::pipeline::stage::pair_limit;
use crate::pipeline::verify::every_two;

/// Scores every two documents.
pub(super) static ALL: CandidateSearch = CandidateSearch::without_candidates(
    ScoresWithoutCandidates {
        describe: |job| format!("keep every two documents of {} or more", job.score.bound()),
        run: |cx, stage| {
            Box::pin(async move {
                let at_most = pair_limit::with_new(cx.rows(Table::Documents), cx.rows(WorkTable::REFERENCE));
                pair_limit::check_pairs(cx, None, at_most).await?;
                if cx.is_done(stage).await? {
                    return cx.take_over(stage).await;
                }
                let documents = without_copies(cx.of_all()?, cx.table(WorkTable::COPIES)?)?;
                cx.run(stage, 0, every_two(cx, documents).await?).await
            })
        },
    },
    |_, documents| Box::pin(async move { Ok(documents.with_column("may_match", lit(true))?) }),
);
