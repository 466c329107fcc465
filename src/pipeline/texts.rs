//! From texts to sketches: the passes over all documents, and what they refuse.

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col};

use super::by_group;
use super::known_outputs::KnownOutputs;
use super::numbers::{keys_of, spawn};
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::job::{DuplicateIds, Job, SameId, ShingleHash};
use crate::schema::Table;
use crate::stage;

/// Duplicate ids that an error names.
const NAMED_DUPLICATES: usize = 5;

/// Bytes of a row (document, the two halves of its set's hash).
const BYTES_OF_KEY: u64 = 24;

/// Finds documents whose key came before, in a first reading of which only ids are kept, and the texts of those that come
/// twice are measured.
/// With them come those whose id is known from earlier runs, where these are to be left out.
pub(super) async fn duplicates(
    steps: &Steps<'_>,
    job: &Job,
    documents: DataFrame,
    known: Option<&KnownOutputs>,
) -> Result<()> {
    let of_known = match known.filter(|_| job.same_id() == Some(SameId::Skip)) {
        Some(known) => Some(stage::duplicates::of_known(documents.clone(), known.names(steps.session())?)?),
        None => None,
    };
    let duplicates = match job.source.duplicate_ids {
        DuplicateIds::Reject => Some(stage::duplicates::duplicates(documents, &job.shingle)?),
        DuplicateIds::Error => None,
    };
    let frame = match (duplicates, of_known) {
        (Some(duplicates), Some(of_known)) => stage::duplicates::both(of_known, duplicates)?,
        (Some(frame), None) | (None, Some(frame)) => frame,
        (None, None) => return Err(Error::bug("there is nothing to look for in ids")),
    };
    steps.run(Step::Duplicates, 0, vec![frame]).await
}

/// Cuts all texts, before the first shingle of a dictionary has its number.
pub(super) async fn cuts(steps: &Steps<'_>, job: &Job, documents: DataFrame) -> Result<()> {
    let documents = first_of_each_id(steps, documents)?;
    let cuts = stage::dictionary::cuts(documents, &job.shingle)?;
    steps.run(Step::Cuts, 0, vec![cuts]).await
}

/// Numbers the shingles. Numbers are ranks in one order, so all rows come together in one partition at the end.
pub(super) async fn dictionary(steps: &Steps<'_>) -> Result<()> {
    let numbers = stage::dictionary::numbers(steps.table(WorkTable::Cuts)?)?;
    steps.run(Step::Dictionary, 0, vec![numbers]).await
}

/// The one pass over the texts: documents -> shingles -> signatures -> bands, into several tables at once. Documents of a
/// finished output come with all of that.
pub(super) async fn sketches(steps: &Steps<'_>, job: &Job, documents: DataFrame) -> Result<()> {
    if job.reuse.is_some() || job.merge.is_some() {
        return steps.run(Step::Sketches, 0, vec![documents]).await;
    }
    let (shingles, dictionary) = match job.shingle.hash {
        ShingleHash::Dictionary => {
            let (cuts, numbers) = (steps.table(WorkTable::Cuts)?, steps.table(WorkTable::Numbers)?);
            let numbered = stage::dictionary::numbered(cuts, numbers)?;
            (stage::shingles::measured(numbered, &job.shingle)?, Some(steps.rows(Table::Dictionary)))
        }
        _ => {
            let documents = first_of_each_id(steps, documents)?;
            (stage::shingles::shingles(documents, &job.shingle)?, None)
        }
    };
    let signatures = stage::signatures::signatures(shingles, job, dictionary)?;
    let bands = stage::bands::bands(signatures, &job.lsh)?;
    let bytes = steps.bytes(WorkTable::Cuts) + steps.bytes(WorkTable::Numbers);
    steps.run(Step::Sketches, bytes, vec![bands]).await
}

/// Finds documents with the same shingles, and refuses two with one key: they cannot be told apart from here on.
pub(super) async fn copies(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let keys = steps.table(WorkTable::Keys)?;
    let repeated = stage::duplicates::repeated(keys.clone(), NAMED_DUPLICATES)?;
    let columns = ["doc", "set_hash_0", "set_hash_1"];
    let mut keys = match &job.against {
        None => keys.select(columns.map(col).to_vec())?,
        Some(_) => stage::mark::both(keys, Some(steps.table(WorkTable::Known)?), &columns)?,
    };
    if let Some(groups) = by_group::keys(steps, job)? {
        keys = stage::with_columns(keys, groups)?;
    }
    let frames = vec![stage::copies::copies(keys)?];
    let bytes = (steps.rows(WorkTable::Keys) + steps.rows(WorkTable::Known)) * BYTES_OF_KEY;
    let (repeated, ()) =
        futures::try_join!(spawn(keys_of(repeated)), steps.run(Step::Copies, bytes, frames))?;
    refuse_duplicates(steps.table(Table::Documents)?, &repeated, "source").await
}

/// The documents without those whose id came before or is known, where the job rejects those.
fn first_of_each_id(steps: &Steps<'_>, documents: DataFrame) -> Result<DataFrame> {
    match steps.is_taken(Step::Duplicates) {
        false => Ok(documents),
        true => stage::duplicates::reject(documents, steps.table(WorkTable::Duplicates)?),
    }
}

/// Ends the run where there are `repeated` keys, of `documents` (id, doc, ..) of the section `section`.
pub(super) async fn refuse_duplicates(documents: DataFrame, repeated: &[u64], section: &str) -> Result<()> {
    if repeated.is_empty() {
        return Ok(());
    }
    let named = stage::duplicates::named(documents, repeated)?;
    let mut messages = Vec::new();
    for batch in named.collect().await? {
        let (least, most) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (least, most) in least.iter().flatten().zip(most.iter().flatten()) {
            messages.push(match least == most {
                true => format!("`{least}` is the id of several documents"),
                false => format!("`{least}` and `{most}` have the same 64-bit key"),
            });
        }
    }
    Err(Error::input(format!(
        "ids must be unique, but {}{}: name a column of unique ids as {section}.id (or row_number), or set \
         {section}.duplicate_ids = \"reject\"",
        messages.join("; "),
        if messages.len() == NAMED_DUPLICATES { " (perhaps not the only ones)" } else { "" },
    )))
}
