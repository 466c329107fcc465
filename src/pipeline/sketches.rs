//! The sketches that candidates are compared by: stored by a step, or cut from the texts a second time.
//!
//! Of many documents, a candidate names few. So shingles, which are nearly all of a sketch's bytes, are not written between
//! the steps: the positions of those documents are, and their texts alone are read again. Where every document's shingles
//! are needed, more than once at that, or the user wants to have them, they are stored.

use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;
use tokio::sync::OnceCell;

use super::input::Input;
use super::known::Known;
use super::numbers::{keys_of, one_number};
use super::step::Step;
use super::steps::Steps;
use super::tables::{AllSketches, WorkTable};
use crate::error::{Error, Result};
use crate::job::{self, Job};
use crate::schema::Table;
use crate::source::{self, Listed, Selection};
use crate::stage;

/// Bytes of a row (document, file, position), of which the file costs little.
const BYTES_OF_POSITION: u64 = 32;

/// What a task may reserve is so many times what the selection may take.
const SHARE_OF_SELECTION: u64 = 16;

/// Bytes of a selection that travels to a cluster inside of a plan.
const MAX_SENT_BYTES: u64 = 4 << 20;

/// Where sketches come from.
pub(super) struct Sketches<'a> {
    pub(super) steps: &'a Steps<'a>,
    pub(super) job: &'a Job,
    /// Where texts are read, or kept sketches.
    input: &'a Input,
    /// The documents that are known already, if the job compares its own with such.
    pub(super) known: Option<&'a Known>,
    /// Bytes of a sketch, about, once somebody asked.
    bytes_of_one: OnceCell<u64>,
}

/// Sketches (doc, shingles, signature, ..) that are there, or are cut when they are read.
pub(super) struct Sketched {
    pub(super) frame: DataFrame,
    /// How many they are, at most.
    pub(super) count: u64,
}

/// Documents whose texts are cut again.
pub(super) struct TextsToCut {
    /// Finds where their texts are, and writes that into the table.
    step: Step,
    table: WorkTable,
    /// Their keys (needed).
    needed: DataFrame,
    /// Bytes that finding the keys shuffles.
    bytes: u64,
}

impl<'a> Sketches<'a> {
    pub(super) fn new(
        steps: &'a Steps<'a>,
        job: &'a Job,
        input: &'a Input,
        known: Option<&'a Known>,
    ) -> Self {
        Self { steps, job, input, known, bytes_of_one: OnceCell::new() }
    }

    /// Sketches of the job's own documents, where they are stored.
    pub(super) fn stored_new(&self) -> Result<Option<DataFrame>> {
        let stored = match AllSketches::of(self.job) {
            AllSketches::Written(table) => self.steps.table(table)?,
            AllSketches::Kept => match self.input.sketches(self.steps.session())? {
                Some(kept) => kept,
                None => return Err(Error::bug("the output that is used again keeps no shingles")),
            },
            AllSketches::Nowhere => return Ok(None),
        };
        Ok(Some(stored.select(sketch())?))
    }

    /// The same with those of known documents that are touched.
    pub(super) fn stored(&self) -> Result<Option<DataFrame>> {
        let Some(new) = self.stored_new()? else { return Ok(None) };
        Ok(Some(match self.known {
            Some(_) => new.union(self.steps.table(WorkTable::Known)?.select(sketch())?)?,
            None => new,
        }))
    }

    /// The known documents (doc) that are touched, if there may be any.
    pub(super) fn known_docs(&self) -> Result<Option<DataFrame>> {
        Ok(self.touched()?.map(|known| known.select(vec![col("doc")])).transpose()?)
    }

    /// The rows of `frame` (doc, ..) with a column that says which documents are known, if any may be.
    pub(super) fn marked(&self, frame: DataFrame) -> Result<DataFrame> {
        match self.known_docs()? {
            Some(known) => stage::mark::mark(frame, known),
            None => Ok(frame),
        }
    }

    /// Sketches of all documents, for jobs that need them.
    pub(super) fn of_all(&self) -> Result<DataFrame> {
        self.stored()?.ok_or_else(|| Error::bug("the sketches of all documents were not stored"))
    }

    /// Sketches of the documents `needed` (needed), of which there are few.
    pub(super) async fn of_sample(&self, needed: DataFrame) -> Result<DataFrame> {
        if let Some(stored) = self.stored()? {
            return stage::sketches::among(stored, needed);
        }
        let (step, table) = (Step::SamplePositions, WorkTable::SamplePositions);
        let wanted = TextsToCut { step, table, needed, bytes: 0 };
        self.steps.expect(1);
        self.find(&wanted).await?;
        self.cut(wanted).await
    }

