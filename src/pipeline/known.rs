//! The documents that earlier runs know, and what is needed of them: sketches, texts and clusters.

use arrow::datatypes::DataType;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use datafusion::scalar::ScalarValue;

use super::known_ids::{keys, replaces};
use super::overlap;
use super::steps::Steps;
use super::tables::AllSketches;
use crate::error::{Error, Result};
use crate::job::{Against, Job};
use crate::output::manifest::KnownOutput;
use crate::output::{Layout, Stored};
use crate::schema::{SourceTypes, Table};
use crate::source::Listed;
use crate::stage;

/// What clusters grow from: those of earlier runs.
pub(super) struct KnownClusters {
    /// (id, doc, shingle_count) of all known documents.
    pub(super) documents: DataFrame,
    /// (id) of those whose id is that of a cluster.
    pub(super) founders: DataFrame,
    /// (a, b): which documents were connected.
    pub(super) connections: DataFrame,
}

/// The finished outputs whose documents are known.
#[derive(Debug)]
pub(super) struct Known {
    outputs: Vec<One>,
}

/// One of them.
#[derive(Debug)]
struct One {
    stored: Stored,
    /// The sources that its texts are in, with the jobs that read them; `None` if the output keeps shingles, because then no
    /// text is read.
    sources: Option<Vec<(Job, Listed)>>,
}

impl Known {
    /// Opens the outputs that `job` names; `None` if it names none.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where one cannot be read, is damaged, or needs another one that is not named;
    /// [`Kind::Job`](crate::error::Kind::Job) where it was made with other settings.
    pub(super) async fn find(session: &SessionContext, job: &Job) -> Result<Option<Self>> {
        let Some(Against { outputs: urls, .. }) = &job.against else { return Ok(None) };
        let mut outputs = Vec::with_capacity(urls.len());
        for url in urls {
            outputs.push(One::open(session, job, url).await?);
        }
        let known = Self { outputs };
        known.check_order()?;
        Ok(Some(known))
    }

    /// Every output that a run compared its documents with has to be named before it: else its clusters would name documents
    /// that nobody knows, and no document would be compared with those.
    fn check_order(&self) -> Result<()> {
        let mut named: Vec<&str> = Vec::new();
        for One { stored, .. } in &self.outputs {
            let manifest = stored.manifest();
            if let Some(missing) = manifest.known.iter().find(|known| !named.contains(&&*known.fingerprint)) {
                return Err(Error::job(format!(
                    "{} was made by a run against {}, which against.output does not name before it: name both, in the order in \
                     which they were made",
                    stored.layout().shown(),
                    missing.output
                )));
            }
            named.push(&manifest.fingerprint);
            named.extend(manifest.merged.iter().map(String::as_str));
        }
        Ok(())
    }

