//! Reads the sources of a finished output again, to get texts, or shingles that the output does not keep.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;

use super::finished::{id_column, ids};
use super::{Finished, Id};
use crate::error::{Context, Error, Result};
use crate::frames::{self, utf8};
use crate::job::{Job, Shingle, ShingleHash, fingerprint};
use crate::origins::numbered;
use crate::schema::Table;
use crate::source::{self, DocumentPlaces, InputComparison, Listed, ReadRequest};

/// The sources of a finished output. They have not changed since the output was made.
pub struct Reread<'a> {
    finished: &'a Finished,
    /// The jobs that read the sources, with their files. There is at least one job. All jobs have the same shingle settings.
    sources: Vec<(Job, Listed)>,
}

/// The reason to read a source again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Shingles that the output does not keep.
    Shingles,
    /// Texts, which no output keeps.
    Texts,
}

impl<'a> Reread<'a> {
    /// Lists the sources of `finished` and verifies that they have not changed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if a source is gone or has changed.
    pub async fn open(finished: &'a Finished, need: Need) -> Result<Self> {
        let (kept, or) = match need {
            Need::Shingles => (
                "this output keeps no shingles",
                ", with output.keep = \"shingles\" if it should not need the source, or name the new place of the source with --source",
            ),
            Need::Texts => {
                ("an output keeps no texts", ", or name the new place of the source with --source")
            }
        };
        let sources = finished.sources(kept, or).await?;
        Ok(Self { finished, sources })
    }

    /// Returns the texts of `documents`, which are rows of the table `documents`, by id.
    pub(super) async fn texts(&self, documents: DataFrame) -> Result<BTreeMap<Id, String>> {
        let mut texts = BTreeMap::new();
        for read in self.documents(documents, None).await? {
            texts.extend(texts_by_id(self.finished, read).await?);
        }
        Ok(texts)
    }

    /// Returns one lazy frame (source, position, id, text, ..) per source. `documents` contains rows of the table `documents`. If
    /// `cut` is given, the reader can split long texts into shingles.
    pub(super) async fn documents(
        &self,
        documents: DataFrame,
        cut: Option<&Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let places = DocumentPlaces::from_frame(documents, col("origin_number")).await?;
        let read = source::read_at(self.finished.session(), numbered(&self.sources), places, cut).await?;
        Ok(read.into_iter().map(|(_, documents)| documents).collect())
    }

    /// Returns the shingles (doc: UInt64, shingles: `List<UInt64>`) of `documents`, which are rows of the table `documents`. These shingles
    /// can be compared with the shingles of other texts, but not with the numbers in a dictionary. Fails if the source cannot be read to
    /// its end, or if it changes while it is read.
    pub async fn shingles(&self, documents: DataFrame) -> Result<DataFrame> {
        let shingle = comparable(self.finished.job());
        let read = self.documents(documents.clone(), Some(&shingle)).await?.into_iter().map(|read| {
            let documents = frames::documents::documents(read)?;
            let frequent = self.finished.frequent_shingles()?;
            let shingles = frames::sketches::counting_shingles(documents, &shingle, frequent)?;
            Ok(shingles.select(vec![col("doc"), col("shingles")])?)
        });
        match frames::union(read)? {
            Some(shingles) => Ok(shingles),
            None => {
                let none = ScalarValue::try_from(&DataType::new_list(DataType::UInt64, true))?;
                Ok(documents.select(vec![col("doc"), lit(none).alias("shingles")])?.filter(lit(false))?)
            }
        }
    }
}

/// Returns the texts of the documents `ids` in the second source. Reads the whole source.
pub(super) async fn texts_of_second_source(finished: &Finished, ids: &[Id]) -> Result<BTreeMap<Id, String>> {
    let wanted = ids.iter().map(Id::literal).collect();
    let all = all_of_second_source(finished).await?;
    let read = compared_documents(finished, all)?.filter(col("id").in_list(wanted, false))?;
    texts_by_id(finished, read).await
}

/// Returns the compared documents among `all` documents of the second source, in the same columns.
pub(super) fn compared_documents(finished: &Finished, all: DataFrame) -> Result<DataFrame> {
    // The rejects include duplicate ids, so one document per id remains.
    let rejects = finished.table(Table::ReferenceRejects)?;
    let rejects = rejects.select(vec![utf8("source"), col("position")])?;
    frames::passages::without_rows(all, rejects)
}

/// Returns a lazy frame of all documents (source, position, id, text, ..) of the second source. Fails with `Kind::Input` if the source is
/// gone or has changed.
pub(super) async fn all_of_second_source(finished: &Finished) -> Result<DataFrame> {
    let job = finished.job();
    let Some(source) = job.second_source() else { return Err(Error::bug("the job has no second source")) };
    let why = || "an output keeps no texts, and against.source cannot be read again".to_owned();
    let listed = source::list_again(finished.session(), source, &[], &finished.manifest().inputs);
    let listed = listed.await.context(why)?;
    let changed = |how: &str| {
        Err(Error::input(format!(
            "an output keeps no texts, and its against.source has changed since it was made: {how}; run the job again with --overwrite"
        )))
    };
    let as_read = InputComparison::new(&listed, &finished.manifest().inputs);
    let made = finished.manifest().reference_outputs.first().map(|output| output.fingerprint.as_str());
    if made != Some(fingerprint(&job.second_source_job(source), &as_read.inputs)?.as_str()) {
        return changed(as_read.difference.as_deref().unwrap_or("it has other files, or was written again"));
    }
    if let Some(how) = as_read.different_content(finished.session(), source).await? {
        return changed(&how);
    }
    let read = source::read(finished.session(), source, &listed, ReadRequest::all()).await?.frame;
    Ok(read.with_column("source", utf8("source"))?)
}

async fn texts_by_id(finished: &Finished, documents: DataFrame) -> Result<BTreeMap<Id, String>> {
    let columns = vec![id_column("id", finished.manifest().source.id), utf8("text")];
    let mut rows = documents.select(columns)?.execute_stream().await?;
    let mut texts = BTreeMap::new();
    while let Some(batch) = rows.try_next().await? {
        let found = ids(batch.column(0))?.into_iter().zip(as_string_array(batch.column(1))?);
        texts.extend(found.filter_map(|(id, text)| Some((id, text?.to_owned()))));
    }
    Ok(texts)
}

/// Returns the shingle settings for texts that are only compared with each other. A dictionary numbers only the shingles in its collection,
/// and any hash function without collisions gives the same similarity.
pub(super) fn comparable(job: &Job) -> Shingle {
    let hash = match job.shingle.hash {
        ShingleHash::Dictionary => ShingleHash::Xxh3,
        hash => hash,
    };
    Shingle { hash, ..job.shingle.clone() }
}
