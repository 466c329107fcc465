//! The sketches that candidates are compared by: stored by a step, or cut from the texts a second time.
//!
//! Of many documents, a candidate names few. So shingles, which are nearly all of a sketch's bytes, are not written between
//! the steps: the positions of those documents are, and their texts alone are read again. Where every document's shingles
//! are needed, more than once at that, or the user wants to have them, they are stored.

use datafusion::prelude::{DataFrame, col};
use tokio::sync::OnceCell;

use super::input::Input;
use super::numbers::one_number;
use super::step::Step;
use super::steps::Steps;
use super::tables::{AllSketches, WorkTable};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::schema::Table;
use crate::source::{self, Selection};
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
    /// Bytes of a sketch, about, once somebody asked.
    bytes_of_one: OnceCell<u64>,
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
    pub(super) fn new(steps: &'a Steps<'a>, job: &'a Job, input: &'a Input) -> Self {
        Self { steps, job, input, bytes_of_one: OnceCell::new() }
    }

    /// Sketches of all documents, where they are stored.
    pub(super) fn stored(&self) -> Result<Option<DataFrame>> {
        match AllSketches::of(self.job) {
            AllSketches::Written(table) => self.steps.table(table).map(Some),
            AllSketches::Kept => {
                let Some(kept) = self.input.sketches(self.steps.session())? else {
                    return Err(Error::bug("the output that is used again keeps no shingles"));
                };
                let columns = ["doc", "shingle_count", "shingles", "signature"];
                Ok(Some(kept.select(columns.map(col).to_vec())?))
            }
            AllSketches::Nowhere => Ok(None),
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
    pub(super) fn of_joined(&self) -> Result<DataFrame> {
        match self.stored()? {
            Some(stored) => Ok(stored),
            None => self.steps.table(WorkTable::HotSketches),
        }
    }

    /// The documents that the candidates of a table name.
    pub(super) fn wanted_of_candidates(&self, candidates: WorkTable) -> Result<TextsToCut> {
        let needed = stage::scores::needed(self.steps.table(candidates)?)?;
        let bytes = self.steps.rows(candidates) * BYTES_OF_POSITION;
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
            let documents = self.steps.table(Table::Documents)?;
            let bytes = stage::scores::held_bytes(documents, self.job.minhash.permutations)?;
            Ok(one_number(bytes).await? / self.steps.rows(Table::Documents).max(1))
        });
        known.await.copied()
    }

    /// Finds where the texts of documents are.
    pub(super) async fn find(&self, wanted: &TextsToCut) -> Result<()> {
        let documents = self.steps.table(Table::Documents)?;
        let bytes = wanted.bytes + self.steps.rows(Table::Documents) * BYTES_OF_POSITION;
        let positions = stage::sketches::positions(documents, wanted.needed.clone())?;
        self.steps.run(wanted.step, bytes, vec![positions]).await
    }

    /// Reads those texts again, once it was found where they are.
    pub(super) async fn cut(&self, wanted: TextsToCut) -> Result<DataFrame> {
        let (session, Job { source, shingle, .. }) = (self.steps.session(), self.job);
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read again, and no file was listed"));
        };
        let documents = match self.selection(wanted.table).await? {
            Some(selection) => {
                let read = source::open_cut(session, source, listed, Some(selection), shingle).await?;
                stage::documents::documents(read.frame)?
            }
            None => {
                let read = source::open_cut(session, source, listed, None, shingle).await?;
                let documents = stage::documents::documents(read.frame)?;
                stage::sketches::at(documents, self.steps.table(wanted.table)?)?
            }
        };
        stage::sketches::sketches(documents, self.job)
    }

    /// The positions that `table` holds; `None` if a bit for each document is too much to hold, or to send.
    async fn selection(&self, table: WorkTable) -> Result<Option<Selection>> {
        let steps = self.steps;
        let most = match self.job.engine.cluster {
            Some(_) => MAX_SENT_BYTES,
            None => steps.task_bytes() as u64 / SHARE_OF_SELECTION,
        };
        if (steps.rows(Table::Documents) + steps.rows(Table::Rejects)) / 8 > most {
            tracing::info!("too many documents need their texts again, so all texts are read");
            return Ok(None);
        }
        Ok(Some(Selection::of_rows(steps.table(table)?).await?))
    }
}
