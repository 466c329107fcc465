//! The outputs of earlier runs, in the order in which they were made: what a run goes on from, or what is merged.

use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, Expr, SessionContext, col, lit};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::lineage::{self, Seen};
use super::numbers::utf8;
use crate::error::{Error, Result};
use crate::job::{ClusterMethod, Job};
use crate::output::manifest::{KnownOutput, Origin};
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;
use crate::schema::{SourceTypes, Table};
use crate::stage::{self, known, merged};

/// Outputs that are opened at the same time.
pub(super) const CONCURRENT_OUTPUTS: usize = 32;

/// Finished outputs, one at least, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Earlier {
    outputs: Vec<Stored>,
}

impl Earlier {
    /// Opens the outputs at `urls`, which the user gave as `named_by`, and makes sure that they fit `job`: what decides signatures
    /// is the same.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where one cannot be read or is damaged; [`Kind::Job`](crate::error::Kind::Job)
    /// where one needs another one that is not named before it, or was made with other settings.
    pub(super) async fn open(
        session: &SessionContext,
        urls: &[String],
        named_by: &'static str,
        job: &Job,
    ) -> Result<Self> {
        let opened = stream::iter(urls).map(|url| opened(session, url, job).boxed());
        let outputs: Vec<Stored> = opened.buffered(CONCURRENT_OUTPUTS).try_collect().await?;
        lineage::check_order(&outputs, named_by)?;
        Ok(Self { outputs })
    }

    /// Makes sure that every two of their documents were compared.
    ///
    /// # Errors
    /// As [`lineage::check_compared`].
    pub(super) fn check_compared(&self) -> Result<()> {
        lineage::check_compared(&self.outputs)
    }

