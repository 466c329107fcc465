//! What a run begins with: the texts of its source, or the sketches of a finished output.

use std::time::UNIX_EPOCH;

use datafusion::prelude::{DataFrame, SessionContext};

use super::earlier::Earlier;
use super::known::Known;
use super::merge;
use super::overlap;
use super::read::{Read, as_input};
use super::tables::AllSketches;
use crate::error::{Error, Result};
use crate::job::{InputFile, Job, Reuse, ShingleHash, Source, fingerprint};
use crate::output::manifest::Origin;
use crate::output::{Layout, Stored};
use crate::schema::Table;
use crate::source::{self, Listed};
use crate::stage;

/// Where the documents of a run come from.
#[derive(Debug)]
pub(super) enum Input {
    /// From their texts, in the files of the source.
    Texts(Listed),
    /// From a finished output, which has their sketches.
    Reused(Box<Reused>),
    /// From several, which become one.
    Merged(Earlier),
}

/// A finished output whose sketches are used again.
#[derive(Debug)]
pub(super) struct Reused {
    stored: Stored,
    /// The run that cut the texts.
    origin: Origin,
    /// The files that the texts are in; `None` if no text is read, since the output keeps shingles.
    listed: Option<Listed>,
}

impl Input {
    /// Finds what `job` reads.
    ///
    /// # Errors
    /// As [`source::list`], and where a finished output cannot be used as the job asks for it.
    pub(super) async fn find(session: &SessionContext, job: &Job) -> Result<Self> {
        if let Some(urls) = &job.merge {
            return Ok(Input::Merged(merge::open(session, urls, job).await?));
        }
        match &job.reuse {
            None => Ok(Input::Texts(source::list(session, &job.source).await?)),
            Some(Reuse { output, .. }) => {
                Ok(Input::Reused(Box::new(Reused::open(session, job, output).await?)))
            }
        }
    }

    /// Refuses an output that lies in what is read, or holds a part of it.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(super) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        match self {
            Input::Texts(_) => {}
            Input::Reused(reused) => overlap::refuse_output(output, reused.stored.layout(), "output.url")?,
            Input::Merged(earlier) => earlier.refuse_overlap(output, "--to")?,
        }
        match self.listed() {
            Some(listed) => overlap::refuse_files(output, listed, "output.url"),
            None => Ok(()),
        }
    }

    /// What tells the result of `job` over this, against what is `known`, from others.
    pub(super) fn fingerprint(&self, job: &Job, known: Option<&Known>) -> String {
        let mut inputs = match self {
            Input::Texts(listed) => listed.inputs(),
            Input::Reused(reused) => {
                let e_tag = Some(reused.stored.manifest().fingerprint.clone());
                vec![InputFile { path: "output".into(), bytes: 0, modified: UNIX_EPOCH, e_tag }]
            }
            Input::Merged(earlier) => Origin::known_inputs(&earlier.record()),
        };
        inputs.extend(Origin::known_inputs(&known.map(Known::record).unwrap_or_default()));
        fingerprint(job, &inputs)
    }

    /// Opens it for the first step.
    ///
    /// # Errors
    /// As [`source::open_cut`], and when a table of a finished output cannot be read.
    pub(super) async fn read(&self, session: &SessionContext, job: &Job) -> Result<Read> {
        match self {
            Input::Texts(listed) => {
                let read = source::open_cut(session, &job.source, listed, None, &job.shingle).await?;
                let documents = stage::documents::documents(read.frame)?;
                Ok(Read { documents, types: read.types, inputs: read.inputs })
            }
            Input::Reused(reused) => {
                let manifest = reused.stored.manifest();
                let table = |table| reused.stored.table(session, table);
                let types = manifest.source.clone();
                let columns = stage::reused::columns(&types, manifest.keep()?.shingles());
                let documents = table(Table::Documents)?.select(columns)?;
                let documents = stage::reused::reused(documents, table(Table::Rejects)?, &job.lsh)?;
                Ok(Read { documents, types, inputs: vec![as_input(&reused.stored)] })
            }
            Input::Merged(earlier) => merge::read(session, earlier, job).await,
        }
    }

    /// The files that texts are read from; `None` if no text is read.
    pub(super) fn listed(&self) -> Option<&Listed> {
        match self {
            Input::Texts(listed) => Some(listed),
            Input::Reused(reused) => reused.listed.as_ref(),
            Input::Merged(_) => None,
        }
    }

    /// The outputs that become one, if the job merges.
    pub(super) fn merged(&self) -> Option<&Earlier> {
        match self {
            Input::Merged(earlier) => Some(earlier),
            Input::Texts(_) | Input::Reused(_) => None,
        }
    }

    /// The documents with their sketches, if an output keeps all of these, also the shingles.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) fn sketches(&self, session: &SessionContext) -> Result<Option<DataFrame>> {
        match self {
            Input::Reused(reused) if reused.stored.manifest().keep()?.shingles() => {
                reused.stored.table(session, Table::Documents).map(Some)
            }
            Input::Texts(_) | Input::Reused(_) | Input::Merged(_) => Ok(None),
        }
    }

    /// The run that cut the texts, if it was another one.
    pub(super) fn origin(&self) -> Option<&Origin> {
        match self {
            Input::Texts(_) | Input::Merged(_) => None,
            Input::Reused(reused) => Some(&reused.origin),
        }
    }
}

impl Reused {
    /// Opens the output at `url`, and makes sure that `job` can use it.
    async fn open(session: &SessionContext, job: &Job, url: &str) -> Result<Self> {
        let stored = Stored::open(session, url).await?;
        let made = stored.job()?;
        let same_kept =
            job.reuse.as_ref().is_some_and(|reuse| reuse.keeps_shingles == made.output.keep.shingles());
        // The job may name another one of the columns that are carried.
        let source = Source { group: made.source.group.clone(), ..job.source.clone() };
        if !same_kept || (&made.shingle, &made.minhash, &made.source) != (&job.shingle, &job.minhash, &source)
        {
            return Err(Error::input(format!(
                "{url} holds another result than it did when the job file was read: run again"
            )));
        }
        let keep = stored.manifest().keep()?;
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
            true if job.output.passages => {
                Some(stored.source(session, "output.passages needs the texts", "").await?.1)
            }
            true => None,
            false => {
                let (why, or) = (format!("{url} keeps no shingles"), KEEP_THEM);
                Some(stored.source(session, &why, or).await?.1)
            }
        };
        Ok(Self { origin: stored.origin(), listed, stored })
    }
}

/// What helps where the source of an output has changed, beside a run over it as it is now.
const KEEP_THEM: &str = ", with output.keep = \"shingles\" if it should not need the source";

/// A value as job files have it, which have one word for each.
fn quoted(value: impl std::fmt::Debug) -> String {
    format!("\"{value:?}\"").to_lowercase()
}
