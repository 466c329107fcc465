//! The input of a run: the texts of its source, the sketches of a finished output, or several outputs to merge.

use datafusion::prelude::{DataFrame, SessionContext};

use super::ledger::Ledger;
use super::overlap;
use super::reference::ReferenceDocuments;
use super::reference::ancestors::same_frequent;
use super::reference::chain::{Chain, reason_to_read, union};
use super::tables::AllSketches;
use crate::error::{Error, Result};
use crate::frames::documents::{documents, reused, reused_columns};
use crate::frames::utf8;
use crate::job::{self, InputFile, Job, Limit, Reuse, ShingleHash, Source, fingerprint, first_difference};
use crate::origins::numbered;
use crate::output::manifest::{Origin, ReferenceOutput, Run as Manifest};
use crate::output::{Layout, Stored};
use crate::schema::Table;
use crate::source::{self, Documents, InputComparison, Listed, ReadRequest};

/// The input of a run: see [`job::Input`].
pub(crate) struct RunInput {
    /// The files from which texts are read. `None` if no text is read.
    listed: Option<Listed>,
    /// The jobs that read the texts of a reused merged output, and their files. Empty if no text of it is read.
    merged_sources: Vec<(Job, Listed)>,
    outputs: Option<Chain>,
    merges: bool,
    pub(super) reference: Option<ReferenceDocuments>,
    /// The decisions of the job and of earlier outputs.
    pub(super) ledger: Option<Ledger>,
}

impl RunInput {
    /// Lists the files or opens the outputs that `job` names.
    pub(crate) async fn find(session: &SessionContext, job: &Job) -> Result<Self> {
        let mut merged_sources = Vec::new();
        let (listed, outputs) = match &job.input {
            job::Input::Read => (Some(source::list(session, &job.source).await?), None),
            job::Input::Reuse(reuse) => {
                let (stored, mut sources) = open_reused(session, job, reuse).await?;
                let is_merged = stored.origin_count() > 1;
                let listed = if is_merged { None } else { sources.pop().map(|(_, listed)| listed) };
                merged_sources = sources;
                (listed, Some(Chain::single(stored)))
            }
            job::Input::Merge(urls) => (None, Some(open_merged(session, urls, job).await?)),
        };
        let reference = ReferenceDocuments::find(session, job).await?;
        let merges = matches!(job.input, job::Input::Merge(_));
        let earlier = outputs.as_ref().filter(|_| merges);
        let earlier = earlier
            .or(reference.as_ref().and_then(ReferenceDocuments::outputs).map(|outputs| &outputs.chain));
        let ledger = Ledger::read(session, job, earlier).await?;
        if let (Some(earlier), Some(_)) = (earlier, &ledger) {
            earlier.check_decidable()?;
        }
        Ok(Self { listed, merged_sources, outputs, merges, reference, ledger })
    }

    /// Returns the job, with the decisions of earlier outputs if the job has no decisions of its own.
    pub(crate) fn settled(&self, job: &Job) -> Result<Job> {
        self.ledger.as_ref().map_or_else(|| Ok(job.clone()), |ledger| ledger.settled(job))
    }

