//! Finished results: the output of a run, the result of `apply` over an output, and the manifests of both.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use datafusion::prelude::{DataFrame, Expr, SessionContext, cast, col};
use futures::TryStreamExt;
use object_store::{ObjectStore, UpdateVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::APPLIED;
use super::check::{self, CheckDepth};
use super::layout::{BEGUN, Layout, MANIFEST, WORK, json};
use super::manifest::{AppliedReference, File, Origin, ReferenceOutput, Run, read_job};
use super::ownership::refuse_writer;
use super::read::{self, ManifestTable};
use crate::address;
use crate::error::{Context, Error, Result};
use crate::job::{self, FORMAT_VERSION, Job};
use crate::schema::{IdType, Table, contract};
use crate::udf::expr_fn::document_key;

/// A finished output in this program's format. All its files existed when it was opened.
#[derive(Clone)]
pub struct Stored {
    session: SessionContext,
    layout: Layout,
    manifest: Run,
    job: Job,
    /// The new locations of a moved source, one per URL. Empty if the source was not moved.
    places: Vec<String>,
}

impl Stored {
    /// Opens the output at `url`. Reads only its manifest and the sizes of its files.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if there is no finished output, or if another version wrote its manifest. Also if its job
    /// cannot be read, or if a file is missing or has a different size.
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let layout = Layout::open(session, url)?;
        let depth = |manifest: &Run| {
            manifest.check_format(url)?;
            Ok(CheckDepth::Sizes)
        };
        let checked = check::result(&layout, depth, &check::unseen);
        let Some((manifest, damage)) = checked.await? else { return Err(layout.unfinished().await?) };
        if damage.is_empty() {
            Ok(Self { session: session.clone(), job: manifest.job()?, layout, manifest, places: Vec::new() })
        } else {
            Err(check::damaged(&layout, &damage))
        }
    }

    /// Sets the locations to which the source was moved, one per URL, in the same order; none if it was not moved.
    #[must_use]
    pub(crate) fn with_source_in(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    pub(crate) fn session(&self) -> &SessionContext {
        &self.session
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn places(&self) -> &[String] {
        &self.places
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Run {
        &self.manifest
    }

    /// The job that was run, with every default filled in.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the run that read the texts. It is this run, or an earlier run if this run reused sketches.
    pub(crate) fn origin(&self) -> Origin {
        let Run { origin, job, fingerprint, inputs, reference_outputs, decisions, .. } = &self.manifest;
        let alone = |output: &ReferenceOutput| ReferenceOutput { merged: Vec::new(), ..output.clone() };
        let outputs = || reference_outputs.iter().map(alone).collect();
        let own = || Origin {
            job: job.clone(),
            fingerprint: fingerprint.clone(),
            inputs: inputs.clone(),
            reference_outputs: outputs(),
            decisions: decisions.clone(),
        };
        origin.clone().unwrap_or_else(own)
    }

    /// Returns the runs that read the texts. There are several runs if the output was merged.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match &self.manifest.origins {
            origins if origins.is_empty() => vec![self.origin()],
            origins => origins.clone(),
        }
    }

    pub(crate) fn origin_count(&self) -> u64 {
        self.manifest.origins.len().max(1) as u64
    }

    /// Returns the sources of the documents, as the jobs name them. Fails with `Kind::Input` if a job in the manifest cannot be read.
    pub(crate) fn read_sources(&self) -> Result<Vec<job::Source>> {
        self.origins()
            .iter()
            .map(|origin| Ok(read_job(&origin.job, &self.manifest.resemblance)?.source))
            .collect()
    }

    /// Returns the provider of a table, or `None` if the job does not write the table. Fails with `Kind::Input` if the manifest lacks a
    /// table that every job writes.
    pub(crate) fn provider(&self, table: Table) -> Result<Option<ManifestTable>> {
        let Some(written) = self.manifest.tables.get(table.name()) else {
            if table.is_optional() {
                return Ok(None);
            }
            let shown = self.layout.shown();
            return Err(Error::input(format!("the manifest of {shown} does not name the table {table}")));
        };
        let schema = contract(table).over(&self.manifest.source, self.job.columns()).arrow_schema();
        read::provider(&self.layout, &written.files, schema).map(Some)
    }

    /// Returns a lazy frame with the rows in a table, with unsigned numbers: see `read::unsigned`. Fails if the output has no such table.
    pub fn table(&self, table: Table) -> Result<DataFrame> {
        self.table_where(table, None)
    }

    /// Like [`Self::table`], but can omit rows for which `wanted` is false: see [`ManifestTable::only`].
    pub(crate) fn table_where(&self, table: Table, wanted: Option<Expr>) -> Result<DataFrame> {
        let Some(provider) = self.provider(table)? else {
            return Err(Error::input(format!("{} holds no table {table}", self.layout.shown())));
        };
        let rows = self.session.read_table(std::sync::Arc::new(provider.only(wanted)))?;
        read::unsigned(rows, table)
    }

    /// Returns the table of frequent shingles, or `None` if the job compares all shingles.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.job().max_frequency.map(|_| self.table(Table::FrequentShingles)).transpose()
    }
}

