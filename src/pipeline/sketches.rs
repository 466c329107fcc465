//! The sketches that candidates are compared by: stored by a step, or cut from the texts a second time.
//!
//! Of many documents, a candidate names few. So shingles, which are nearly all of a sketch's bytes, are not written between
//! the steps: the positions of those documents are, and their texts alone are read again. Where every document's shingles
//! are needed, more than once at that, or the user wants to have them, they are stored.

use datafusion::prelude::{DataFrame, col};

use super::numbers::one_number;
use super::step::Step;
use super::steps::Steps;
use super::tables::{WorkTable, sketch_table};
use crate::error::{Error, Result};
use crate::job::{DuplicateIds, Job};
use crate::schema::Table;
use crate::source::{self, Listed, Selection};
use crate::stage;

/// Where sketches come from.
pub(super) struct Sketches<'a> {
    pub(super) job: &'a Job,
    /// The source, as this run listed it.
    pub(super) listed: &'a Listed,
}

impl Sketches<'_> {
    /// Sketches of all documents, for jobs that need them.
    pub(super) fn of_all(&self, steps: &Steps<'_>) -> Result<DataFrame> {
        match sketch_table(self.job) {
            Some(stored) => steps.table(stored),
            None => Err(Error::bug("the sketches of all documents were not stored")),
        }
    }

    /// Sketches of the documents that the candidates of a table name, and perhaps of others.
    pub(super) async fn of_candidates(&self, steps: &mut Steps<'_>, table: WorkTable) -> Result<DataFrame> {
        match sketch_table(self.job) {
            Some(stored) => steps.table(stored),
            None => {
                let needed = stage::scores::needed(steps.table(table)?)?;
                let bytes = steps.rows(table) * BYTES_OF_POSITION;
                self.cut_again(steps, (Step::Positions, WorkTable::Positions), needed, bytes).await
            }
        }
    }

    /// Sketches of the documents `needed` (needed), of which there are few.
    pub(super) async fn of_sample(&self, steps: &mut Steps<'_>, needed: DataFrame) -> Result<DataFrame> {
        match sketch_table(self.job) {
            Some(stored) => stage::sketches::among(steps.table(stored)?, needed),
            None => {
                steps.expect(1);
                let step = (Step::SamplePositions, WorkTable::SamplePositions);
                self.cut_again(steps, step, needed, 0).await
            }
        }
    }

    /// Sketches of the documents that were joined by their prefixes, and perhaps of others.
    pub(super) fn of_joined(&self, steps: &Steps<'_>) -> Result<DataFrame> {
        steps.table(sketch_table(self.job).unwrap_or(WorkTable::HotSketches.into()))
    }

    /// Sketches of the documents of hot buckets, and perhaps of others. They are read several times, so they are written.
    pub(super) async fn of_hot(&self, steps: &mut Steps<'_>) -> Result<DataFrame> {
        if let Some(stored) = sketch_table(self.job) {
            return steps.table(stored);
        }
        let needed = steps.table(WorkTable::Hot)?.select(vec![col("a").alias("needed")])?;
        let bytes = steps.rows(WorkTable::Hot) * BYTES_OF_POSITION;
        let step = (Step::HotPositions, WorkTable::HotPositions);
        let sketches = self.cut_again(steps, step, needed, bytes).await?;
        steps.run(Step::HotSketches, 0, vec![sketches]).await?;
        self.of_joined(steps)
    }

    /// Bytes of a sketch, about.
    pub(super) async fn bytes_of_one(&self, steps: &Steps<'_>) -> Result<u64> {
        let bytes = stage::scores::held_bytes(steps.table(Table::Documents)?, self.job.minhash.permutations)?;
        Ok(one_number(bytes).await? / steps.rows(Table::Documents).max(1))
    }

    /// Finds where the texts of the documents `needed` (needed) are, and reads them again.
    async fn cut_again(
        &self,
        steps: &mut Steps<'_>,
        (step, table): (Step, WorkTable),
        needed: DataFrame,
        bytes: u64,
    ) -> Result<DataFrame> {
        let documents = steps.table(Table::Documents)?;
        let bytes = bytes + steps.rows(Table::Documents) * BYTES_OF_POSITION;
        let positions = stage::sketches::positions(documents, needed.clone())?;
        steps.run(step, bytes, vec![positions]).await?;
        let session = steps.session();
        let documents = match self.selection(steps, table).await? {
            Some(wanted) => {
                let read = source::open_wanted(session, &self.job.source, self.listed, wanted).await?;
                stage::documents::documents(read.frame)?
            }
            None => {
                let read = source::open_listed(session, &self.job.source, self.listed).await?;
                let documents = stage::documents::documents(read.frame)?;
                let documents = match self.job.source.duplicate_ids {
                    DuplicateIds::Error => documents,
                    DuplicateIds::Reject => {
                        stage::duplicates::reject(documents, steps.table(WorkTable::Duplicates)?)?
                    }
                };
                stage::sketches::only(documents, needed)?
            }
        };
        stage::sketches::sketches(documents, self.job)
    }

    /// The positions that `table` holds; none where a bit for each document is too much to hold, or to send.
    async fn selection(&self, steps: &Steps<'_>, table: WorkTable) -> Result<Option<Selection>> {
        let most = match self.job.engine.cluster {
            Some(_) => MAX_SENT_BYTES,
            None => steps.task_bytes() as u64 / SHARE_OF_SELECTION,
        };
        if (steps.rows(Table::Documents) + steps.rows(Table::Rejects)) / 8 > most {
            tracing::info!(
                "there are too many documents to name those whose texts are read again, so all texts are read"
            );
            return Ok(None);
        }
        Ok(Some(Selection::of_rows(steps.table(table)?).await?))
    }
}

/// Bytes of a row (document, file, position), of which the file costs little.
const BYTES_OF_POSITION: u64 = 32;

/// What a task may reserve is so many times what the selection may take.
const SHARE_OF_SELECTION: u64 = 16;

/// Bytes of a selection that travels to a cluster inside of a plan.
const MAX_SENT_BYTES: u64 = 4 << 20;
