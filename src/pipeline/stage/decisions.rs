//! The stages that apply `clusters.decisions`: units of documents that are the same, their scores, and documents that stay apart.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{
    BYTES_OF_KEY, Error, Job, Planned, Result, Stage, StageContext, Table, WorkTable, boxed, not_null,
};
use crate::frames::copies::JUDGED;
use crate::frames::decisions::{PairDecisions, decisions, kept_removals, known_scores, pairs_of_documents};
use crate::frames::{self, all_columns, columns, reference, renamed};
use crate::operator::sketches::score_schema;
use crate::pipeline::ledger::Ledger;
use crate::pipeline::numbers::keys_of;
use crate::pipeline::reference::chain::union;
use crate::pipeline::sketches::{BoundedRows, SKETCH, sketches};
use crate::pipeline::tables::WorkColumns::{Numbers, Operator};
use crate::pipeline::tables::{PAIR_COLUMNS, POSITION_COLUMNS};
use crate::pipeline::verify::score_every;

impl WorkTable {
    /// The unit of each document in a decision: see [`Ledger`].
    const JUDGED: Self = Self::new("judged_documents", &[Numbers(&["doc", "unit"])]);
    /// Units with different documents, in both orders.
    const DIFFERENT: Self = Self::new("different_units", &[Numbers(&["one", "other"])]);
    /// The pairs of documents that are the same.
    const SAME_PAIRS: Self = Self::new("same_pairs", PAIR_COLUMNS);
    /// The keys in decisions that no document has.
    pub(crate) const UNKNOWN: Self = Self::new("unknown_documents", &[Numbers(&["doc"])]);
    const SAME_POSITIONS: Self = Self::new("same_positions", POSITION_COLUMNS);
    /// The scores of documents that are the same.
    pub(crate) const SAME_SCORES: Self = Self::new("same_scores", &[Operator(score_schema)]);
    /// The shingle sets that are kept because they differ from an earlier set of the cluster.
    const APART: Self = Self::new("apart", &[Numbers(&["set"])]);
}

fn is_in(job: &Job) -> bool {
    job.clusters.decisions.is_some()
}

fn ledger<'a>(cx: &StageContext<'a>) -> Result<&'a Ledger> {
    cx.input.ledger.as_ref().ok_or_else(|| Error::bug("the decisions were not read"))
}

impl StageContext<'_> {
    /// The decisions about documents, if the job has decisions.
    pub(in crate::pipeline) fn decisions(&self) -> Result<Option<PairDecisions>> {
        if !is_in(self.job) {
            return Ok(None);
        }
        Ok(Some(PairDecisions {
            units: self.table(WorkTable::JUDGED)?,
            different: self.table(WorkTable::DIFFERENT)?,
        }))
    }

    /// Drops the pairs (a, b, ..) of different documents.
    pub(in crate::pipeline) fn joining(&self, pairs: DataFrame) -> Result<DataFrame> {
        match self.decisions()? {
            Some(decisions) => decisions.joining(pairs),
            None => Ok(pairs),
        }
    }

    /// Separates documents (doc, ..) in decisions from their copies: see [`PairDecisions::apart_from_copies`].
    pub(in crate::pipeline) fn apart_from_copies(&self, documents: DataFrame) -> Result<DataFrame> {
        match self.decisions()? {
            Some(decisions) => decisions.apart_from_copies(documents),
            None => Ok(documents),
        }
    }

    /// The shingle sets (set) that are kept because of decisions, if the job has decisions.
    pub(super) fn apart(&self) -> Result<Option<DataFrame>> {
        is_in(self.job).then(|| self.table(WorkTable::APART)).transpose()
    }

    /// Marks the removals that are kept because of decisions, if the job has decisions.
    pub(super) fn kept_removals(&self, removals: DataFrame) -> Result<DataFrame> {
        match self.apart()? {
            Some(apart) => kept_removals(removals, apart),
            None => Ok(removals),
        }
    }

    /// Sets the scores of documents that are the same in planned scores.
    pub(super) fn with_same_scores<'a>(&self, planned: Planned<'a>) -> Result<Planned<'a>> {
        if !is_in(self.job) {
            return Ok(planned);
        }
        let same = self.table(WorkTable::SAME_SCORES)?;
        let own = match self.reference {
            // A score of two reference documents joins their clusters, but is no pair of this run.
            Some(_) => reference::with_reference(same.clone(), self.table(WorkTable::KEYS)?)?,
            None => same.clone(),
        };
        let frames = move |partitions| -> Result<Vec<DataFrame>> {
            let found = (planned.frames)(partitions)?.into_iter();
            let others = found.map(|frame| frames::copies::unscored(frame, same.clone()));
            others.chain([Ok(own.clone())]).collect()
        };
        Ok(Planned { frames: Box::new(frames), ..planned })
    }
}

/// The keys (doc) of the documents in decisions.
pub(super) fn judged(cx: &StageContext<'_>) -> Result<DataFrame> {
    Ok(cx.table(WorkTable::JUDGED)?.select(columns(["doc"]))?)
}

