//! `candidates.method = "all"`: scores every two documents.

use datafusion::prelude::lit;

use super::pair_limit;
use crate::frames::copies::without_copies;
use crate::pipeline::sketches;
use crate::pipeline::stage::interface::{CandidateSearch, Planned, WorkTable, boxed};
use crate::pipeline::verify::every_two;

pub(super) static ALL: CandidateSearch = CandidateSearch {
    describe: |job| format!("keep every two documents of {} or more", job.score.bound()),
    check: |cx| Box::pin(pair_limit::check_every_two(cx)),
    plan: boxed!(|cx| {
        let documents = without_copies(sketches::all(cx)?, cx.table(WorkTable::COPIES)?)?;
        Ok(Planned::new(0, every_two(cx, documents).await?))
    }),
    follow_ups: boxed!(|_| Ok(Vec::new())),
    may_match: boxed!(|_, documents| Ok(documents.with_column("may_match", lit(true))?)),
};
