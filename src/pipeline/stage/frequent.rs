//! The stages group_sizes, frequent and frequent_shingles, which find the shingles that occur in too many documents.

use datafusion::prelude::{DataFrame, col};

use super::documents::first_of_each_id;
use super::interface::{Error, Job, Planned, Result, Stage, StageContext, Table, WorkTable, boxed};
use crate::frames::frequent_shingles::{self, SAMPLE};
use crate::frames::groups::group;
use crate::job::{Limit, LimitSize, Reference};
use crate::pipeline::sketches::read_texts;
use crate::pipeline::tables::POSITION_COLUMNS;
use crate::pipeline::tables::WorkColumns::Numbers;
use crate::schema::carried;

impl WorkTable {
    pub(crate) const GROUP_SIZES: Self = Self::new("group_sizes", &[Numbers(&["group_key", "documents"])]);
    pub(crate) const FREQUENT: Self =
        Self::new("frequent", &[Numbers(&["shingle", "documents", "of_documents", "doc"])]);
    const FREQUENT_POSITIONS: Self = Self::new("frequent_positions", POSITION_COLUMNS);
}

/// The bytes that a row with a frequent shingle and its words takes in memory.
const BYTES_OF_SHINGLE: u64 = 256;

/// Whether shingles are counted in new documents. If there are reference outputs, the frequent shingles come from these outputs.
fn counts_shingles(job: &Job) -> bool {
    job.max_frequency.is_some()
        && job.reads_texts()
        && !matches!(job.reference(), Some(Reference::Outputs { .. }))
}

/// The limit with which the reader draws the sample. `None` if each group has its own sample, or if the job limits the source to a
/// percentage of its rows.
fn limit(job: &Job) -> Option<Limit> {
    match (&job.source.group, job.source.limit) {
        (Some(_), _) | (None, Some(Limit { size: LimitSize::Percent(_), .. })) => None,
        (None, None) => Some(Limit { size: LimitSize::Documents(SAMPLE), seed: 0 }),
        // With the same seed, a smaller sample is a subset of a larger sample.
        (None, Some(Limit { size: LimitSize::Documents(most), seed })) => {
            Some(Limit { size: LimitSize::Documents(most.min(SAMPLE)), seed })
        }
    }
}

/// The carried column with the group of each document, if documents have groups.
fn group_column(cx: &StageContext<'_>) -> Option<String> {
    let group = cx.job.source.group.as_ref()?;
    cx.types.columns.iter().position(|column| column.name == *group).map(carried)
}

fn grouped(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    frequent_shingles::with_group_key(first_of_each_id(cx, documents)?, group_column(cx).as_deref())
}

pub(super) static GROUP_SIZES: Stage = Stage::work(
    WorkTable::GROUP_SIZES,
    |_| "count the documents of each group".into(),
    |job| counts_shingles(job) && limit(job).is_none(),
    boxed!(|cx| {
        let sizes = frequent_shingles::group_sizes(grouped(cx, cx.documents.clone())?)?;
        Ok(Planned::new(0, vec![sizes]))
    }),
);

pub(super) static FREQUENT: Stage = Stage::work(
    WorkTable::FREQUENT,
    |_| "find the shingles that too many documents of a sample have".into(),
    counts_shingles,
    boxed!(|cx| {
        let job = cx.job;
        let share = job.max_frequency.ok_or_else(|| Error::bug("all shingles of the job count"))?;
        let sample = match limit(job) {
            Some(limit) => grouped(cx, cx.input.sample(cx.session(), job, limit).await?)?,
            None => {
                let documents = grouped(cx, cx.documents.clone())?;
                frequent_shingles::sampled(documents, cx.table(WorkTable::GROUP_SIZES)?)?
            }
        };
        let frequent = frequent_shingles::frequent(sample, &job.shingle, share)?;
        Ok(Planned::new(cx.source_bytes(), vec![frequent]))
    }),
);

pub(super) static FREQUENT_SHINGLES: Stage = Stage::public(
    Table::FrequentShingles,
    |_| "write the frequent shingles with their words".into(),
    |job| job.max_frequency.is_some(),
    boxed!(|cx| {
        if !counts_shingles(cx.job) {
            let kept = cx.frequent()?.ok_or_else(|| Error::bug("the output has no frequent shingles"))?;
            return Ok(Planned::new(0, vec![kept]));
        }
        let (table, bytes) =
            (cx.table(WorkTable::FREQUENT)?, cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE);
        let (documents, rejects) = (cx.table(Table::Documents)?, cx.table(Table::Rejects)?);
        let places = frequent_shingles::positions(table.clone(), documents, rejects)?;
        cx.run_further(WorkTable::FREQUENT_POSITIONS, Planned::new(bytes, vec![places])).await?;
        let places = cx.table(WorkTable::FREQUENT_POSITIONS)?;
        let texts = read_texts(cx, places, None, |texts| {
            Ok(texts.select(vec![col("doc"), col("text"), group(group_column(cx).as_deref())])?)
        });
        let frame = frequent_shingles::with_samples(table, texts.await?, &cx.job.shingle)?;
        Ok(Planned::new(bytes, vec![frame]))
    }),
);