    /// Refuses an output that overlaps with one of these, or with a source that one of these was read from. `setting` is what the
    /// user calls the output's URL.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(super) fn refuse_overlap(&self, output: &Layout, setting: &str) -> Result<()> {
        for stored in &self.outputs {
            overlap::refuse_output(output, stored.layout(), setting)?;
            for source in stored.read_sources()? {
                overlap::refuse_urls(output, &source, setting)?;
            }
        }
        Ok(())
    }

    /// The outputs.
    pub(super) fn outputs(&self) -> &[Stored] {
        &self.outputs
    }

    /// What the last one's tables take from its source.
    pub(super) fn types(&self) -> SourceTypes {
        self.outputs.last().map(|stored| stored.manifest().source.clone()).unwrap_or_default()
    }

    /// What a manifest says of them.
    pub(super) fn record(&self) -> Vec<KnownOutput> {
        let record = |stored: &Stored| KnownOutput {
            output: stored.layout().shown().to_owned(),
            fingerprint: stored.manifest().fingerprint.clone(),
            merged: stored.manifest().merged.clone(),
        };
        self.outputs.iter().map(record).collect()
    }

    /// The runs that cut the texts.
    pub(super) fn origins(&self) -> Vec<Origin> {
        self.outputs.iter().flat_map(Stored::origins).collect()
    }

    /// The fingerprints of the runs whose documents these hold: of a merged output, of those that it is merged from.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        let of_one = |stored: &Stored| match &stored.manifest().merged {
            merged if merged.is_empty() => vec![stored.manifest().fingerprint.clone()],
            merged => merged.clone(),
        };
        self.outputs.iter().flat_map(of_one).collect()
    }

    /// How many documents were compared, those among them that a later run replaced.
    pub(super) fn count(&self) -> u64 {
        let count = |stored: &Stored| stored.manifest().counts.get("documents").copied().unwrap_or(0);
        self.outputs.iter().map(count).sum()
    }

    /// Whether a run of these replaced documents of earlier ones.
    pub(super) fn replaced(&self) -> bool {
        self.outputs.iter().any(is_replacing)
    }

    /// Makes sure that all outputs carry the column `name`, which `key` of the job asks for.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the output that does not.
    pub(super) fn check_column(&self, name: &str, key: &str) -> Result<()> {
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

    /// Makes sure that no two of the outputs have a document of one id, but where a later run replaced it. Runs that have seen each
    /// other have made sure of it.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) with the two outputs and an id.
    pub(super) async fn check_ids(&self, session: &SessionContext) -> Result<()> {
        let seen: Vec<Seen<'_>> = self.outputs.iter().map(|stored| Seen::by(stored.manifest())).collect();
        let has_seen = |later: usize, earlier: usize| seen[later].has(self.outputs[earlier].manifest());
        if (0..self.outputs.len()).all(|later| (0..later).all(|earlier| has_seen(later, earlier))) {
            return Ok(());
        }
        let shared = known::shared(self.every(session, |_| vec![col("doc"), utf8("id")])?)?;
        for batch in shared.collect().await? {
            let run = |column: usize| as_uint64_array(batch.column(column)).map(|runs| runs.values());
            let (earlier, later, ids) = (run(0)?, run(1)?, as_string_array(batch.column(2))?);
            for ((&earlier, &later), id) in earlier.iter().zip(later).zip(ids.iter().flatten()) {
                let (earlier, later) = (earlier as usize, later as usize);
                if !has_seen(later, earlier) {
                    return Err(Error::input(format!(
                        "{} and {} both have a document with the id `{id}`, and neither was made by a run against the other: make \
                         one of them again with [against]",
                        self.outputs[earlier].layout().shown(),
                        self.outputs[later].layout().shown()
                    )));
                }
            }
        }
        Ok(())
    }

    /// All documents, with the columns that `columns` gives for each output, behind the `run`: the place of the output.
    fn every(&self, session: &SessionContext, columns: impl Fn(&Stored) -> Vec<Expr>) -> Result<DataFrame> {
        union(self.outputs.iter().enumerate().map(|(run, stored)| {
            let columns = [vec![lit(run as u64).alias("run")], columns(stored)].concat();
            Ok(stored.table(session, Table::Documents)?.select(columns)?)
        }))
    }

    /// The documents that are there, without those that a later run replaced: `doc`, and the other columns that `columns` gives for
    /// the output at each place.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn live(
        &self,
        session: &SessionContext,
        columns: impl Fn(usize, &Stored) -> Result<Vec<Expr>>,
    ) -> Result<DataFrame> {
        let replaces = self.replaced();
        let documents = union(self.outputs.iter().enumerate().map(|(run, stored)| {
            let mut columns = columns(run, stored)?;
            if replaces {
                columns.push(lit(run as u64).alias("run"));
            }
            Ok(stored.table(session, Table::Documents)?.select(columns)?)
        }))?;
        if !replaces {
            return Ok(documents);
        }
        let later = self.outputs.iter().enumerate().filter(|(_, stored)| is_replacing(stored));
        let later = union(later.map(|(run, stored)| {
            let columns = vec![lit(run as u64).alias("run"), col("doc")];
            Ok(stored.table(session, Table::Documents)?.select(columns)?)
        }))?;
        merged::staying(documents, later)
    }

    /// The same where all outputs have these columns.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn all_live(&self, session: &SessionContext, columns: Vec<Expr>) -> Result<DataFrame> {
        self.live(session, |_, _| Ok(columns.clone()))
    }

    /// (run, id, cluster_id) of all outputs.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn clusters(&self, session: &SessionContext) -> Result<DataFrame> {
        union(self.outputs.iter().enumerate().map(|(run, stored)| {
            let columns = vec![lit(run as u64).alias("run"), col("id"), col("cluster_id")];
            Ok(stored.table(session, Table::Clusters)?.select(columns)?)
        }))
    }

    /// The documents (id) whose id is that of a cluster.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn founders(&self, session: &SessionContext) -> Result<DataFrame> {
        known::founders(self.clusters(session)?)
    }

    /// The pairs of all outputs, as [`merged::pairs`] has them.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn pairs(&self, session: &SessionContext) -> Result<DataFrame> {
        let outputs = self.outputs.iter().enumerate();
        union(outputs.map(|(run, stored)| merged::pairs(stored.table(session, Table::Pairs)?, run)))
    }

    /// What the outputs' pairs say of groups of copies that still have a document, where documents were replaced: see
    /// [`merged::pairs_of_groups`]. `columns` are those that decide which documents are copies, and `new` (doc, ..) documents that replace
    /// others now.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn pairs_of_groups(
        &self,
        session: &SessionContext,
        columns: &[Expr],
        new: Option<DataFrame>,
        representatives: DataFrame,
    ) -> Result<DataFrame> {
        let mut documents = self.every(session, |_| columns.to_vec())?;
        if let Some(new) = new {
            let run = lit(self.outputs.len() as u64).alias("run");
            documents = documents.union(new.select([&[run], columns].concat())?)?;
        }
        merged::pairs_of_groups(self.pairs(session)?, merged::versions(documents)?, representatives)
    }
}

