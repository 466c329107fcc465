//! The stages candidates, scores, members and pairs, which find similar documents, from candidates to the public tables.

use datafusion::functions_aggregate::expr_fn::{max, sum};
use datafusion::prelude::{DataFrame, col};

use super::interface::{
    AllSketches, BYTES_OF_KEY, BYTES_OF_MEMBER, Job, Planned, Result, Stage, StageContext, Table, WorkTable,
    boxed, needed, not_null, null,
};
use super::search::{by_method, drop_disagreeing, pair_limit};
use crate::frames::copies::{Paired, Rules, in_pairs, members};
use crate::frames::groups::{group_pairs, with_groups_of_pairs};
use crate::frames::pairs::{pairs, pairs_of_copies, texts, with_passages};
use crate::frames::reference::new_and_reference;
use crate::frames::{self, in_columns, merged};
use crate::operator::sketches::score_schema;
use crate::pipeline::groups::{self, NAMES, own};
use crate::pipeline::numbers::one_number;
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::sketches::{BoundedRows, candidate_sketches, find_texts, read_texts};
use crate::pipeline::tables::WorkColumns::{Flag, Id, LongText, Nullable, Numbers, Operator, Text};
use crate::pipeline::tables::{PAIR_COLUMNS, POSITION_COLUMNS};
use crate::pipeline::verify::{candidates_to_compare, known_scores, verify};

impl WorkTable {
    pub(crate) const CANDIDATES: Self = Self::new("candidates", PAIR_COLUMNS);
    /// The documents in hot buckets, or in dense buckets if the prefix join compares all documents.
    pub(crate) const HOT: Self = Self::new("hot", &[Numbers(&["a"])]);
    pub(crate) const POSITIONS: Self = Self::new("positions", POSITION_COLUMNS);
    /// The scores of pairs that reach the threshold, except for pairs of copies.
    pub(crate) const SCORES: Self = Self::new("scores", &[Operator(score_schema)]);
    pub(crate) const MEMBERS: Self = Self::new(
        "members",
        &[Id, Numbers(&["doc", "shingle_count", "rep", "size"]), Flag("reference"), Nullable(&Text("group"))],
    );
    const TEXT_POSITIONS: Self = Self::new("text_positions", POSITION_COLUMNS);
    const TEXTS: Self = Self::new("texts", &[Numbers(&["doc"]), LongText("text"), Numbers(&["bytes"])]);
}

pub(super) static CANDIDATES: Stage = Stage::work(
    WorkTable::CANDIDATES,
    |job| (by_method(job).describe)(job),
    |job| job.compares() && job.candidates.method.has_candidates(),
    boxed!(|cx| {
        let found = (by_method(cx.job).plan)(cx).await?;
        let compared = move |partitions| -> Result<Vec<DataFrame>> {
            (found.frames)(partitions)?.into_iter().map(|frame| groups::compared(cx, frame)).collect()
        };
        Ok(Planned { frames: Box::new(compared), ..found })
    }),
)
// A row for a document in a hot or dense bucket has a null instead of a second document.
.with_tables(|_| vec![not_null(WorkTable::CANDIDATES, "b"), null(WorkTable::HOT, "b")])
.then(boxed!(|cx| {
    let further = (by_method(cx.job).follow_ups)(cx).await?;
    if further.is_empty() { drop_disagreeing(cx).await } else { Ok(further) }
}));

pub(super) static SCORES: Stage =
    Stage::work(WorkTable::SCORES, describe_scores, |_| true, |cx| Box::pin(plan_scores(cx))).then(boxed!(
        |cx| {
            if cx.input.merged().is_none() && cx.job.candidates.method.compares() {
                pair_limit::check_scores(cx).await?;
            }
            Ok(Vec::new())
        }
    ));

fn describe_scores(job: &Job) -> String {
    if job.candidates.method.compares() && !job.compares() {
        return "take the pairs that were found".into();
    }
    if !job.candidates.method.has_candidates() {
        return (by_method(job).describe)(job);
    }
    let cut = match AllSketches::new(job) {
        AllSketches::Nowhere => "cut the shingles of candidates again, and ",
        _ => "",
    };
    format!("{cut}keep candidates of {} or more", job.score.bound())
}

/// Scores the candidates, or every two documents if the method has no candidates.
async fn plan_scores<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    if let Some(earlier) = cx.input.merged() {
        return cx.with_same_scores(Planned::new(0, vec![merged_scores(cx, earlier)?]));
    }
    if !cx.job.candidates.method.has_candidates() {
        return cx.with_same_scores((by_method(cx.job).plan)(cx).await?);
    }
    let (candidates, same) = (candidates_to_compare(cx)?, known_scores(cx)?);
    let needed = BoundedRows { frame: frames::needed(candidates.frame.clone())?, count: candidates.count };
    let documents = candidate_sketches(cx, needed).await?;
    cx.with_same_scores(verify(cx, documents, candidates, same).await?)
}

