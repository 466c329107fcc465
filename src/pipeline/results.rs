//! From scores to the tables of pairs and clusters.

use datafusion::prelude::DataFrame;

use super::earlier::Earlier;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::Result;
use crate::job::{Job, NewPairs};
use crate::schema::Table;
use crate::stage;

/// Bytes of a row (document, representative, rank).
const BYTES_OF_KEY: u64 = 24;

/// Bytes of a row that has a document's id too, which is short.
const BYTES_OF_MEMBER: u64 = 64;

/// What pairs and clusters are made of.
const NAMES: [&str; 3] = ["id", "doc", "shingle_count"];

/// Finds the documents that scores stand for.
pub(super) async fn members(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (mut groups, scores) = (steps.table(WorkTable::Groups)?, steps.table(WorkTable::Scores)?);
    let known = job.against.as_ref().map(|_| steps.table(WorkTable::Known)).transpose()?;
    if let (Some(known), Some(NewPairs::WithKnown)) = (&known, job.new_pairs()) {
        groups = stage::known::groups_of_pairs(groups, known.clone(), scores.clone())?;
    }
    let all = stage::mark::both(steps.table(Table::Documents)?, known, &NAMES)?;
    let frame = stage::members::members(all, groups, scores)?;
    let documents = steps.rows(Table::Documents) + steps.rows(WorkTable::Known);
    let bytes = documents * BYTES_OF_MEMBER
        + steps.bytes(WorkTable::Groups)
        + 2 * steps.rows(WorkTable::Scores) * BYTES_OF_KEY;
    steps.run(Step::Members, bytes, vec![frame]).await
}

/// Writes the pairs.
pub(super) async fn pairs(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (members, scores) = (steps.table(WorkTable::Members)?, steps.table(WorkTable::Scores)?);
    let frame = stage::pairs::pairs(members, scores, &job.output, job.lsh.bands, job.new_pairs())?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Scores);
    steps.run(Step::Pairs, bytes, vec![frame]).await
}

/// Writes the clusters.
pub(super) async fn clusters(steps: &Steps<'_>) -> Result<()> {
    let members = steps.table(WorkTable::Members)?;
    let frame = stage::clusters::clusters(members, steps.table(WorkTable::Components)?)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Components);
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// Writes the clusters that new documents are in, of these and of `known` ones (id, doc, shingle_count).
pub(super) async fn grown_clusters(steps: &Steps<'_>, known: DataFrame, founders: DataFrame) -> Result<()> {
    let documents = stage::mark::both(steps.table(Table::Documents)?, Some(known), &NAMES)?;
    let frame = stage::clusters::grown(steps.table(WorkTable::Components)?, documents, founders)?;
    let bytes = steps.rows(WorkTable::Components) * BYTES_OF_MEMBER;
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// Takes the scores of earlier runs, of documents that are there.
pub(super) async fn merged_scores(steps: &Steps<'_>, earlier: &Earlier) -> Result<()> {
    let session = steps.session();
    let frame = match earlier.replaced() {
        false => stage::merged::scores(earlier.pairs(session)?, steps.table(WorkTable::Groups)?)?,
        true => {
            let representatives = stage::merged::representatives(steps.table(WorkTable::Keys)?)?;
            earlier.scores_of_versions(session, None, representatives)?
        }
    };
    steps.run(Step::Scores, 0, vec![frame]).await
}

/// Writes which clusters of earlier runs bear another id now: `founders` (id) are documents whose id was that of a cluster.
pub(super) async fn merges(steps: &Steps<'_>, founders: DataFrame) -> Result<()> {
    let frame = stage::clusters::merges(steps.table(Table::Clusters)?, founders)?;
    steps.run(Step::Merges, 0, vec![frame]).await
}
