//! Finished outputs in the order in which they were made. They are the reference outputs of a run, or the outputs to merge.

use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::prelude::{DataFrame, Expr, SessionContext, col, lit};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::ancestors::{self, KnownFingerprints, same_frequent};
use crate::error::{Error, Result};
use crate::frames::clusters::Founders;
use crate::frames::{self, columns, merged, reference, utf8};
use crate::job::{Job, Lsh, first_difference};
use crate::kernel::bucket_tags::tag_set;
use crate::output::manifest::{Origin, ReferenceOutput, Run};
use crate::output::results::AppliedOutput;
use crate::output::{Layout, Stored};
use crate::pipeline::numbers::keys_of;
use crate::pipeline::overlap;
use crate::schema::{SourceTypes, Table};
use crate::udf::CUT_SPAN;
use crate::udf::expr_fn::{document_key, has_tag};

/// The number of outputs that are opened at the same time.
pub(crate) const CONCURRENT_OUTPUTS: usize = 32;

/// The maximum number of tags in a condition, times the number of reference outputs. The plan contains a set for each output, with 10 bytes
/// for each tag. The limit does not depend on memory or engine, so the counts of a run do not either.
pub(in crate::pipeline) const MOST_TAGS: usize = 1 << 20;

/// Keys of documents, for conditions on tables of reference outputs. The default contains all keys.
#[derive(Clone, Default)]
pub(crate) struct KeySet(Option<Vec<u32>>);

impl KeySet {
    /// Returns the condition that `key` is in the set, or `None` if all keys are. A few other keys meet it by chance.
    pub(in crate::pipeline) fn contains(&self, key: Expr) -> Option<Expr> {
        self.0.clone().map(|set| has_tag(key, set))
    }
}

pub(crate) struct Chain {
    pub(in crate::pipeline) outputs: Vec<Stored>,
    /// The reference outputs of each output: see [`ancestors::made_against`].
    against: Vec<Vec<ReferenceOutput>>,
    /// For each output, the result of `apply` that the job names instead of it, if there is one.
    applied: Vec<Option<AppliedOutput>>,
}

impl Chain {
    /// Opens the outputs at `urls`, and checks that their signatures can be compared with the signatures of `job`. `named_by` is the
    /// setting that contains `urls`, for messages. Instead of a reference output, `urls` can contain a result of `apply` over this
    /// output.
    ///
    /// Fails with `Kind::Input` if an output cannot be read or is damaged. Fails with `Kind::Job` if an output was made with other
    /// settings, or comes before one of its reference outputs.
    pub(crate) async fn open(
        session: &SessionContext,
        urls: &[String],
        named_by: &'static str,
        job: &Job,
    ) -> Result<Self> {
        let opened = stream::iter(urls).map(|url| opened(session, url, job).boxed());
        let opened: Vec<(Stored, Option<AppliedOutput>)> =
            opened.buffered(CONCURRENT_OUTPUTS).try_collect().await?;
        let (outputs, applied): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let against = ancestors::made_against(&outputs)?;
        ancestors::check_order(&outputs, &against, named_by)?;
        same_frequent(outputs.iter()).await?;
        let chain = Self { outputs, against, applied };
        chain.check_results()?;
        Ok(chain)
    }

    /// Creates a chain with one output, without its reference outputs.
    pub(crate) fn single(output: Stored) -> Self {
        Self { outputs: vec![output], against: Vec::new(), applied: Vec::new() }
    }

    pub(crate) fn manifests(&self) -> impl Iterator<Item = &Run> {
        self.outputs.iter().map(Stored::manifest)
    }

    pub(crate) fn check_compared(&self) -> Result<()> {
        ancestors::check_compared(&self.outputs, &self.against)
    }

    /// Refuses an output that overlaps with an output in the chain or its source. `setting` is the job key or option that sets the
    /// output's URL. Fails with `Kind::Job`, with both URLs.
    pub(crate) fn refuse_overlap(&self, output: &Layout, setting: &str) -> Result<()> {
        for stored in &self.outputs {
            overlap::refuse_output(output, stored.layout(), setting)?;
            for source in stored.read_sources()? {
                overlap::refuse_urls(output, &source, setting)?;
            }
        }
        for applied in self.applied.iter().flatten() {
            overlap::refuse_output(output, applied.layout(), setting)?;
        }
        Ok(())
    }