/// Opens the output at `url`, and makes sure that its documents can be compared with those of `job`.
async fn opened(session: &SessionContext, url: &str, job: &Job) -> Result<Stored> {
    let stored = Stored::open(session, url).await?;
    let made = stored.job()?;
    if made.known_source().is_some() {
        return Err(Error::job(format!(
            "{url} links its documents to a second source (against.source), whose documents it does not hold, so no run can go on \
             from it: name outputs of jobs without one"
        )));
    }
    if let Some(key) = other_key(&made, job) {
        return Err(Error::job(format!(
            "{url} was made with another `{key}` than this job has, so their signatures cannot be compared: give the job the same \
             one"
        )));
    }
    if made.clusters.method != ClusterMethod::Components {
        return Err(Error::job(format!(
            "{url} was made with clusters.method = \"representative\", so its clusters do not say which documents are connected and \
             no run can go on from it: make it again with \"components\""
        )));
    }
    if !stored.manifest().keep()?.signatures() {
        return Err(Error::input(format!(
            "{url} keeps no signatures (output.keep = \"none\"), so no run can go on from it: make it again with output.keep = \
             \"signatures\""
        )));
    }
    Ok(stored)
}

/// Whether a run replaced documents of earlier ones.
fn is_replacing(stored: &Stored) -> bool {
    stored.manifest().counts.get("replaced_documents").is_some_and(|&count| count > 0)
}

/// The first key of those that decide signatures which the two jobs have differently.
fn other_key(made: &Job, job: &Job) -> Option<&'static str> {
    let (a, b, c, d) = (&made.shingle, &job.shingle, &made.minhash, &job.minhash);
    let keys = [
        ("shingle.normalize", a.normalize == b.normalize),
        ("shingle.unit", a.unit == b.unit),
        ("shingle.words", a.words == b.words),
        ("shingle.size", a.size == b.size),
        ("shingle.separator", a.separator == b.separator),
        ("shingle.hash", a.hash == b.hash),
        ("shingle.min_words", a.min_words == b.min_words),
        ("shingle.short", a.short == b.short),
        ("minhash.permutations", c.permutations == d.permutations),
        ("minhash.seed", c.seed == d.seed),
        ("minhash.family", c.family == d.family),
        ("minhash.coefficients", c.coefficients == d.coefficients),
    ];
    first_other(&keys)
}

/// The first key of (key, whether two jobs have it alike) that they have differently.
pub(super) fn first_other(keys: &[(&'static str, bool)]) -> Option<&'static str> {
    keys.iter().find(|(_, same)| !same).map(|(key, _)| *key)
}

/// The rows of all frames, of which there is one at least.
pub(super) fn union(frames: impl Iterator<Item = Result<DataFrame>>) -> Result<DataFrame> {
    stage::union(frames)?.ok_or_else(|| Error::bug("there is no earlier output"))
}
