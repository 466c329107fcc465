//! From scores to the tables of pairs and clusters.

use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, col, lit};

use super::by_group::{self, NAMES, own};
use super::earlier::Earlier;
use super::numbers::{one_number, rows_of};
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::Result;
use crate::job::{ClusterMethod, Compare, Job};
use crate::schema::Table;
use crate::stage;
use crate::stage::copies::{Paired, Rules};

/// Bytes of a row (document, representative, rank).
const BYTES_OF_KEY: u64 = 24;

/// Bytes of a row (root, two ranks, similarity).
const BYTES_OF_EDGE: u64 = 32;

/// Of what the rows of a partition may take, the share of a batch of pairs with their texts: on their way to the passages there
/// are some such batches at once, which no pool counts.
const BATCHES_OF_TEXTS: u64 = 4;

/// Bytes of a row that has a document's id too, which is short.
const BYTES_OF_MEMBER: u64 = 64;

/// Finds the documents that scores stand for.
pub(super) async fn members(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (copies, scores) = (steps.table(WorkTable::Copies)?, steps.table(WorkTable::Scores)?);
    let known = job.against.as_ref().map(|_| steps.table(WorkTable::Known)).transpose()?;
    let copies = stage::copies::in_pairs(copies, scores.clone(), Rules::of(job))?;
    let all = stage::mark::both(own(steps, job)?, known, &NAMES)?;
    let frame = stage::members::members(all, copies, scores)?;
    let documents = steps.rows(Table::Documents) + steps.rows(WorkTable::Known);
    let bytes = documents * BYTES_OF_MEMBER
        + steps.bytes(WorkTable::Copies)
        + 2 * steps.rows(WorkTable::Scores) * BYTES_OF_KEY;
    steps.run(Step::Members, bytes, vec![frame]).await
}

/// Writes the pairs.
pub(super) async fn pairs(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (members, scores) = (steps.table(WorkTable::Members)?, steps.table(WorkTable::Scores)?);
    let groups = members.clone();
    let mut frame = stage::pairs::pairs(members, scores, Rules::of(job), job.lsh.bands)?;
    if job.has_groups() {
        frame = stage::by_group::of_pairs(frame, groups)?;
    }
    let mut bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Scores);
    if job.output.passages {
        let is_second = job.known_source().is_some();
        let texts = steps.table(WorkTable::Texts)?;
        let of_all = one_number(stage::passages::bytes(texts.clone())?).await?;
        let longest = one_number(stage::passages::longest(texts.clone())?).await?;
        frame = stage::passages::passages(frame, texts, is_second)?;
        // Every pair asks for two texts.
        bytes += 2 * steps.rows(WorkTable::Scores) * (of_all / steps.rows(WorkTable::Texts).max(1));
        let batch = steps.engine().bucket_bytes() / BATCHES_OF_TEXTS;
        let rows = usize::try_from(batch / (2 * longest).max(1)).unwrap_or(usize::MAX);
        return steps.run_in_batches(Step::Pairs, bytes, rows, vec![frame]).await;
    }
    steps.run(Step::Pairs, bytes, vec![frame]).await
}

/// Puts the documents of each component into the order in which they are wanted.
pub(super) async fn ranks(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let keep = &job.clusters.keep;
    let mut members = steps.table(WorkTable::Members)?;
    if !keep.is_empty() {
        let order = steps.table(Table::Documents)?.select(by_group::order_by_doc(job)?)?;
        members = stage::with_columns(members, order)?;
    }
    let frame = stage::ranks::ranks(members, steps.table(WorkTable::Components)?, keep)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Components);
    steps.run(Step::Ranks, bytes, vec![frame]).await
}

/// Finds which document represents each.
pub(super) async fn represented(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (ranks, scores) = (steps.table(WorkTable::Ranks)?, steps.table(WorkTable::Scores)?);
    let frame = stage::represented::represented(ranks, scores, job.clusters.method, pairs_copies(job))?;
    let bytes = steps.rows(WorkTable::Ranks) * BYTES_OF_KEY + steps.rows(WorkTable::Scores) * BYTES_OF_EDGE;
    steps.run(Step::Represented, bytes, vec![frame]).await
}

/// Whether copies are pairs of each other, where all documents are the job's own.
fn pairs_copies(job: &Job) -> bool {
    Rules::of(job).paired() != Paired::None
}

