//! `candidates.method = "none"`: no documents are compared.

use arrow::array::RecordBatch;
use datafusion::prelude::lit;

use crate::operator::sketches;
use crate::pipeline::stage::interface::{
    CandidateSearch, Planned, ScoresWithoutCandidates, StagePlacement, StagePlan,
};

/// Compares no documents.
pub(super) static NONE: CandidateSearch = CandidateSearch::without_candidates(
    |_| Box::pin(async { Ok(()) }),
    ScoresWithoutCandidates {
        describe: |_| "compare no documents".into(),
        plan: StagePlan::Now(|cx| {
            let none = cx.session().read_batch(RecordBatch::new_empty(sketches::score_schema()))?;
            Ok(Planned { place: StagePlacement::Here, ..Planned::new(0, vec![none]) })
        }),
    },
    |_, documents| Box::pin(async move { Ok(documents.with_column("may_match", lit(false))?) }),
);
