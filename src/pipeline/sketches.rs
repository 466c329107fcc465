//! The sketches by which candidates are compared: stored by a stage, or cut from the texts a second time.
//!
//! Candidates name few of many documents. So shingles, which are nearly all bytes of a sketch, are not written between
//! the stages: the positions of those documents are written, and only their texts are read again. Shingles are stored
//! if those of every document are needed, if they are needed more than once, or if the user wants to keep them.

use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col};

use super::all_sketches::AllSketches;
use super::context::StageContext;
use super::numbers::one_number;
use super::runner::Planned;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames;
use crate::frames::prefix::Join;
use crate::schema::Table;

/// Sketches (doc, shingles, signature, ..) that are stored, or are cut when they are read.
pub(super) struct Sketched {
    pub(super) frame: DataFrame,
    /// An upper bound of their number.
    pub(super) count: u64,
}

/// The columns of a sketch.
pub(super) const SKETCH: [&str; 4] = ["doc", "shingle_count", "shingles", "signature"];

impl StageContext<'_> {
    /// Stored sketches of the job's own documents, if there are any.
    fn sketches_of_new(&self) -> Result<Option<DataFrame>> {
        let stored = match AllSketches::of(self.job) {
            AllSketches::InDocuments => self.table(Table::Documents)?,
            AllSketches::InSketches => self.table(WorkTable::SKETCHES)?,
            AllSketches::Kept => match self.input.sketches()? {
                Some(kept) => kept,
                None => return Err(Error::bug("the output that is used again keeps no shingles")),
            },
            AllSketches::Nowhere => return Ok(None),
        };
        Ok(Some(stored.select(columns(&SKETCH))?))
    }

    /// The same with those of reference documents that may match.
    fn stored_sketches(&self) -> Result<Option<DataFrame>> {
        let Some(new) = self.sketches_of_new()? else { return Ok(None) };
        Ok(Some(match self.reference {
            Some(_) => new.union(self.table(WorkTable::REFERENCE)?.select(columns(&SKETCH))?)?,
            None => new,
        }))
    }

    /// The rows of `frame` (doc, ..) with a column that marks reference documents, if there are any.
    pub(super) fn marked(&self, frame: DataFrame) -> Result<DataFrame> {
        match self.reference_docs()? {
            Some(known) => frames::mark::mark(frame, known),
            None => Ok(frame),
        }
    }

    /// The sketches in the prefix join.
    pub(super) fn documents_to_join(&self) -> Result<DataFrame> {
        if self.job.candidates.method.joins_all() {
            return frames::copies::without_copies(self.of_all()?, self.table(WorkTable::COPIES)?);
        }
        frames::prefix::only(self.of_joined()?.frame, self.table(WorkTable::HOT)?)
    }

    /// Those of new documents; copies are included until their groups are known.
    pub(super) fn new_documents_to_join(&self) -> Result<DataFrame> {
        if self.reference.is_some() && self.job.candidates.method.joins_all() {
            return self.sketches_of_new()?.ok_or_else(not_stored);
        }
        match self.reference_docs()? {
            Some(known) => frames::reference::without(self.documents_to_join()?, known),
            None => self.documents_to_join(),
        }
    }

    /// The prefix join of the documents.
    pub(super) async fn join(&self) -> Result<&Join> {
        let known = self.join.get_or_try_init(|| async {
            let (score, permutations) = (&self.job.score, self.job.minhash.permutations);
            let elements = frames::prefix::elements(self.new_documents_to_join()?, score, permutations)?;
            Ok(Join::new(score, permutations, one_number(elements).await?, self.reference.is_some()))
        });
        known.await
    }

    /// Sketches of all documents, for jobs that need them.
    pub(super) fn of_all(&self) -> Result<DataFrame> {
        self.stored_sketches()?.ok_or_else(not_stored)
    }

    /// Sketches of at least the documents in the prefix join.
    pub(super) fn of_joined(&self) -> Result<Sketched> {
        let table = WorkTable::HOT_SKETCHES;
        match self.stored_sketches()? {
            Some(frame) => Ok(Sketched { frame, count: self.count() }),
            None => Ok(Sketched { frame: self.table(table)?, count: self.rows(table) }),
        }
    }

    /// Sketches of at least the documents `needed` (needed) of candidates.
    pub(super) async fn of_candidates(&self, needed: DataFrame) -> Result<Sketched> {
        if let Some(frame) = self.stored_sketches()? {
            return Ok(Sketched { frame, count: self.count() });
        }
        let (at, known) = (WorkTable::POSITIONS, self.reference_documents()?);
        let frame = self.sketches(at, needed, known, &SKETCH).await?;
        Ok(Sketched { frame, count: self.rows(at) + self.rows(WorkTable::REFERENCE) })
    }

    /// The columns `names` of the sketches of the documents `needed` (needed).
    ///
    /// Stored sketches and the `known` sketches of reference documents are read. All others are cut from their texts, at the
    /// `positions` that [`Self::find_uncut`] found.
    pub(super) async fn sketches(
        &self,
        positions: WorkTable,
        needed: DataFrame,
        known: Option<DataFrame>,
        names: &[&str],
    ) -> Result<DataFrame> {
        let mut found = vec![match self.sketches_of_new()? {
            Some(new) => Ok(frames::sketches::among(new, needed.clone())?.select(columns(names))?),
            None => {
                let frequent = self.frequent()?;
                let cut = |texts| {
                    let sketches = frames::sketches::sketches(texts, self.job, frequent.clone())?;
                    Ok(sketches.select(columns(names))?)
                };
                self.texts(self.table(positions)?, Some(&self.job.shingle), cut).await
            }
        }];
        if let Some(known) = known {
            let stored = known.filter(col("shingles").is_not_null())?;
            found.push(Ok(frames::sketches::among(stored, needed)?.select(columns(names))?));
        }
        frames::union(found)?.ok_or_else(not_stored)
    }

    /// Finds the positions of the texts of the documents `needed` (needed), as far as their shingles are not stored.
    pub(super) fn find_uncut(
        &self,
        needed: DataFrame,
        bytes: u64,
        known: Option<DataFrame>,
    ) -> Result<Planned<'static>> {
        let known = known.map(|known| known.filter(col("shingles").is_null())).transpose()?;
        self.find(needed, bytes, known)
    }

    /// Signatures (doc, signature) of all documents, if they are stored.
    pub(super) fn signatures(&self) -> Result<Option<Sketched>> {
        let signature = || columns(&["doc", "signature"]);
        let frame = match self.stored_sketches()? {
            Some(stored) => stored.select(signature())?,
            None if self.job.output.keep.signatures() => {
                let new = self.table(Table::Documents)?.select(signature())?;
                match self.reference_documents()? {
                    Some(known) => new.union(known.select(signature())?)?,
                    None => new,
                }
            }
            None => return Ok(None),
        };
        Ok(Some(Sketched { frame, count: self.count() }))
    }

    /// The number of documents, including reference documents.
    fn count(&self) -> u64 {
        self.rows(Table::Documents) + self.rows(WorkTable::REFERENCE)
    }

    /// Average bytes of a sketch.
    pub(super) async fn bytes_of_one(&self) -> Result<u64> {
        let known = self.bytes_of_sketch.get_or_try_init(|| async {
            let size = || vec![col("shingle_count")];
            let mut documents = self.table(Table::Documents)?.select(size())?;
            if let Some(known) = self.reference_documents()? {
                documents = documents.union(known.select(size())?)?;
            }
            let bytes = frames::scores::held_bytes(documents, &self.job.minhash)?;
            Ok(one_number(bytes).await? / self.count().max(1))
        });
        known.await.copied()
    }

    /// The reference documents that clusters may have, with the columns of the work table of reference documents.
    pub(super) fn clustered_reference(&self) -> Result<Option<DataFrame>> {
        match self.reference_outputs() {
            Some(outputs) => outputs.documents(self).map(Some),
            None => self.reference_documents(),
        }
    }
}

fn columns(names: &[&str]) -> Vec<Expr> {
    names.iter().map(|name| col(*name)).collect()
}

fn not_stored() -> Error {
    Error::bug("the sketches of all documents were not stored")
}
