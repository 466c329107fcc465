//! pairs: every two documents whose similarity reaches the threshold.

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, Planned, Result, Stage, StageContext, StagePlan, Table, WorkTable, frames,
};
use crate::frames::copies::Rules;
use crate::frames::pairs::pairs;
use crate::pipeline::numbers::one_number;

/// A batch of pairs with their texts may have one part in this many of the bytes of a partition's rows: several of them
/// wait for their passages at once, which no pool accounts for.
const BATCHES_OF_TEXTS: u64 = 4;

async fn plan<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let job = cx.job;
    let (members, scores) = (cx.table(WorkTable::MEMBERS)?, cx.table(WorkTable::SCORES)?);
    let groups = members.clone();
    let mut frame = pairs(members, scores, Rules::of(job), job.lsh.bands)?;
    if job.has_groups() {
        frame = frames::by_group::of_pairs(frame, groups)?;
    }
    let bytes = cx.rows(WorkTable::MEMBERS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::SCORES);
    if !job.output.pair_passages {
        return Ok(Planned::new(bytes, vec![frame]));
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
    Ok(Planned { batch_rows: Some(rows), ..Planned::new(bytes, vec![frame]) })
}

/// Writes the pairs.
pub(super) static PAIRS: Stage = Stage::new(
    AnyTable::Public(Table::Pairs),
    |job| {
        let passages = if job.output.pair_passages { " with their longest common passages" } else { "" };
        format!("write the pairs{passages}, {} at most", job.output.max_pairs)
    },
    |_| true,
    StagePlan::Later(|cx| Box::pin(plan(cx))),
);