    /// Refuses an output that overlaps with an input. Fails with `Kind::Job`, with the output and the input, if they overlap.
    pub(crate) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        if let Some(outputs) = &self.outputs {
            outputs.refuse_overlap(output, if self.merges { "--to" } else { "output.url" })?;
        }
        if let Some(listed) = &self.listed {
            overlap::refuse_files(output, listed, "output.url")?;
        }
        self.reference.as_ref().map_or(Ok(()), |reference| reference.refuse_overlap(output))
    }

    pub(crate) fn fingerprint(&self, job: &Job) -> Result<String> {
        let mut inputs = match &self.outputs {
            None => self.files(),
            Some(outputs) if self.merges => Origin::reference_inputs(&outputs.record()),
            Some(outputs) => {
                let e_tag = outputs.manifests().next().map(|manifest| manifest.fingerprint.clone());
                vec![InputFile::new("output".into(), 0, None, e_tag)]
            }
        };
        inputs.extend(Origin::reference_inputs(&self.reference_record()));
        inputs.extend(self.ledger.as_ref().and_then(Ledger::input));
        fingerprint(job, &inputs)
    }

    /// Returns the fingerprint of `job` if it equals the fingerprint of `finished`. Files that were rewritten with the same contents
    /// count as unchanged.
    pub(crate) async fn fingerprint_of(
        &self,
        session: &SessionContext,
        job: &Job,
        finished: &Manifest,
    ) -> Result<Option<String>> {
        let (None, Some(listed)) = (&self.outputs, &self.listed) else { return Ok(None) };
        let as_read = InputComparison::new(listed, &finished.inputs);
        let mut inputs = as_read.inputs.clone();
        let record = self.reference.as_ref().map(|reference| reference.record_as_read(job, finished));
        inputs.extend(Origin::reference_inputs(&record.transpose()?.unwrap_or_default()));
        inputs.extend(self.ledger.as_ref().and_then(Ledger::input));
        let fingerprint = fingerprint(job, &inputs)?;
        // Contents are read only if nothing else differs.
        if fingerprint != finished.fingerprint
            || as_read.different_content(session, &job.source).await?.is_some()
        {
            return Ok(None);
        }
        let is_same = match &self.reference {
            Some(reference) => reference.is_as_read(session, finished).await?,
            None => true,
        };
        Ok(is_same.then_some(fingerprint))
    }

    /// Checks that a reused output has the same frequent shingles as the reference outputs. Fails with `Kind::Job` if they differ.
    pub(crate) async fn check_frequent(&self) -> Result<()> {
        match (&self.outputs, self.reference.as_ref().and_then(ReferenceDocuments::outputs)) {
            (Some(own), Some(reference)) => {
                same_frequent(reference.chain.outputs.iter().chain(&own.outputs)).await
            }
            _ => Ok(()),
        }
    }

    /// Opens the documents for the first stage, with the columns of [`documents`], or of [`reused`] if outputs are read.
    pub(crate) async fn read(&self, session: &SessionContext, job: &Job) -> Result<Documents> {
        let read = match &self.outputs {
            None => self.texts(session, job, &job.source).await?,
            Some(outputs) => {
                Documents { frame: stored_documents(outputs, job)?, types: outputs.types(), warning: None }
            }
        };
        if let Some(reference) = &self.reference {
            reference.check_types(job, &read.types)?;
        }
        Ok(read)
    }

    /// The documents that `limit` draws from the files.
    pub(crate) async fn sample(
        &self,
        session: &SessionContext,
        job: &Job,
        limit: Limit,
    ) -> Result<DataFrame> {
        let source = Source { limit: Some(limit), ..job.source.clone() };
        Ok(self.texts(session, job, &source).await?.frame)
    }

    /// The documents that `source` reads from the listed files.
    async fn texts(&self, session: &SessionContext, job: &Job, source: &Source) -> Result<Documents> {
        let Some(listed) = &self.listed else {
            return Err(Error::bug("there is no source to read texts from"));
        };
        let request = ReadRequest { wanted: None, shingle: Some(&job.shingle) };
        let read = source::read(session, source, listed, request).await?;
        Ok(Documents { frame: documents(read.frame)?, ..read })
    }

    pub(crate) fn listed(&self) -> Option<&Listed> {
        self.listed.as_ref()
    }

    /// The sources of the documents in a reused merged output, with the numbers of their origins. Empty if texts have a single source.
    pub(crate) fn merged_sources(&self) -> impl Iterator<Item = (u64, &Source, &Listed)> {
        numbered(&self.merged_sources)
    }

    /// The files from which texts are read, as inputs of the fingerprint.
    pub(crate) fn files(&self) -> Vec<InputFile> {
        self.listed().map(Listed::inputs).unwrap_or_default()
    }

    pub(crate) fn merged(&self) -> Option<&Chain> {
        self.outputs.as_ref().filter(|_| self.merges)
    }

    /// The files or outputs in the manifest's list of inputs.
    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        let mut inputs = match &self.outputs {
            None => self.files(),
            Some(outputs) => outputs.outputs.iter().map(as_input).collect(),
        };
        inputs.extend(self.reference.as_ref().map(ReferenceDocuments::inputs).unwrap_or_default());
        inputs
    }

    pub(super) fn reference_record(&self) -> Vec<ReferenceOutput> {
        self.reference.as_ref().map(ReferenceDocuments::record).unwrap_or_default()
    }

    pub(crate) fn stored_documents(&self) -> Result<Option<DataFrame>> {
        let stored = self.outputs.as_ref().and_then(|outputs| outputs.outputs.first());
        stored.map(|stored| stored.table(Table::Documents)).transpose()
    }

    /// The table of frequent shingles in reused or merged outputs.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.outputs.as_ref().map_or(Ok(None), Chain::frequent_shingles)
    }

    /// The earlier runs that read the texts. Empty if this run reads them.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        self.outputs.as_ref().map(Chain::origins).unwrap_or_default()
    }

    pub(crate) fn earlier(&self) -> impl Iterator<Item = &Manifest> {
        self.outputs.iter().flat_map(Chain::manifests)
    }
}

fn as_input(stored: &Stored) -> InputFile {
    let path = stored.layout().shown().to_owned();
    let bytes = stored.manifest().files().map(|file| file.bytes).sum();
    InputFile::new(path, bytes, None, Some(stored.manifest().fingerprint.clone()))
}

