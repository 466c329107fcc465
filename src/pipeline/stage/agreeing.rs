//! agreeing: candidates without those whose signatures agree too little, so that the shingles of fewer are needed.

use std::borrow::Cow;

use super::interface::{BoxFuture, Error, Job, Result, Stage, StageContext, Tables, WorkTable, Writes, all};
use crate::pipeline::tables::pair_columns;
use crate::pipeline::{candidate_pairs::CandidatePairs, verify::agree};

/// Drops candidates by their signatures.
pub(crate) struct Agreeing;

impl WorkTable {
    /// Candidates whose signatures agree in the threshold or more.
    pub(crate) const AGREEING: Self = Self::new("agreeing", pair_columns);
}

impl Writes for Agreeing {
    fn name(&self) -> Cow<'static, str> {
        "agreeing".into()
    }

    fn describe(&self, job: &Job) -> String {
        format!("drop candidates whose signatures agree in less than {}", job.score.threshold)
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::AGREEING)
    }
}

impl Stage for Agreeing {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match cx.signatures()? {
                Some(signatures) => agree(cx, self, signatures, CandidatePairs::found(cx)?).await,
                None => Err(Error::bug("no signatures are kept")),
            }
        })
    }
}