    /// Sketches of the documents that were joined by their prefixes, and perhaps of others.
    pub(super) fn of_joined(&self) -> Result<Sketched> {
        let table = WorkTable::HotSketches;
        match self.stored()? {
            Some(frame) => Ok(Sketched { frame, count: self.count() }),
            None => Ok(Sketched { frame: self.steps.table(table)?, count: self.steps.rows(table) }),
        }
    }

    /// Sketches of the documents that candidates name, and perhaps of others.
    pub(super) async fn of_candidates(&self, named: TextsToCut) -> Result<Sketched> {
        if let Some(frame) = self.stored()? {
            return Ok(Sketched { frame, count: self.count() });
        }
        let frame = self.cut(named).await?;
        let count = self.steps.rows(WorkTable::Positions) + self.steps.rows(WorkTable::Known);
        Ok(Sketched { frame, count })
    }

    /// Signatures (doc, signature) of all documents, if they are there.
    pub(super) fn signatures(&self) -> Result<Option<Sketched>> {
        let signature = || vec![col("doc"), col("signature")];
        let frame = match self.stored()? {
            Some(stored) => stored.select(signature())?,
            None if self.job.output.keep.signatures() => {
                let new = self.steps.table(Table::Documents)?.select(signature())?;
                match self.touched()? {
                    Some(known) => new.union(known.select(signature())?)?,
                    None => new,
                }
            }
            None => return Ok(None),
        };
        Ok(Some(Sketched { frame, count: self.count() }))
    }

    /// How many documents there are, with known ones.
    fn count(&self) -> u64 {
        self.steps.rows(Table::Documents) + self.steps.rows(WorkTable::Known)
    }

    /// The documents that `candidates` (a, b) name, of which there are so many at most.
    pub(super) fn wanted_of_candidates(&self, candidates: DataFrame, rows: u64) -> Result<TextsToCut> {
        let (needed, bytes) = (stage::scores::needed(candidates)?, rows * BYTES_OF_POSITION);
        Ok(TextsToCut { step: Step::Positions, table: WorkTable::Positions, needed, bytes })
    }

    /// The documents of hot buckets.
    pub(super) fn wanted_of_hot(&self) -> Result<TextsToCut> {
        let needed = self.steps.table(WorkTable::Hot)?.select(vec![col("a").alias("needed")])?;
        let bytes = self.steps.rows(WorkTable::Hot) * BYTES_OF_POSITION;
        Ok(TextsToCut { step: Step::HotPositions, table: WorkTable::HotPositions, needed, bytes })
    }

    /// Bytes of a sketch, about.
    pub(super) async fn bytes_of_one(&self) -> Result<u64> {
        let known = self.bytes_of_one.get_or_try_init(|| async {
            let size = || vec![col("shingle_count")];
            let mut documents = self.steps.table(Table::Documents)?.select(size())?;
            if let Some(known) = self.touched()? {
                documents = documents.union(known.select(size())?)?;
            }
            let bytes = stage::scores::held_bytes(documents, self.job.minhash.permutations)?;
            Ok(one_number(bytes).await? / self.count().max(1))
        });
        known.await.copied()
    }

    /// Finds where the texts of documents are, as far as their shingles are not there.
    pub(super) async fn find(&self, wanted: &TextsToCut) -> Result<()> {
        let known = self.touched()?.map(|known| known.filter(col("shingles").is_null())).transpose()?;
        self.find_among(known, wanted.step, wanted.needed.clone(), wanted.bytes).await
    }

    /// Finds where the texts of the documents `needed` (needed) are.
    pub(super) async fn find_texts(&self, needed: DataFrame) -> Result<()> {
        let bytes = self.steps.rows(WorkTable::Members) * BYTES_OF_POSITION;
        self.find_among(self.touched()?, Step::TextPositions, needed, bytes).await
    }

    /// The known documents that are touched, if there may be any.
    fn touched(&self) -> Result<Option<DataFrame>> {
        self.known.map(|_| self.steps.table(WorkTable::Known)).transpose()
    }

    /// Finds in `step` where the texts of the documents `needed` are: of the job's own, and of `known` ones.
    async fn find_among(
        &self,
        known: Option<DataFrame>,
        step: Step,
        needed: DataFrame,
        bytes: u64,
    ) -> Result<()> {
        let steps = self.steps;
        let no_origin = lit(ScalarValue::UInt64(None)).alias("origin");
        let at = |origin| vec![col("source"), col("position"), col("doc"), origin];
        let mut documents = steps.table(Table::Documents)?.select(at(no_origin))?;
        if let Some(known) = known {
            documents = documents.union(known.select(at(col("origin")))?)?;
        }
        let rows = steps.rows(Table::Documents) + steps.rows(WorkTable::Known);
        let positions = stage::sketches::positions(documents, needed)?;
        steps.run(step, bytes + rows * BYTES_OF_POSITION, vec![positions]).await
    }