/// The format of the files that `apply` writes. Raise it with every change that produces different files.
pub(crate) const APPLY_FORMAT: u64 = 8;

/// The keys in a result's manifest that describe the applied output and its documents.
#[derive(Debug, Deserialize)]
struct ResultContents {
    fingerprint: String,
    output_url: String,
    output_fingerprint: String,
    id: IdType,
    rejects: String,
    removed: Vec<File>,
    removed_spans: Vec<File>,
}

#[derive(Debug, Deserialize)]
struct ManifestVersion {
    apply_format: u64,
    resemblance: String,
}

/// A finished result of `apply`.
pub(crate) struct AppliedOutput {
    session: SessionContext,
    target: Layout,
    contents: ResultContents,
}

/// Returns the manifest of the finished result of `apply` in the folder `target`, or `None` if the folder contains no result. Fails with
/// `Kind::Input` if the result is unfinished, another version wrote it, or the store does not answer.
pub(crate) async fn manifest<T: DeserializeOwned>(target: &Layout) -> Result<Option<T>> {
    let (records, shown) = (target.within(APPLIED), target.shown());
    let Some(ManifestVersion { apply_format, resemblance }) = records.read(MANIFEST).await? else {
        return match records.size(BEGUN).await? {
            Some(_) => Err(Error::input(format!(
                "{shown} holds an unfinished result of apply: run the same command again, which finishes it"
            ))),
            None => Ok(None),
        };
    };
    if apply_format != APPLY_FORMAT {
        return Err(Error::input(format!(
            "{shown} holds a result of apply of format {apply_format}, which resemblance {resemblance} wrote, and this version reads \
             format {APPLY_FORMAT}: use the version that wrote it, or apply the output to another folder"
        )));
    }
    records.read(MANIFEST).await
}

impl AppliedOutput {
    /// Opens the output at `url`. If `url` is a result of `apply`, opens the output that was applied. Fails with `Kind::Input` if the
    /// output was replaced after it was applied.
    pub(crate) async fn open(session: &SessionContext, url: &str) -> Result<(Stored, Option<Self>)> {
        let error = match Stored::open(session, url).await {
            Ok(stored) => return Ok((stored, None)),
            Err(error) => error,
        };
        let Some(applied) = Self::find(session, url).await? else { return Err(error) };
        let ResultContents { output_url, output_fingerprint, .. } = &applied.contents;
        let stored = Stored::open(session, output_url).await;
        let stored = stored.context(|| format!("{url} is the result of apply over {output_url}"))?;
        if stored.manifest().fingerprint != *output_fingerprint {
            return Err(Error::input(format!(
                "{url} is the result of apply over {output_url}, but {output_url} was made again since: apply it to another \
                 folder, and name that folder instead"
            )));
        }
        Ok((stored, Some(applied)))
    }