/// Writes the clusters.
pub(super) async fn clusters(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (documents, sets) = (steps.table(WorkTable::Ranks)?, steps.table(WorkTable::Represented)?);
    let method = job.clusters.method;
    let mut frame = stage::clusters::clusters(documents, sets, method, pairs_copies(job))?;
    if method == ClusterMethod::Representative {
        frame = frame.drop_columns(&["weakest"])?;
    }
    let frame = with_groups(frame, steps.table(WorkTable::Members)?, job)?;
    let bytes = steps.rows(WorkTable::Ranks) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Represented);
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// How many of the run's own documents have the shingles of another one: one row (repeated: UInt64), but for the first of each set;
/// null where there is none.
pub(super) fn repeated_sets(steps: &Steps<'_>, job: &Job) -> Result<DataFrame> {
    let sizes = match job.candidates.compare {
        Compare::All => {
            let groups = steps.table(WorkTable::Copies)?;
            groups.filter(col("doc").eq(col("rep")).and(!col("known")))?.select(vec![col("size")])?
        }
        // Copies of each other are those of one group.
        Compare::Within | Compare::Across => stage::copies::sizes_of_sets(steps.table(WorkTable::Keys)?)?,
    };
    let repeated = sizes.select(vec![(col("size") - lit(1_u64)).alias("repeated")])?;
    Ok(repeated.aggregate(vec![], vec![sum(col("repeated")).alias("repeated")])?)
}

/// How many documents represent themselves alone because the method of the job takes chains of pairs apart.
pub(super) async fn chained(steps: &Steps<'_>) -> Result<u64> {
    let clusters = steps.table(Table::Clusters)?.filter(col("representative"))?;
    let components = steps.table(WorkTable::Represented)?.filter(col("rank").eq(lit(1_u64)))?;
    Ok(rows_of(clusters).await? - rows_of(components).await?)
}

/// Clusters with the number of groups of each, where there are groups.
fn with_groups(clusters: DataFrame, documents: DataFrame, job: &Job) -> Result<DataFrame> {
    match job.has_groups() {
        true => stage::by_group::of_clusters(clusters, documents),
        false => Ok(clusters),
    }
}

/// Counts the pairs of every two groups.
pub(super) async fn group_pairs(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let documents = stage::mark::both(own(steps, job)?, None, &NAMES)?;
    let frame = stage::by_group::group_pairs(steps.table(Table::Pairs)?, documents)?;
    let bytes = 4 * steps.rows(Table::Pairs) * BYTES_OF_MEMBER;
    steps.run(Step::GroupPairs, bytes, vec![frame]).await
}

/// The run's own documents and `known` ones, with what decides which one represents a cluster.
fn both(steps: &Steps<'_>, job: &Job, known: DataFrame) -> Result<DataFrame> {
    let own = steps.table(Table::Documents)?.select(by_group::ordered(job)?)?;
    let names = by_group::ordered_names(job);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage::mark::both(own, Some(known), &names)
}

/// Writes the clusters that new documents are in, of these and of `known` ones, in the columns of [`by_group::ordered`].
pub(super) async fn grown_clusters(
    steps: &Steps<'_>,
    job: &Job,
    known: DataFrame,
    founders: DataFrame,
) -> Result<()> {
    let documents = both(steps, job, known)?;
    let components = steps.table(WorkTable::Components)?;
    let frame = stage::clusters::grown(components, documents.clone(), founders, &job.clusters.keep)?;
    let frame = with_groups(frame, documents, job)?;
    let bytes = steps.rows(WorkTable::Components) * BYTES_OF_MEMBER;
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// Writes the clusters that documents of the source are in, with those of the second source.
pub(super) async fn linked_clusters(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let keep = &job.clusters.keep;
    let like = steps.table(Table::Documents)?.select(by_group::ordered(job)?)?;
    let known = stage::keep::without_carried(steps.table(WorkTable::Known)?, keep, &like)?;
    let documents = both(steps, job, known)?;
    let frame = stage::clusters::linked(steps.table(WorkTable::Components)?, documents.clone(), keep)?;
    let frame = with_groups(frame, documents, job)?;
    let bytes = steps.rows(WorkTable::Components) * BYTES_OF_MEMBER;
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// Takes the scores of earlier runs, of documents that are there.
pub(super) async fn merged_scores(steps: &Steps<'_>, job: &Job, earlier: &Earlier) -> Result<()> {
    let session = steps.session();
    let frame = match earlier.replaced() {
        false => stage::merged::scores(earlier.pairs(session)?, steps.table(WorkTable::Copies)?)?,
        true => {
            let columns = by_group::copies(job);
            let there = steps.table(Table::Documents)?.select(columns.clone())?;
            let representatives = stage::merged::representatives(there)?;
            stage::merged::in_order(earlier.pairs_of_groups(session, &columns, None, representatives)?)?
        }
    };
    steps.run(Step::Scores, 0, vec![frame]).await
}

/// Writes which clusters of earlier runs bear another id now: `founders` (id) are documents whose id was that of a cluster.
pub(super) async fn merges(steps: &Steps<'_>, founders: DataFrame) -> Result<()> {
    let frame = stage::clusters::merges(steps.table(Table::Clusters)?, founders)?;
    steps.run(Step::Merges, 0, vec![frame]).await
}
