//! agreeing: candidates without those whose signatures agree too little, so that the shingles of fewer are needed.

use super::interface::{AnyTable, Error, Result, Stage, StageContext, StagePlan, WorkTable};
use crate::pipeline::tables::pair_columns;
use crate::pipeline::{
    candidate_pairs::CandidatePairs,
    verify::{agree, signatures_first},
};

impl WorkTable {
    /// Candidates whose signatures agree in the threshold or more.
    pub(crate) const AGREEING: Self = Self::new("agreeing", pair_columns);
}

/// The stage that drops candidates by their signatures, if that is cheaper than to compare all of them.
pub(super) async fn follow_ups(cx: &StageContext<'_>) -> Result<Vec<&'static Stage>> {
    let stages = if signatures_first(cx).await? { vec![&AGREEING] } else { Vec::new() };
    Ok(stages)
}

/// Drops candidates by their signatures.
pub(super) static AGREEING: Stage = Stage::new(
    AnyTable::Work(WorkTable::AGREEING),
    |job| format!("drop candidates whose signatures agree in less than {}", job.score.threshold),
    |_| true,
    StagePlan::Now(|cx| match cx.signatures()? {
        Some(signatures) => agree(cx, signatures, CandidatePairs::found(cx)?),
        None => Err(Error::bug("no signatures are kept")),
    }),
);
