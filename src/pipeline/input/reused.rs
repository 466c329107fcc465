//! A finished output whose sketches are reused.

use datafusion::prelude::{DataFrame, SessionContext, col};

use super::read::{FirstStageInput, as_input};
use crate::error::{Error, Result};
use crate::frames;
use crate::job::{Job, Reuse, ShingleHash, Source};
use crate::output::Stored;
use crate::output::manifest::Origin;
use crate::pipeline::all_sketches::AllSketches;
use crate::schema::Table;
use crate::source::Listed;

/// A finished output whose sketches are reused.
pub(crate) struct Reused {
    pub(super) stored: Stored,
    /// The runs that cut the texts: one, or those of the outputs that it is merged from.
    pub(super) origins: Vec<Origin>,
    /// The files of the texts; `None` if no text is read, since the output keeps shingles.
    pub(super) listed: Option<Listed>,
}

impl Reused {
    /// Opens an output, and checks that `job` can use its sketches.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if it cannot be read, holds another result than before, or lacks data
    /// that the job needs and its source has changed; [`Kind::Job`](crate::error::Kind::Job) if it lacks data that the
    /// job needs.
    pub(super) async fn open(session: &SessionContext, job: &Job, reuse: &Reuse) -> Result<Self> {
        let Reuse { output: url, keeps_shingles } = reuse;
        let stored = Stored::open(session, url).await?;
        let made = stored.job();
        let same_kept = *keeps_shingles == made.output.keep.shingles();
        // The job may name another of the carried columns.
        let source = Source { group: made.source.group.clone(), ..job.source.clone() };
        let settings = |job: &Job| (job.shingle.clone(), job.max_frequency, job.minhash.clone());
        if !same_kept || settings(made) != settings(job) || made.source != source {
            return Err(Error::input(format!(
                "{url} holds another result than it did when the job file was read: run again"
            )));
        }
        let keep = stored.job().output.keep;
        if !keep.signatures() {
            return Err(Error::input(format!(
                "{url} keeps no signatures (output.keep = \"none\"), so its sketches cannot be used: make it again with \
                 output.keep = \"signatures\""
            )));
        }
        if job.shingle.hash == ShingleHash::Dictionary {
            return Err(Error::job(format!(
                "{url} was made with shingle.hash = \"dictionary\", whose numbers are those of one run: read its source instead"
            )));
        }
        if AllSketches::of(job) != AllSketches::Nowhere && !keep.shingles() {
            return Err(Error::job(format!(
                "{url} keeps no shingles, and this job needs those of all documents, since candidates.method is {} and \
                 output.keep is {}: use \"lsh\" and \"signatures\", or read the source instead",
                quoted(job.candidates.method),
                quoted(job.output.keep)
            )));
        }
        let listed = match keep.shingles() {
            true if job.output.pair_passages => {
                Some(stored.source("output.pair_passages needs the texts", "").await?.1)
            }
            true if job.passages.is_some() => Some(stored.source("[passages] needs the texts", "").await?.1),
            true => None,
            false => {
                let (why, or) = (format!("{url} keeps no shingles"), KEEP_THEM);
                Some(stored.source(&why, or).await?.1)
            }
        };
        Ok(Self { origins: stored.origins(), listed, stored })
    }

    /// The documents with their sketches, and the rejects.
    pub(super) fn read(&self, job: &Job) -> Result<FirstStageInput> {
        let table = |table: Table| -> Result<DataFrame> { self.stored.table(table) };
        let types = self.stored.manifest().source.clone();
        let keeps_shingles = self.stored.job().output.keep.shingles();
        let columns = frames::reused::columns(&types, keeps_shingles, col("origin_number"));
        let documents = table(Table::Documents)?.select(columns)?;
        let documents = frames::reused::reused(documents, table(Table::Rejects)?, &job.lsh)?;
        Ok(FirstStageInput { documents, types, inputs: vec![as_input(&self.stored)] })
    }
}

/// The advice if the source of an output has changed.
const KEEP_THEM: &str = ", with output.keep = \"shingles\" if it should not need the source";

/// A value as it is written in a job file.
fn quoted(value: impl std::fmt::Debug) -> String {
    format!("\"{value:?}\"").to_lowercase()
}