/// Keeps the `documents` (doc, may_match, ..) that may match new documents. If the job has decisions, also keeps the documents in
/// decisions.
pub(super) fn marked_or_judged(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    if !is_in(cx.job) {
        return Ok(documents.filter(col("may_match"))?);
    }
    let columns = all_columns(&documents);
    let documents = cx.apart_from_copies(documents)?;
    Ok(documents.filter(col("may_match").is_true().or(col(JUDGED).not_eq(lit(0_u64))))?.select(columns)?)
}

pub(super) static JUDGED_DOCUMENTS: Stage = Stage::work(
    WorkTable::JUDGED,
    |_| "connect the documents that are the same by clusters.decisions".into(),
    is_in,
    boxed!(|cx| Ok(Planned::new(0, vec![ledger(cx)?.rows(cx.session())?]))),
)
.with_tables(|_| {
    vec![
        not_null(WorkTable::JUDGED, "doc"),
        not_null(WorkTable::DIFFERENT, "one"),
        not_null(WorkTable::SAME_PAIRS, "a"),
    ]
});

pub(super) static UNKNOWN: Stage = Stage::work(
    WorkTable::UNKNOWN,
    |_| "find the ids in clusters.decisions that no document has".into(),
    is_in,
    boxed!(|cx| {
        let judged = judged(cx)?;
        let mut documents = cx.table(WorkTable::KEYS)?.select(columns(["doc"]))?;
        if let Some(outputs) = cx.reference_outputs() {
            documents = documents.union(outputs.ids(cx)?.select(columns(["doc"]))?)?;
        }
        let known = reference::same(documents, judged.clone())?;
        let bytes = cx.rows(WorkTable::KEYS) * BYTES_OF_KEY;
        Ok(Planned::new(bytes, vec![reference::without(judged, known)?]))
    }),
);

/// Scores the documents that are the same, whatever their similarity. A merge takes the scores from its outputs.
pub(super) static SAME_SCORES: Stage = Stage::work(
    WorkTable::SAME_SCORES,
    |_| "score the documents that are the same".into(),
    is_in,
    boxed!(|cx| {
        let pairs = cx.table(WorkTable::SAME_PAIRS)?;
        let pairs = pairs_of_documents(pairs, cx.table(WorkTable::UNKNOWN)?)?;
        let count = cx.rows(WorkTable::SAME_PAIRS);
        if let Some(earlier) = cx.input.merged() {
            let decisions = union(earlier.decisions()?.into_iter().map(Ok))?;
            let pairs = pairs.select(renamed([("a", "one"), ("b", "other")]))?;
            let keys = (&["one", "other"], &["a", "b"]);
            let scores = pairs.join(known_scores(decisions)?, JoinType::RightSemi, keys.0, keys.1, None)?;
            return Ok(Planned::new(0, vec![scores]));
        }
        let needed = BoundedRows { frame: frames::needed(pairs.clone())?, count: 2 * count };
        let (at, known) = (WorkTable::SAME_POSITIONS, cx.reference_documents()?);
        let frame = sketches(cx, at, needed, known, &SKETCH).await?;
        score_every(cx, BoundedRows { frame, count: 2 * count }, BoundedRows { frame: pairs, count }).await
    }),
);

pub(super) static APART: Stage = Stage::work(
    WorkTable::APART,
    |_| "find which documents stay because they are different by clusters.decisions".into(),
    is_in,
    boxed!(|cx| {
        let decisions = cx.decisions()?.ok_or_else(|| Error::bug("the decisions were not read"))?;
        let bytes = cx.bytes(WorkTable::REPRESENTED);
        Ok(Planned::new(bytes, vec![decisions.apart(cx.table(WorkTable::REPRESENTED)?)?]))
    }),
);

pub(super) static DECISIONS: Stage = Stage::public(
    Table::Decisions,
    |_| "write the decisions".into(),
    is_in,
    boxed!(|cx| {
        let ledger = ledger(cx)?.table(cx.session())?;
        let frame = decisions(ledger, cx.table(WorkTable::SAME_SCORES)?)?;
        Ok(Planned::new(0, vec![frame]))
    }),
);

/// Returns a warning with some of the ids that no document has, if there are such ids.
pub(in crate::pipeline) async fn unknown_ids(cx: &StageContext<'_>) -> Result<Option<String>> {
    let count = cx.rows(WorkTable::UNKNOWN);
    if !is_in(cx.job) || count == 0 {
        return Ok(None);
    }
    let keys = keys_of(cx.table(WorkTable::UNKNOWN)?).await?;
    let ids: Vec<String> =
        ledger(cx)?.ids(&keys).into_iter().take(NAMED).map(|id| format!("`{id}`")).collect();
    let more = match count - ids.len() as u64 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Ok(Some(format!(
        "clusters.decisions names {count} {} that no document has: {}{more}; their decisions have no effect",
        if count == 1 { "id" } else { "ids" },
        ids.join(", ")
    )))
}

const NAMED: usize = 5;
