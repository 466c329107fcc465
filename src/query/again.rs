//! The shingles of documents of a finished output that does not keep them: cut from the source again.

use datafusion::prelude::{DataFrame, col};

use super::Finished;
use crate::error::{Context, Error, Result};
use crate::job::{Job, Shingle, ShingleHash, fingerprint};
use crate::source::{self, Listed, Selection};
use crate::stage;

/// The source of a finished output, which is what it was when the output was made.
pub struct Again<'a> {
    finished: &'a Finished,
    job: &'a Job,
    listed: Listed,
}

impl<'a> Again<'a> {
    /// Lists the source of `job`, which made `finished`, and makes sure that it has not changed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is not there any more, or has changed.
    pub async fn open(finished: &'a Finished, job: &'a Job) -> Result<Self> {
        let listed = source::list(finished.session(), &job.source)
            .await
            .context(|| "this output keeps no shingles, and the texts cannot be read again".to_owned())?;
        if fingerprint(job, &listed.inputs()) != finished.manifest().fingerprint {
            return Err(Error::input(format!(
                "this output keeps no shingles, and {} has changed since it was made: run the job again with --overwrite, or \
                 with output.keep = \"shingles\" to need the source no more",
                job.source.urls.join(", ")
            )));
        }
        Ok(Self { finished, job, listed })
    }

    /// (source, position) of documents -> (doc: UInt64, shingles: `List<UInt64>`), their shingles as numbers that can
    /// be compared with those of other texts, but not with those of a dictionary.
    ///
    /// # Errors
    /// When the source cannot be read to the end, or changes while it is read.
    pub async fn shingles(&self, documents: DataFrame) -> Result<DataFrame> {
        let wanted = Selection::of_rows(documents).await?;
        let session = self.finished.session();
        let read = source::open_wanted(session, &self.job.source, &self.listed, wanted).await?;
        let documents = stage::documents::documents(read.frame)?;
        let shingles = stage::shingles::shingles(documents, &comparable(self.job))?;
        Ok(shingles.select(vec![col("doc"), col("shingles")])?)
    }
}

/// How texts are cut whose shingles are only compared with each other. The numbers of a dictionary are the collection's; any
/// other that tells shingles apart gives the same similarity.
pub(super) fn comparable(job: &Job) -> Shingle {
    let hash = match job.shingle.hash {
        ShingleHash::Dictionary => ShingleHash::Xxh3,
        hash => hash,
    };
    Shingle { hash, ..job.shingle.clone() }
}
