//! pairs: every two documents whose similarity reaches the threshold.

use std::borrow::Cow;

use super::interface::{
    BYTES_OF_MEMBER, BoxFuture, Job, Planned, Result, Stage, StageContext, Table, Tables, WorkTable, Writes,
    all, frames,
};
use crate::frames::copies::Rules;
use crate::frames::pairs::pairs;
use crate::pipeline::numbers::one_number;

/// A batch of pairs with their texts may have one part in this many of the bytes of a partition's rows: several of them
/// wait for their passages at once, which no pool accounts for.
const BATCHES_OF_TEXTS: u64 = 4;

/// Writes the pairs.
pub(crate) struct Pairs;

impl Writes for Pairs {
    fn name(&self) -> Cow<'static, str> {
        "pairs".into()
    }

    fn describe(&self, job: &Job) -> String {
        let passages = if job.output.pair_passages { " with their longest common passages" } else { "" };
        format!("write the pairs{passages}, {} at most", job.output.max_pairs)
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(Table::Pairs)
    }
}

impl Stage for Pairs {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let job = cx.job;
            let (members, scores) = (cx.table(WorkTable::MEMBERS)?, cx.table(WorkTable::SCORES)?);
            let groups = members.clone();
            let mut frame = pairs(members, scores, Rules::of(job), job.lsh.bands)?;
            if job.has_groups() {
                frame = frames::by_group::of_pairs(frame, groups)?;
            }
            let bytes = cx.rows(WorkTable::MEMBERS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::SCORES);
            if !job.output.pair_passages {
                return cx.run(self, bytes, vec![frame]).await;
            }
            let texts = cx.table(WorkTable::TEXTS)?;
            let of_all = one_number(frames::passages::bytes(texts.clone())?).await?;
            let longest = one_number(frames::passages::longest(texts.clone())?).await?;
            let frame = frames::passages::passages(frame, texts, job.second_source().is_some())?;
            // Every pair has two texts.
            let bytes = bytes + 2 * cx.rows(WorkTable::SCORES) * (of_all / cx.rows(WorkTable::TEXTS).max(1));
            let batch = cx.engine().bucket_bytes() / BATCHES_OF_TEXTS;
            let rows = usize::try_from(batch / (2 * longest).max(1)).unwrap_or(usize::MAX);
            let rows = rows.min(cx.engine().config().batch_size());
            cx.run_planned(self, Planned { batch_rows: Some(rows), ..Planned::new(bytes, vec![frame]) }).await
        })
    }
}