/// Returns the scores in merged outputs, without documents that a later run replaced.
fn merged_scores(cx: &StageContext<'_>, earlier: &Chain) -> Result<DataFrame> {
    if !earlier.replaced() {
        return merged::scores(earlier.pairs()?, cx.table(WorkTable::COPIES)?);
    }
    let columns = groups::copy_key(cx.job);
    let documents = cx.table(Table::Documents)?.select(columns.clone())?;
    let representatives = merged::representatives(documents)?;
    merged::in_order(earlier.pairs_of_groups(&columns, None, representatives)?)
}

pub(super) static MEMBERS: Stage = Stage::work(
    WorkTable::MEMBERS,
    |_| "expand scores to the copies of each document".into(),
    |_| true,
    boxed!(|cx| {
        let (copies, scores) = (cx.table(WorkTable::COPIES)?, cx.table(WorkTable::SCORES)?);
        let copies = in_pairs(copies, scores.clone(), Rules::new(cx.job))?;
        let documents = new_and_reference(own(cx)?, cx.reference_documents()?, &NAMES)?;
        let count = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
        let bytes = count * BYTES_OF_MEMBER
            + cx.bytes(WorkTable::COPIES)
            + 2 * cx.rows(WorkTable::SCORES) * BYTES_OF_KEY;
        Ok(Planned::short(bytes, vec![members(documents, copies, scores)?]))
    }),
);

pub(super) static TEXTS: Stage = Stage::work(
    WorkTable::TEXTS,
    |_| "read the texts of pairs again".into(),
    |job| job.output.pair_passages,
    boxed!(|cx| {
        let members = needed(cx, WorkTable::MEMBERS, "doc")?;
        let known = cx.reference_documents()?;
        let places = find_texts(cx, WorkTable::TEXT_POSITIONS, members, known).await?;
        Ok(Planned::new(0, vec![read_texts(cx, places, None, texts).await?]))
    }),
);

pub(super) static PAIRS: Stage = Stage::public(
    Table::Pairs,
    |job| {
        let passages = if job.output.pair_passages { " with their longest common passages" } else { "" };
        format!("write the pairs{passages}, {} at most", job.output.max_pairs)
    },
    |_| true,
    |cx| Box::pin(plan_pairs(cx)),
);

/// A batch of pairs with texts has at most the bytes of a partition divided by this number. Several batches wait in memory at once,
/// outside any memory pool, until their passages are computed.
const BATCHES_OF_TEXTS: u64 = 4;

async fn plan_pairs<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let job = cx.job;
    let (members, scores) = (cx.table(WorkTable::MEMBERS)?, cx.table(WorkTable::SCORES)?);
    let rules = Rules::new(job);
    let has_copies = rules.paired() != Paired::None && cx.rows(WorkTable::COPIES) > 0;
    let copies = has_copies.then(|| pairs_of_copies(members.clone(), rules, job.lsh.bands)).transpose()?;
    let mut frame = pairs(members.clone(), scores, rules)?;
    let bytes = cx.rows(WorkTable::MEMBERS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::SCORES);
    let decisions = cx.decisions()?;
    if !job.has_groups() && !job.output.pair_passages && decisions.is_none() {
        return Ok(Planned::short(bytes, std::iter::once(frame).chain(copies).collect()));
    }
    if let Some(copies) = copies {
        let copies = in_columns(copies, frame.schema().as_arrow())?;
        frame = frame.union(copies)?;
    }
    if job.has_groups() {
        frame = with_groups_of_pairs(frame, members)?;
    }
    if let Some(decisions) = decisions {
        frame = decisions.decided(frame)?;
    }
    if !job.output.pair_passages {
        return Ok(Planned::short(bytes, vec![frame]));
    }
    let texts = cx.table(WorkTable::TEXTS)?;
    let all = one_number(texts.clone().aggregate(vec![], vec![sum(col("bytes"))])?).await?;
    let longest = one_number(texts.clone().aggregate(vec![], vec![max(col("bytes"))])?).await?;
    let frame = with_passages(frame, texts, job.second_source().is_some())?;
    // The estimate assumes two texts of average length for every pair.
    let bytes = bytes + 2 * cx.rows(WorkTable::SCORES) * (all / cx.rows(WorkTable::TEXTS).max(1));
    let batch = cx.engine().bucket_bytes() / BATCHES_OF_TEXTS;
    let rows = usize::try_from(batch / (2 * longest).max(1)).unwrap_or(usize::MAX);
    let rows = rows.min(cx.engine().config().batch_size());
    Ok(Planned { batch_rows: Some(rows), ..Planned::new(bytes, vec![frame]) })
}

pub(super) static GROUP_PAIRS: Stage = Stage::public(
    Table::GroupPairs,
    |_| "count the pairs of every two groups".into(),
    |job| job.has_groups(),
    boxed!(|cx| {
        let documents = new_and_reference(own(cx)?, None, &NAMES)?;
        let frame = group_pairs(cx.table(Table::Pairs)?, documents)?;
        Ok(Planned::new(4 * cx.rows(Table::Pairs) * BYTES_OF_MEMBER, vec![frame]))
    }),
);