    /// Opens the finished result of `apply` in the folder `url`. Returns `None` if the folder contains no such result.
    async fn find(session: &SessionContext, url: &str) -> Result<Option<Self>> {
        let target = Layout::open(session, url)?;
        let contents = manifest(&target).await?;
        Ok(contents.map(|contents| Self { session: session.clone(), target, contents }))
    }

    /// Opens the result of `apply` that a run named instead of the reference `output`. Returns `None` if the run named the output itself.
    /// Fails with `Kind::Input` if the result is gone or was replaced.
    pub(crate) async fn recorded(session: &SessionContext, output: &ReferenceOutput) -> Result<Option<Self>> {
        let Some(record) = &output.applied else { return Ok(None) };
        match Self::find(session, &record.url).await? {
            Some(applied) if applied.record() == *record => Ok(Some(applied)),
            Some(_) | None => Err(Error::input(format!(
                "{} is not the result of apply that the run was made against: bring it back, or run the job again with --overwrite",
                record.url
            ))),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.target
    }

    /// Returns the entry for this result in the manifest of a run.
    pub(crate) fn record(&self) -> AppliedReference {
        AppliedReference {
            url: self.target.shown().to_owned(),
            fingerprint: self.contents.fingerprint.clone(),
        }
    }

    /// Whether the result keeps documents that the job rejected.
    pub(crate) fn keeps_rejects(&self) -> bool {
        self.contents.rejects == "keep"
    }

    /// Returns the removed documents (id), or `None` if no document was removed.
    pub(crate) fn removed(&self) -> Result<Option<DataFrame>> {
        self.table(&self.contents.removed, &[])
    }

    /// Returns the byte ranges (doc, byte_start: UInt64, byte_end: UInt64) that were cut out of texts, or `None` if nothing was cut.
    pub(crate) fn cuts(&self) -> Result<Option<DataFrame>> {
        let ends = ["byte_start", "byte_end"];
        let Some(rows) = self.table(&self.contents.removed_spans, &ends)? else { return Ok(None) };
        let mut columns = vec![document_key(col("id")).alias("doc")];
        columns.extend(ends.map(|end| cast(col(end), DataType::UInt64).alias(end)));
        Ok(Some(rows.select(columns)?))
    }

    /// Returns the column `id` and the given integer columns of a table, or `None` if the table has no rows.
    fn table(&self, files: &[File], numbers: &[&str]) -> Result<Option<DataFrame>> {
        if files.iter().all(|file| file.rows == 0) {
            return Ok(None);
        }
        let mut fields = vec![Field::new("id", self.contents.id.arrow(), false)];
        fields.extend(numbers.iter().map(|name| Field::new(*name, DataType::Int64, false)));
        read::frame(&self.session, &self.target, files, Arc::new(Schema::new(fields))).map(Some)
    }
}

/// The key in the manifest of a result of `apply` that names the applied output.
#[derive(Deserialize)]
struct PublishedOutput {
    output_url: String,
}

impl Layout {
    /// Whether the output contains a manifest, or any file in the folders of this program.
    pub(crate) async fn exists(&self) -> Result<bool> {
        let folders = Table::ALL.map(Table::name).into_iter().chain([WORK]);
        if let Some(root) = self.folder() {
            return Ok(folders.chain([MANIFEST]).any(|name| root.join(name).exists()));
        }
        for folder in folders {
            if self.store.list(Some(&self.path(folder))).try_next().await?.is_some() {
                return Ok(true);
            }
        }
        Ok(self.manifest_bytes().await?.is_some())
    }

    /// Whether nothing is stored here, not even a damaged output or files of other programs.
    pub(crate) async fn is_missing(&self) -> Result<bool> {
        Ok(!self.exists().await? && self.holds_beside(|_| false).await?.is_none())
    }

    /// Returns the bytes of `manifest.json` and their version in the store, or `None` if the file does not exist.
    pub(crate) async fn manifest_bytes(&self) -> Result<Option<(Bytes, UpdateVersion)>> {
        self.read_bytes(MANIFEST).await
    }