    /// Checks that the job names the same results of `apply` as the jobs of later outputs in the chain.
    fn check_results(&self) -> Result<()> {
        let records = self.record();
        for made in self.against.iter().flatten() {
            let named = records.iter().find(|named| named.fingerprint == made.fingerprint);
            let results = made.applied.as_ref().zip(named.and_then(|named| named.applied.as_ref()));
            if let Some((own, other)) = results.filter(|(own, other)| own.fingerprint != other.fingerprint) {
                return Err(Error::job(format!(
                    "an output was made against {}, but {} is named, another result of apply over the same output: name the former \
                     in place of the latter",
                    own.url, other.url
                )));
            }
        }
        Ok(())
    }

    /// The table of frequent shingles, which is the same in all outputs. `None` if no shingle is ignored.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.outputs.first().map_or(Ok(None), Stored::frequent_shingles)
    }

    pub(crate) fn types(&self) -> SourceTypes {
        self.outputs.last().map(|stored| stored.manifest().source.clone()).unwrap_or_default()
    }

    pub(crate) fn record(&self) -> Vec<ReferenceOutput> {
        let record = |(stored, applied): (&Stored, &Option<AppliedOutput>)| ReferenceOutput {
            output: stored.layout().shown().to_owned(),
            fingerprint: stored.manifest().fingerprint.clone(),
            merged: stored.manifest().merged.clone(),
            applied: applied.as_ref().map(AppliedOutput::record),
            passages: stored.job().passages.is_some()
                || stored.origins().iter().any(|origin| !origin.job["passages"].is_null()),
        };
        self.outputs.iter().zip(&self.applied).map(record).collect()
    }

    /// The runs that read the texts.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        self.outputs.iter().flat_map(Stored::origins).collect()
    }

    /// The index in [`Self::origins`] of the first origin of the output with the index `at`.
    pub(crate) fn first_origin(&self, at: usize) -> u64 {
        self.outputs[..at].iter().map(Stored::origin_count).sum()
    }

    /// The index in [`Self::origins`] of the run that read a document in the output with the index `at`.
    pub(crate) fn origin(&self, at: usize) -> Expr {
        col("origin_number") + lit(self.first_origin(at))
    }

    /// The fingerprints of the runs that read the documents. A merged output contributes the fingerprints of its merged runs.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        let runs = |run: &Run| match run.merged.as_slice() {
            [] => vec![run.fingerprint.clone()],
            merged => merged.to_vec(),
        };
        self.manifests().flat_map(runs).collect()
    }

    /// The number of documents that the runs of the outputs replaced. For a merged output, it counts the replacements by its merged runs.
    pub(crate) fn replaced_documents(&self) -> u64 {
        let counts =
            self.manifests().flat_map(|run| [run.counts.replaced_documents, run.counts.replaced_in_sources]);
        counts.flatten().sum()
    }

    /// The number of documents that no later output replaced.
    pub(in crate::pipeline) fn live_count(&self) -> u64 {
        let replaced = self.outputs.iter().filter(|stored| is_replacing(stored));
        let replaced = replaced.filter_map(|stored| stored.manifest().counts.replaced_documents);
        self.count(Table::Documents).saturating_sub(replaced.sum())
    }

    /// The number of rows in a table in all outputs. Replaced documents are counted.
    pub(crate) fn count(&self, table: Table) -> u64 {
        let tables = self.manifests().filter_map(|run| run.tables.get(table.name()));
        tables.map(|written| written.rows).sum()
    }

    /// Whether all outputs contain tags of the buckets of `lsh`.
    pub(crate) fn has_tags(&self, lsh: &Lsh) -> bool {
        let mut jobs = self.outputs.iter().map(Stored::job);
        jobs.all(|made| made.columns().bucket_tags && made.lsh.buckets() == lsh.buckets())
    }

    pub(crate) fn all_by_components(&self) -> bool {
        self.outputs.iter().all(|stored| stored.job().clusters.method.keeps_components_whole())
    }

    pub(crate) fn replaced(&self) -> bool {
        self.outputs.iter().skip(1).any(is_replacing)
    }

    /// Checks that all outputs carry the column `name`, which the job's `key` names. Fails with `Kind::Job`, with the output that lacks
    /// it.
    pub(crate) fn check_column(&self, name: &str, key: &str) -> Result<()> {
        let lacks =
            |stored: &&Stored| stored.manifest().source.columns.iter().all(|column| column.name != name);
        match self.outputs.iter().find(lacks) {
            None => Ok(()),
            Some(stored) => Err(Error::job(format!(
                "{} does not carry the column `{name}`, which {key} names: make it again with the column among its \
                 source.columns",
                stored.layout().shown()
            ))),
        }
    }

    /// Checks that two outputs contain the same id only if the later run replaced the document. A run with reference outputs has already
    /// checked its ids against theirs, but a run with a second source has not. Fails with `Kind::Input`, with the two outputs and an id.
    pub(crate) async fn check_ids(&self) -> Result<()> {
        let seen: Vec<KnownFingerprints<'_>> =
            self.against.iter().map(|against| KnownFingerprints::new(against)).collect();
        let by_source = |later: usize| self.outputs[later].job().second_source().is_some();
        let is_seen = |later: usize, before: usize| seen[later].has(self.outputs[before].manifest());
        let has_seen = |later: usize, before: usize| is_seen(later, before) && !by_source(later);
        if (0..self.outputs.len()).all(|later| (0..later).all(|before| has_seen(later, before))) {
            return Ok(());
        }
        let shared = reference::shared_ids(self.every(Table::Documents, &[col("doc"), utf8("id")])?)?;
        for batch in shared.collect().await? {
            let run = |column: usize| as_uint64_array(batch.column(column)).map(|runs| runs.values());
            let (before, later, ids) = (run(0)?, run(1)?, as_string_array(batch.column(2))?);
            for ((&before, &later), id) in before.iter().zip(later).zip(ids.iter().flatten()) {
                let (before, later) = (before as usize, later as usize);
                if has_seen(later, before) {
                    continue;
                }
                let advice = if is_seen(later, before) {
                    "which only against.source allows: give the documents of one of them other ids, and make both again"
                } else {
                    "and neither was made by a run against the other: make one of them again with [against]"
                };
                let [before, later] = [before, later].map(|at| self.outputs[at].layout().shown());
                return Err(Error::input(format!(
                    "{before} and {later} both have a document with the id `{id}`, {advice}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the rows that `rows` returns for each output. Adds the column `run`, the index of the output.
    fn by_run(&self, rows: impl Fn(usize, &Stored) -> Result<DataFrame>) -> Result<DataFrame> {
        union(self.outputs.iter().enumerate().map(|(run, stored)| with_run(run, rows(run, stored)?)))
    }

    /// Selects `run` and `columns` from the table in all outputs.
    fn every(&self, table: Table, columns: &[Expr]) -> Result<DataFrame> {
        self.by_run(|_, stored| Ok(stored.table(table)?.select(columns.to_vec())?))
    }

    /// Returns the documents that no later run replaced. `columns` returns the columns for each output and its index, which must include
    /// `doc`.
    pub(crate) fn live(&self, columns: impl Fn(usize, &Stored) -> Result<Vec<Expr>>) -> Result<DataFrame> {
        self.live_where(None, columns)
    }

    /// Like [`Self::live`], but can omit documents for which `wanted` is false.
    pub(super) fn live_where(
        &self,
        wanted: Option<Expr>,
        columns: impl Fn(usize, &Stored) -> Result<Vec<Expr>>,
    ) -> Result<DataFrame> {
        let documents = |run: usize, stored: &Stored| -> Result<DataFrame> {
            Ok(stored.table_where(Table::Documents, wanted.clone())?.select(columns(run, stored)?)?)
        };
        let outputs = || self.outputs.iter().enumerate();
        if !self.replaced() {
            return union(outputs().map(|(run, stored)| documents(run, stored)));
        }
        let later = outputs().filter(|(_, stored)| is_replacing(stored));
        let later =
            union(later.map(|(run, stored)| {
                with_run(run, stored.table(Table::Documents)?.select(vec![col("doc")])?)
            }))?;
        merged::staying(self.by_run(documents)?, later)
    }

    pub(crate) fn clusters(&self) -> Result<DataFrame> {
        self.every(Table::Clusters, &[col("id"), col("cluster_id")])
    }

    /// Returns the set of the `keys` (key, ..), or of all keys if there are too many.
    pub(crate) async fn key_set(&self, keys: DataFrame) -> Result<KeySet> {
        let most = MOST_TAGS / self.outputs.len().max(1);
        let keys = keys_of(keys.limit(0, Some(most + 1))?).await?;
        Ok(KeySet((keys.len() <= most).then(|| tag_set(&keys, 1))))
    }

    /// The founders of clusters: see [`reference::founders`]. Without `documents`, founders that are not in `keys` can be omitted.
    pub(super) fn founders(&self, documents: Option<DataFrame>, keys: &KeySet) -> Result<Founders> {
        // A replaced founder may be in no cluster of this run.
        let all = KeySet::default();
        let keys = if documents.is_none() { keys } else { &all };
        let clusters =
            self.by_run(|_, stored| Ok(own_clusters(stored, keys)?.select(columns(["id", "cluster_id"]))?))?;
        reference::founders(clusters, documents)
    }

    pub(crate) fn founders_of_merged(&self) -> Result<Founders> {
        let documents = self.replaced().then(|| self.live(|at, _| Ok(since(at)))).transpose()?;
        self.founders(documents, &KeySet::default())
    }

    /// Returns the removed documents (doc): they do not represent the last cluster with them, or a result of `apply` removed them.
    /// Documents that are not in `keys` can be omitted.
    pub(crate) fn removed(&self, keys: &KeySet) -> Result<DataFrame> {
        let clusters = self.by_run(|run, stored| {
            let clusters = own_clusters(stored, keys)?;
            let clusters = match (&self.applied[run], stored.job().clusters.spares()) {
                (Some(applied), _) => match applied.removed()? {
                    Some(removed) => removed.with_column("representative", lit(false))?,
                    None => clusters.filter(lit(false))?,
                },
                (None, false) => clusters,
                (None, true) => merged::with_spared(clusters, stored.table(Table::Spared)?)?,
            };
            Ok(clusters.select(columns(["id", "representative"]))?)
        })?;
        let removed = reference::removed(clusters)?;
        if !self.replaced() {
            return Ok(removed.select(columns(["doc"]))?);
        }
        // A later run may have replaced a removed document with a new text.
        let documents = self.live(|at, _| Ok(since(at)))?;
        reference::removed_since(removed, documents, &[])
    }

    /// Returns the bytes (doc, byte_start, byte_end) that results of `apply` cut out of documents, if there are any.
    pub(crate) fn cuts(&self) -> Result<Option<DataFrame>> {
        let mut found = Vec::new();
        for (run, applied) in self.applied.iter().enumerate() {
            if let Some(cuts) = applied.as_ref().map(AppliedOutput::cuts).transpose()?.flatten() {
                found.push(Ok(cuts.with_column("removed_by", lit(run as u64))?));
            }
        }
        let Some(cuts) = frames::union(found)? else { return Ok(None) };
        let compared = self.live(|at, _| Ok(since(at)))?;
        let rejects = union(self.outputs.iter().enumerate().map(|(run, stored)| {
            let rejects = stored.table(Table::Rejects)?.filter(col("id").is_not_null())?;
            Ok(rejects.select(vec![document_key(col("id")).alias("doc"), lit(run as u64).alias("since")])?)
        }))?;
        let rejects = reference::without(rejects, compared.clone())?;
        let rejects = rejects.aggregate(vec![col("doc")], vec![max(col("since")).alias("since")])?;
        reference::removed_since(cuts, compared.union(rejects)?, &CUT_SPAN).map(Some)
    }

    /// Whether the rejects of the output with the index `at` still exist. A result of `apply` can omit them.
    pub(super) fn has_rejects(&self, at: usize) -> bool {
        self.applied.get(at).and_then(Option::as_ref).is_none_or(AppliedOutput::keeps_rejects)
    }

    /// The tables of decisions of the outputs that have decisions.
    pub(crate) fn decisions(&self) -> Result<Vec<DataFrame>> {
        let with = self.outputs.iter().filter(|stored| stored.job().clusters.decisions.is_some());
        with.map(|stored| stored.table(Table::Decisions)).collect()
    }

    /// Checks that decisions can be applied to the outputs. Fails with `Kind::Job`, with the first output that does not permit it.
    pub(crate) fn check_decidable(&self) -> Result<()> {
        let counts = |stored: &Stored| stored.manifest().counts.clone();
        for stored in &self.outputs {
            let why = match counts(stored) {
                counts if counts.pairs_left_out > 0 => {
                    "leaves out pairs of identical documents (stars): make it again with output.max_expand = 0"
                }
                counts if counts.replaced_documents.is_some_and(|count| count > 0) => {
                    "replaced documents of an earlier output (against.same_id = \"replace\")"
                }
                _ => continue,
            };
            return Err(Error::job(format!(
                "clusters.decisions cannot be applied to {}, which {why}",
                stored.layout().shown()
            )));
        }
        Ok(())
    }

    /// The pairs of all outputs: `run` and [`merged::pair_columns`].
    pub(crate) fn pairs(&self) -> Result<DataFrame> {
        self.every(Table::Pairs, &merged::pair_columns())
    }

    /// The pairs between groups of copies with a remaining document: see [`merged::pairs_of_groups`]. Copies have equal values in
    /// `columns`. `new` contains these columns for the new documents, if they replace documents in the outputs.
    pub(crate) fn pairs_of_groups(
        &self,
        columns: &[Expr],
        new: Option<DataFrame>,
        representatives: DataFrame,
    ) -> Result<DataFrame> {
        let mut documents = self.every(Table::Documents, columns)?;
        if let Some(new) = new {
            let names = columns.iter().map(|column| col(column.schema_name().to_string()));
            let new = new.select(names.collect::<Vec<_>>())?;
            documents = documents.union(with_run(self.outputs.len(), new)?)?;
        }
        merged::pairs_of_groups(self.pairs()?, merged::versions(documents)?, representatives)
    }
}

/// Opens the output at `url`, and checks that its signatures can be compared with the signatures of `job`.
async fn opened(session: &SessionContext, url: &str, job: &Job) -> Result<(Stored, Option<AppliedOutput>)> {
    let (stored, applied) = match job.reference() {
        Some(_) => AppliedOutput::open(session, url).await?,
        None => (Stored::open(session, url).await?, None),
    };
    let made = stored.job();
    let mut other = first_difference(made, job, &["shingle.unit", "shingle", "minhash.family", "minhash"])?;
    // Frequent shingles are counted per group.
    if job.max_frequency.is_some() && made.source.group != job.source.group {
        other = other.or(Some("source.group".into()));
    }
    if let Some(key) = other {
        return Err(Error::job(format!(
            "{url} was made with another `{key}` than this job has, so their signatures cannot be compared: give the job the same \
             one"
        )));
    }
    if !job.clusters.method.keeps_components_whole() && job.reference().is_some() {
        check_representatives(url, made, job)?;
    }
    if !stored.job().output.keep.signatures() {
        return Err(Error::input(format!(
            "{url} keeps no signatures (output.keep = \"none\"), so new documents cannot be compared with its documents: make it again \
             with output.keep = \"signatures\""
        )));
    }
    Ok((stored, applied))
}

/// Checks that new documents can join the clusters of the output at `url`. `made` is the job of this output.
fn check_representatives(url: &str, made: &Job, job: &Job) -> Result<()> {
    let method = format!("clusters.method = \"{}\"", job.clusters.method);
    if made.clusters.method != job.clusters.method || made.clusters.order() != job.clusters.order() {
        return Err(Error::job(format!(
            "{url} was made with another clusters.method or clusters.keep, and with {method} new documents must join clusters of the same \
             kind: give the job the same ones"
        )));
    }
    if let Some([why, advice]) = ancestors::own_pairs_missing(made) {
        return Err(Error::job(format!(
            "{url} was made with {why}, so it lacks pairs that {method} needs: {advice}"
        )));
    }
    Ok(())
}

/// The table `clusters` without documents from a second source. The output of that source contains the clusters of these documents.
/// Documents that are not in `keys` can be omitted.
fn own_clusters(stored: &Stored, keys: &KeySet) -> Result<DataFrame> {
    let clusters = stored.table_where(Table::Clusters, keys.contains(document_key(col("id"))))?;
    match stored.job().second_source() {
        None => Ok(clusters),
        Some(_) => Ok(clusters.filter(!col("reference"))?),
    }
}

/// The columns `doc` and `since`. `since` is the index of the output that contains the document.
pub(super) fn since(at: usize) -> Vec<Expr> {
    vec![col("doc"), lit(at as u64).alias("since")]
}

/// Whether the run of an output replaced documents in earlier outputs. False for a merged output, which contains only remaining
/// documents.
fn is_replacing(stored: &Stored) -> bool {
    let Run { merged, counts, .. } = stored.manifest();
    merged.is_empty() && counts.replaced_documents.is_some_and(|count| count > 0)
}

fn with_run(run: usize, rows: DataFrame) -> Result<DataFrame> {
    let columns = [vec![lit(run as u64).alias("run")], frames::all_columns(&rows)].concat();
    Ok(rows.select(columns)?)
}

/// Returns the reason why `job` reads the texts of the output at `url` again, or `None` if it reads none.
pub(in crate::pipeline) fn reason_to_read(url: &str, keeps_shingles: bool, job: &Job) -> Option<String> {
    if !keeps_shingles {
        Some(format!("{url} keeps no shingles"))
    } else if job.output.pair_passages {
        Some("output.pair_passages needs the texts".into())
    } else {
        job.passages.is_some().then(|| "[passages] needs the texts".into())
    }
}

/// Returns the rows of all frames. Fails with `Kind::Bug` if there is no frame.
pub(crate) fn union(frames: impl Iterator<Item = Result<DataFrame>>) -> Result<DataFrame> {
    frames::union(frames)?.ok_or_else(|| Error::bug("a chain has no output"))
}