/// Opens an output to reuse its sketches, and checks that `job` can use them. Also returns the jobs and the files with the texts if the run
/// reads texts again.
///
/// Fails with `Kind::Input` if the output cannot be read, keeps no signatures, or has changed since the job file was read. Also fails with
/// `Kind::Input` if texts are needed and the output's source has changed. Fails with `Kind::Job` if the job needs all shingles and the
/// output keeps none, or if a dictionary numbers the shingles.
async fn open_reused(
    session: &SessionContext,
    job: &Job,
    reuse: &Reuse,
) -> Result<(Stored, Vec<(Job, Listed)>)> {
    let Reuse { output: url, keeps_shingles } = reuse;
    let stored = Stored::open(session, url).await?;
    let made = stored.job();
    let same_kept = *keeps_shingles == made.output.keep.shingles();
    // The job may use another carried column as the group, and leave documents out, so these are not compared.
    let Source { group, forgotten, .. } = made.source.clone();
    let source = Source { group, forgotten, ..job.source.clone() };
    let settings = |job: &Job| (job.shingle.clone(), job.max_frequency, job.minhash.clone());
    if !same_kept || settings(made) != settings(job) || made.source != source {
        return Err(Error::input(format!(
            "the result in {url} has changed since the job file was read: run again"
        )));
    }
    let keep = made.output.keep;
    if !keep.signatures() {
        return Err(Error::input(format!(
            "{url} keeps no signatures (output.keep = \"none\"), so its sketches cannot be used: make it again with \
             output.keep = \"signatures\""
        )));
    }
    if job.shingle.hash == ShingleHash::Dictionary {
        return Err(Error::job(format!(
            "{url} was made with shingle.hash = \"dictionary\", whose numbers are valid in one run only: read its source instead"
        )));
    }
    if AllSketches::new(job) != AllSketches::Nowhere && !keep.shingles() {
        return Err(Error::job(format!(
            "{url} keeps no shingles, and this job needs the shingles of all documents, since candidates.method is {} and \
             output.keep is {}: use \"lsh\" and \"signatures\", or read the source instead",
            quoted(job.candidates.method),
            quoted(job.output.keep)
        )));
    }
    let advice = if keep.shingles() { "" } else { KEEP_SHINGLES };
    let sources = match reason_to_read(url, keep.shingles(), job) {
        // The stages that search passages read one source.
        Some(reason) if job.passages.is_some() => vec![stored.source(&reason, advice).await?],
        Some(reason) => stored.sources(&reason, advice).await?,
        None => Vec::new(),
    };
    Ok((stored, sources))
}

/// The end of the advice to make a reused output again whose source has changed.
const KEEP_SHINGLES: &str = ", with output.keep = \"shingles\" if it should not need the source";

fn quoted(value: impl std::fmt::Debug) -> String {
    format!("\"{value:?}\"").to_lowercase()
}

/// The sections and keys that decide pairs or clusters. `clusters.keep` is missing, because it is compared with its default entries.
const RULES: &[&str] = &[
    "candidates",
    "score",
    "source.group",
    "clusters.method",
    "clusters.contained",
    "lsh.bands",
    "lsh.rows",
    "lsh.bucket_hash",
    "lsh.table_size",
    "output.expand",
    "output.max_expand",
];

/// Opens the outputs at `urls`, and checks that one run could have found their pairs. Fails with `Kind::Job` if their rules differ.
async fn open_merged(session: &SessionContext, urls: &[String], job: &Job) -> Result<Chain> {
    let chain = Chain::open(session, urls, "the command", job).await?;
    chain.check_compared()?;
    chain.check_ids().await?;
    let types = chain.types();
    for stored in &chain.outputs {
        let (made, shown) = (stored.job(), stored.layout().shown());
        let mut other = first_difference(made, job, RULES)?;
        if made.clusters.order() != job.clusters.order() {
            other = other.or(Some("clusters.keep".into()));
        }
        if let Some(key) = other {
            return Err(Error::job(format!(
                "{shown} was made with another `{key}` than the last output, so one run could not have found the pairs of both: make \
                 it again with the same one"
            )));
        }
        if stored.manifest().source != types {
            return Err(Error::job(format!(
                "{shown} has ids of another type, or other columns of the source, than the last output: make it again with the \
                 same source.id and source.columns"
            )));
        }
    }
    Ok(chain)
}

/// The documents in all outputs that no later output replaced, and the rejects in all outputs.
fn stored_documents(chain: &Chain, job: &Job) -> Result<DataFrame> {
    let types = chain.types();
    let keeps_shingles = chain.outputs.last().is_some_and(|stored| stored.job().output.keep.shingles());
    let mut documents = chain.live(|at, _| Ok(reused_columns(&types, keeps_shingles, chain.origin(at))))?;
    let mut rejects = union(chain.outputs.iter().enumerate().map(|(at, stored)| {
        Ok(stored.table(Table::Rejects)?.with_column("origin_number", chain.origin(at))?)
    }))?;
    if let Some(forgotten) = &job.source.forgotten {
        let left_out = forgotten.ids.contain(&utf8("id").unalias(), &utf8("source").unalias());
        (documents, rejects) = (documents.filter(!left_out.clone())?, rejects.filter(!left_out)?);
    }
    reused(documents, rejects, &job.lsh)
}