    /// Returns the bytes of `manifest.json` and the time of the put in milliseconds since 1970, or `None` if the file does not exist.
    pub(super) async fn published_manifest(&self) -> Result<Option<(Bytes, i64)>> {
        let found = self.read_object(MANIFEST).await?;
        Ok(found.map(|(bytes, meta)| (bytes, meta.last_modified.timestamp_millis())))
    }

    /// Reads the manifest of a finished run. Returns `None` if no run has finished here. The tables may be in another format: see
    /// [`Run::check_format`].
    pub(crate) async fn manifest(&self) -> Result<Option<Run>> {
        let Some((bytes, _)) = self.manifest_bytes().await? else { return Ok(None) };
        let manifest = self.parse::<Run>(MANIFEST, &bytes);
        if manifest.is_err() {
            refuse_writer(&bytes, self.shown())?;
        }
        let manifest = manifest.map(Some)?;
        // The names in a newer manifest may have different meanings.
        if let Some(newer) = manifest.as_ref().filter(|run| run.format_version > u64::from(FORMAT_VERSION)) {
            newer.check_format(self.shown())?;
        }
        Ok(manifest)
    }

    /// Writes a JSON file atomically, syncs it on a local disk, and returns it as a file of `table`. Replaces the file of an earlier attempt.
    pub(crate) async fn put_record<T: Serialize>(
        &self,
        table: &str,
        inside: &str,
        value: &T,
    ) -> Result<File> {
        let bytes = json(value)?;
        let is_put = match self.read_bytes(inside).await? {
            Some((found, version)) => self.replace_bytes(inside, bytes.clone(), &found, &version).await?,
            None => self.create_whole(inside, bytes.clone()).await?,
        };
        if !is_put {
            return Err(Error::input(format!("another process writes {}/{inside}", self.shown())));
        }
        let (size, crc32) = (bytes.len() as u64, crc32fast::hash(&bytes));
        Ok(File { table: table.to_owned(), path: inside.to_owned(), rows: 0, bytes: size, crc32 })
    }

    pub(crate) async fn unfinished(&self) -> Result<Error> {
        let shown = self.shown();
        if let Some(missing) = address::missing(shown) {
            return Ok(Error::input(format!("{missing}: name what a job has as output.url")));
        }
        let applied: Option<PublishedOutput> = self.within(APPLIED).read(MANIFEST).await?;
        Ok(Error::input(match (applied, self.is_applied().await?) {
            (Some(PublishedOutput { output_url }), _) => {
                format!("{shown} holds a result of apply: name the output that was applied, {output_url}")
            }
            (None, true) => format!("{shown} holds a result of apply: name the output that was applied"),
            (None, false) => format!(
                "{shown} holds no finished output (no manifest.json): name what a job has as output.url, and run that job to its end"
            ),
        }))
    }

    /// Whether the folder contains a finished or unfinished result of `apply`.
    pub(crate) async fn is_applied(&self) -> Result<bool> {
        let records = self.within(APPLIED);
        Ok(records.size(MANIFEST).await?.is_some() || records.size(BEGUN).await?.is_some())
    }

    /// Returns the names of the stages with a manifest for `key`, sorted.
    pub(crate) async fn stages(&self, key: &str) -> Result<Vec<String>> {
        let listed = self.store.list_with_delimiter(Some(&self.path(WORK))).await;
        let listed = listed.context(|| format!("cannot list {}/{WORK}", self.shown()))?;
        let ending = format!(".{key}.json");
        let names = listed.objects.iter().filter_map(|object| object.location.filename());
        let mut stages: Vec<String> =
            names.filter_map(|name| name.strip_suffix(&ending)).map(str::to_owned).collect();
        stages.sort_unstable();
        Ok(stages)
    }

    /// Removes a stage. Its manifest is removed before its `files`, so that no run reuses a partly removed stage.
    pub(crate) async fn remove_stage(&self, stage: &str, key: &str, files: &[File]) -> Result<()> {
        self.discard(&Self::stage(stage, key)).await?;
        self.remove(files.iter().map(|file| self.path(&file.path)).collect()).await
    }
}
