//! The outputs of earlier runs, in the order in which they were made: what a run goes on from, or what is merged.

use datafusion::prelude::{DataFrame, Expr, SessionContext, col, lit};

use super::numbers::first_ids;
use crate::error::{Error, Result};
use crate::job::{ClusterMethod, Job};
use crate::output::manifest::{KnownOutput, Origin, Run};
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;
use crate::schema::{SourceTypes, Table};
use crate::stage::{self, known, merged};

/// Finished outputs, one at least, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Earlier {
    outputs: Vec<Stored>,
    /// What names them, for messages: a key of the job, or the command.
    named_by: &'static str,
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
        let mut outputs = Vec::with_capacity(urls.len());
        for url in urls {
            let stored = Stored::open(session, url).await?;
            let made = stored.job()?;
            if made.known_source().is_some() {
                return Err(Error::job(format!(
                    "{url} links its documents to a second source (against.source), whose documents it does not hold, so no run can \
                     go on from it: name outputs of jobs without one"
                )));
            }
            if let Some(key) = other_key(&made, job) {
                return Err(Error::job(format!(
                    "{url} was made with another `{key}` than this job has, so their signatures cannot be compared: give the \
                     job the same one"
                )));
            }
            if made.clusters.method != ClusterMethod::Components {
                return Err(Error::job(format!(
                    "{url} was made with clusters.method = \"representative\", so its clusters do not say which documents are connected \
                     and no run can go on from it: make it again with \"components\""
                )));
            }
            if !stored.manifest().keep()?.signatures() {
                return Err(Error::input(format!(
                    "{url} keeps no signatures (output.keep = \"none\"), so no run can go on from it: make it again with \
                     output.keep = \"signatures\""
                )));
            }
            outputs.push(stored);
        }
        let earlier = Self { outputs, named_by };
        earlier.check_order()?;
        Ok(earlier)
    }

    /// Every output that a run compared its documents with has to be named before it: else its clusters would name documents
    /// that nobody knows.
    fn check_order(&self) -> Result<()> {
        let mut named: Vec<&str> = Vec::new();
        for stored in &self.outputs {
            let Run { known, merged, fingerprint, .. } = stored.manifest();
            if let Some(missing) = known.iter().find(|known| !named.contains(&known.fingerprint.as_str())) {
                return Err(Error::job(format!(
                    "{} was made by a run against {}, which {} does not name before it: name both, in the order in which they \
                     were made",
                    stored.layout().shown(),
                    missing.output,
                    self.named_by
                )));
            }
            if named.contains(&fingerprint.as_str()) {
                return Err(Error::job(format!(
                    "{} holds a result that {} names twice: name each one once",
                    stored.layout().shown(),
                    self.named_by
                )));
            }
            named.push(fingerprint);
            named.extend(merged.iter().map(String::as_str));
        }
        Ok(())
    }

    /// Refuses an output that overlaps with one of these.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(super) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        self.outputs
            .iter()
            .try_for_each(|stored| overlap::refuse_output(output, stored.layout(), "output.url"))
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
        };
        self.outputs.iter().map(record).collect()
    }

    /// The runs that cut the texts.
    pub(super) fn origins(&self) -> Vec<Origin> {
        self.outputs.iter().flat_map(Stored::origins).collect()
    }

    /// The fingerprints of these, and of those that they are merged from themselves.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        let of_one = |stored: &Stored| {
            let Run { fingerprint, merged, .. } = stored.manifest();
            std::iter::once(fingerprint.clone()).chain(merged.iter().cloned()).collect::<Vec<_>>()
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
        self.outputs.iter().any(replaces)
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

    /// Makes sure that no two of the outputs have a document of one id, but where a later run replaced it. Runs that knew each
    /// other have made sure of it.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) with the two outputs and an id.
    pub(super) async fn check_ids(&self, session: &SessionContext) -> Result<()> {
        for (at, later) in self.outputs.iter().enumerate() {
            for earlier in self.outputs.iter().take(at) {
                let fingerprint = &earlier.manifest().fingerprint;
                if later.manifest().known.iter().any(|known| known.fingerprint == *fingerprint) {
                    continue;
                }
                let there = earlier.table(session, Table::Documents)?;
                let same = known::same(later.table(session, Table::Documents)?, there)?;
                if let Some(id) = first_ids(same, 1).await?.first() {
                    return Err(Error::input(format!(
                        "{} and {} both have a document with the id {id}, and neither was made by a run against the other: make \
                         one of them again with [against]",
                        earlier.layout().shown(),
                        later.layout().shown()
                    )));
                }
            }
        }
        Ok(())
    }

    /// The documents of the output at place `at`, without those that a later one replaced.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn live(&self, session: &SessionContext, at: usize) -> Result<DataFrame> {
        let Some(stored) = self.outputs.get(at) else {
            return Err(Error::bug(format!("there is no output {at}")));
        };
        let mut documents = stored.table(session, Table::Documents)?;
        for later in self.outputs.iter().skip(at + 1).filter(|later| replaces(later)) {
            documents = known::without(documents, later.table(session, Table::Documents)?)?;
        }
        Ok(documents)
    }

    /// Columns that all outputs have, of all documents that are there.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn all_live(&self, session: &SessionContext, columns: Vec<Expr>) -> Result<DataFrame> {
        union((0..self.outputs.len()).map(|at| Ok(self.live(session, at)?.select(columns.clone())?)))
    }

    /// (id, cluster_id) of each output, in their order.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn clusters(&self, session: &SessionContext) -> Result<Vec<DataFrame>> {
        let columns = || vec![col("id"), col("cluster_id")];
        let of_one = |stored: &Stored| Ok(stored.table(session, Table::Clusters)?.select(columns())?);
        self.outputs.iter().map(of_one).collect()
    }

    /// The documents (id) whose id is that of a cluster.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn founders(&self, session: &SessionContext) -> Result<DataFrame> {
        let founders = known::founders(&self.clusters(session)?)?;
        founders.ok_or_else(|| Error::bug("there is no earlier output"))
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
        let of_run = |documents: DataFrame, run: usize| {
            Ok(documents.select([&[lit(run as u64).alias("run")], columns].concat())?)
        };
        let outputs = self.outputs.iter().enumerate();
        let documents = outputs.map(|(run, stored)| of_run(stored.table(session, Table::Documents)?, run));
        let new = new.map(|new| of_run(new, self.outputs.len()));
        let versions = merged::versions(union(documents.chain(new))?)?;
        merged::pairs_of_groups(self.pairs(session)?, versions, representatives)
    }
}

/// Whether a run replaced documents of earlier ones.
fn replaces(stored: &Stored) -> bool {
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