    /// Reads those texts again, once it was found where they are, and takes the sketches that are there.
    pub(super) async fn cut(&self, wanted: TextsToCut) -> Result<DataFrame> {
        let texts = self.at(wanted.table, Some(&self.job.shingle)).await?;
        let mut sketches = Vec::with_capacity(texts.len() + 1);
        for texts in texts {
            sketches.push(stage::sketches::sketches(texts, self.job));
        }
        if self.known.is_some() {
            let kept = self.steps.table(WorkTable::Known)?.filter(col("shingles").is_not_null())?;
            sketches.push(Ok(stage::sketches::among(kept, wanted.needed)?.select(sketch())?));
        }
        stage::union(sketches)?.ok_or_else(|| Error::bug("there is no source to read texts from"))
    }

    /// Reads the texts of pairs, once it was found where they are: (doc, text, bytes).
    pub(super) async fn texts(&self) -> Result<Vec<DataFrame>> {
        let texts = self.at(WorkTable::TextPositions, None).await?;
        texts.into_iter().map(stage::passages::texts).collect()
    }

    /// The documents, as [`stage::documents`] has them, that stand at the positions of a table. Who takes no text from them but its
    /// shingles says how it is cut: long ones are not held whole then.
    async fn at(&self, table: WorkTable, cut: Option<&job::Shingle>) -> Result<Vec<DataFrame>> {
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read again, and no file was listed"));
        };
        let steps = self.steps;
        let positions = steps.table(table)?;
        let own = positions.clone().filter(col("origin").is_null())?;
        let documents = steps.rows(Table::Documents) + steps.rows(Table::Rejects);
        let own_source = [(&self.job.source, listed)];
        let mut frames = self.read_at(own, &own_source, documents, cut).await?;
        let of_origin = |origin: usize| positions.clone().filter(col("origin").eq(lit(origin as u64)));
        let known = positions.clone().filter(col("origin").is_not_null())?;
        let origins = keys_of(known.select(vec![col("origin")])?.distinct()?).await?;
        let is_needed = |origin: usize| origins.contains(&(origin as u64));
        match self.known {
            Some(Known::Source(source)) if is_needed(0) => {
                let documents = steps.rows(WorkTable::KnownKeys);
                let known = self.read_at(of_origin(0)?, &[source.files()], documents, cut).await?;
                for texts in known {
                    frames.push(stage::known::turned(texts)?);
                }
            }
            None | Some(Known::Source(_)) => {}
            Some(Known::Outputs(outputs)) => {
                for (origin, sources) in outputs.sources().filter(|(origin, _)| is_needed(*origin)) {
                    let sources: Vec<_> =
                        sources.iter().map(|(made, listed)| (&made.source, listed)).collect();
                    let there = of_origin(origin)?;
                    frames.extend(self.read_at(there, &sources, outputs.earlier.count(), cut).await?);
                }
            }
        }
        Ok(frames)
    }

    /// The documents that stand at `positions` in the files of some sources, one at least, of about so many documents.
    async fn read_at(
        &self,
        positions: DataFrame,
        sources: &[(&job::Source, &Listed)],
        documents: u64,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let session = self.steps.session();
        let open = async |source, listed, wanted| match cut {
            Some(shingle) => source::open_cut(session, source, listed, wanted, shingle).await,
            None => source::open_texts(session, source, listed, wanted).await,
        };
        let mut wanted = self.selection(positions.clone(), documents).await?;
        let mut frames = Vec::with_capacity(sources.len());
        for (at, (source, listed)) in sources.iter().enumerate() {
            frames.push(match &mut wanted {
                Some(wanted) => {
                    let of_source = listed.take(wanted);
                    // The first one gives a frame also where nothing is wanted.
                    if of_source.is_empty() && at > 0 {
                        continue;
                    }
                    stage::documents::documents(open(source, listed, Some(of_source)).await?.frame)?
                }
                None => {
                    let documents = stage::documents::documents(open(source, listed, None).await?.frame)?;
                    stage::sketches::at(documents, positions.clone())?
                }
            });
        }
        if let Some(wanted) = wanted {
            wanted.all_taken()?;
        }
        Ok(frames)
    }

    /// The positions, among about so many documents; `None` if a bit for each document is too much to hold, or to send.
    async fn selection(&self, positions: DataFrame, documents: u64) -> Result<Option<Selection>> {
        let most = match self.job.engine.cluster {
            Some(_) => MAX_SENT_BYTES,
            None => self.steps.task_bytes() as u64 / SHARE_OF_SELECTION,
        };
        if documents / 8 > most {
            tracing::info!("too many documents need their texts again, so all texts are read");
            return Ok(None);
        }
        Ok(Some(Selection::of_rows(positions).await?))
    }
}

/// The columns of a sketch.
fn sketch() -> Vec<Expr> {
    ["doc", "shingle_count", "shingles", "signature"].map(col).to_vec()
}
