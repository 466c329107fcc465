//! `candidates.method = "none"`: no documents are compared.

use arrow::array::RecordBatch;
use datafusion::prelude::lit;

use crate::operator::score;
use crate::pipeline::stage::interface::{CandidateSearch, Place, Planned, ScoresWithoutCandidates};

/// Compares no documents.
pub(super) static NONE: CandidateSearch = CandidateSearch::without_candidates(
    ScoresWithoutCandidates {
        describe: |_| "compare no documents".into(),
        run: |cx, stage| {
            Box::pin(async move {
                let none = RecordBatch::new_empty(score::schema());
                let frames = vec![cx.session().read_batch(none)?];
                cx.run_planned(stage, Planned { place: Place::Here, ..Planned::new(0, frames) }).await
            })
        },
    },
    |_, documents| Box::pin(async move { Ok(documents.with_column("may_match", lit(false))?) }),
);