    /// Refuses an output that overlaps with one of these.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(super) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        self.outputs.iter().try_for_each(|one| overlap::refuse_output(output, one.stored.layout()))
    }

    /// What the manifest says of them.
    pub(super) fn record(&self) -> Vec<KnownOutput> {
        let record = |one: &One| KnownOutput {
            output: one.stored.layout().shown().to_owned(),
            fingerprint: one.stored.manifest().fingerprint.clone(),
        };
        self.outputs.iter().map(record).collect()
    }

    /// Makes sure that ids are of one type, here and in the source.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the output whose ids are of another one.
    pub(super) fn check_types(&self, types: &SourceTypes) -> Result<()> {
        for One { stored, .. } in &self.outputs {
            let there = stored.manifest().source.id;
            if there != types.id {
                return Err(Error::job(format!(
                    "ids are of type {:?} in {} and of type {:?} in the source: give source.id a column of the same type",
                    there,
                    stored.layout().shown(),
                    types.id
                )));
            }
        }
        Ok(())
    }

    /// How many documents are known.
    pub(super) fn count(&self) -> u64 {
        self.outputs.iter().map(|one| one.stored.manifest().counts.get("documents").copied().unwrap_or(0)).sum()
    }

    /// All known documents: (origin: UInt64, id, source, position, doc, shingle_count, set_hash_0, set_hash_1, signature,
    /// shingles), of which the last is null where an output keeps none. `origin` is the place of the output among these. A
    /// document that a later output replaced is not among them.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn documents(&self, session: &SessionContext) -> Result<DataFrame> {
        let columns =
            ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature"];
        let of_one = |at: usize, one: &One| -> Result<DataFrame> {
            let mut columns = columns.map(col).to_vec();
            columns.insert(0, lit(at as u64).alias("origin"));
            columns.push(match one.sources {
                None => col("shingles"),
                Some(_) => {
                    let none = ScalarValue::try_from(&DataType::new_list(DataType::UInt64, true))?;
                    lit(none).alias("shingles")
                }
            });
            Ok(self.live(session, at)?.select(columns)?)
        };
        union(self.outputs.iter().enumerate().map(|(at, one)| of_one(at, one)))
    }

    /// The columns of all known documents that no text is needed for: (id, doc, shingle_count).
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn names(&self, session: &SessionContext) -> Result<DataFrame> {
        let columns = ["id", "doc", "shingle_count"].map(col).to_vec();
        union((0..self.outputs.len()).map(|at| Ok(self.live(session, at)?.select(columns.clone())?)))
    }

    /// The documents of an output, without those that a later one replaced.
    fn live(&self, session: &SessionContext, at: usize) -> Result<DataFrame> {
        let Some(One { stored, .. }) = self.outputs.get(at) else {
            return Err(Error::bug(format!("there is no known output {at}")));
        };
        let mut documents = stored.table(session, Table::Documents)?;
        for later in self.outputs.iter().skip(at + 1).filter(|later| later.replaces()) {
            documents = stage::known::without(documents, later.stored.table(session, Table::Documents)?)?;
        }
        Ok(documents)
    }

    /// What the clusters of the run grow from.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn grown(&self, steps: &Steps<'_>, job: &Job) -> Result<KnownClusters> {
        let session = steps.session();
        let columns = || vec![col("id"), col("cluster_id")];
        let of_one = |one: &One| Ok(one.stored.table(session, Table::Clusters)?.select(columns())?);
        let clusters = self.outputs.iter().map(of_one).collect::<Result<Vec<_>>>()?;
        let Some(founders) = stage::known::founders(&clusters)? else {
            return Err(Error::bug("there is no known output"));
        };
        let connections = union(clusters.into_iter().map(stage::known::connected))?;
        let mut documents = self.names(session)?;
        if replaces(job) {
            documents = stage::known::without(documents, keys(steps)?)?;
        }
        Ok(KnownClusters { documents, founders, connections })
    }

    /// The sources that texts of known documents are read from, each with the place of its output and the job that read it.
    pub(super) fn sources(&self) -> impl Iterator<Item = (usize, &Job, &Listed)> {
        let places = self.outputs.iter().enumerate();
        places.flat_map(|(at, one)| one.sources.iter().flatten().map(move |(job, listed)| (at, job, listed)))
    }
}

impl One {
    /// Opens the output at `url`, and makes sure that `job` can use it.
    async fn open(session: &SessionContext, job: &Job, url: &str) -> Result<Self> {
        let stored = Stored::open(session, url).await?;
        let made = stored.job()?;
        if let Some(key) = other_key(&made, job) {
            return Err(Error::job(format!(
                "{url} was made with another `{key}` than this job has, so their signatures cannot be compared: give the job \
                 the same one"
            )));
        }
        let keep = stored.manifest().keep()?;
        if !keep.signatures() {
            return Err(Error::input(format!(
                "{url} keeps no signatures (output.keep = \"none\"), so nothing can be compared with its documents: make it again \
                 with output.keep = \"signatures\""
            )));
        }
        let sources = match keep.shingles() {
            true => None,
            false if AllSketches::of(job) != AllSketches::Nowhere => {
                return Err(Error::job(format!(
                    "{url} keeps no shingles, and this job needs those of all documents: use candidates.method = \"lsh\" and \
                     output.keep = \"signatures\", or make that output again with output.keep = \"shingles\""
                )));
            }
            false => {
                let (why, or) = (format!("{url} keeps no shingles"), KEEP_THEM);
                Some(stored.sources(session, &why, or).await?)
            }
        };
        Ok(Self { stored, sources })
    }

    /// Whether its run replaced documents of earlier ones.
    fn replaces(&self) -> bool {
        self.stored.manifest().counts.get("replaced_documents").is_some_and(|&count| count > 0)
    }
}

/// What helps where the source of a known output has changed.
const KEEP_THEM: &str = ", with output.keep = \"shingles\" if later runs should not need the source";

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
    keys.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
}

/// The rows of all frames, of which there is one at least.
fn union(frames: impl Iterator<Item = Result<DataFrame>>) -> Result<DataFrame> {
    let mut all: Option<DataFrame> = None;
    for frame in frames {
        let frame = frame?;
        all = Some(match all {
            Some(all) => all.union(frame)?,
            None => frame,
        });
    }
    all.ok_or_else(|| Error::bug("there is no known output"))
}
