//! `candidates.method = "none"`: compares no documents.

use arrow::array::RecordBatch;
use datafusion::prelude::lit;

use crate::operator::sketches;
use crate::pipeline::stage::interface::{CandidateSearch, Planned, boxed};

pub(super) static NONE: CandidateSearch = CandidateSearch {
    describe: |_| "compare no documents".into(),
    check: boxed!(|_| Ok(())),
    plan: boxed!(|cx| {
        let none = cx.session().read_batch(RecordBatch::new_empty(sketches::score_schema()))?;
        Ok(Planned::new(0, vec![none]))
    }),
    follow_ups: boxed!(|_| Ok(Vec::new())),
    may_match: boxed!(|_, documents| Ok(documents.with_column("may_match", lit(false))?)),
};
