//! The sketches by which candidates are compared: stored by a stage, or cut from the texts a second time.
//!
//! Candidates name few of many documents. So shingles, which are nearly all bytes of a sketch, are not written between
//! the stages: the positions of those documents are written, and only their texts are read again. Shingles are stored
//! if those of every document are needed, if they are needed more than once, or if the user wants to keep them.

use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::all_sketches::AllSketches;
use super::candidate_pairs::CandidatePairs;
use super::context::StageContext;
use super::numbers::one_number;
use super::runner::Planned;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames;
use crate::frames::prefix::Join;
use crate::schema::Table;

/// Bytes of a row (document, file, position); the file takes little.
const BYTES_OF_POSITION: u64 = 32;

/// Sketches (doc, shingles, signature, ..) that are stored, or are cut when they are read.
pub(super) struct Sketched {
    pub(super) frame: DataFrame,
    /// An upper bound of their number.
    pub(super) count: u64,
}

/// Documents whose texts are cut again.
pub(super) struct TextsToCut {
    /// The table with the positions of their texts.
    pub(super) table: WorkTable,
    /// Their keys (needed).
    pub(super) needed: DataFrame,
    /// Bytes that the search for the keys shuffles.
    pub(super) bytes: u64,
}

impl StageContext<'_> {
    /// Stored sketches of the job's own documents, if there are any.
    pub(super) fn sketches_of_new(&self) -> Result<Option<DataFrame>> {
        let stored = match AllSketches::of(self.job) {
            AllSketches::InDocuments => self.table(Table::Documents)?,
            AllSketches::InSketches => self.table(WorkTable::SKETCHES)?,
            AllSketches::Kept => match self.input.sketches()? {
                Some(kept) => kept,
                None => return Err(Error::bug("the output that is used again keeps no shingles")),
            },
            AllSketches::Nowhere => return Ok(None),
        };
        Ok(Some(stored.select(sketch())?))
    }

    /// The same with those of reference documents that may match.
    pub(super) fn stored_sketches(&self) -> Result<Option<DataFrame>> {
        let Some(new) = self.sketches_of_new()? else { return Ok(None) };
        Ok(Some(match self.reference {
            Some(_) => new.union(self.table(WorkTable::REFERENCE)?.select(sketch())?)?,
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
            let stored = self.sketches_of_new()?;
            return stored.ok_or_else(|| Error::bug("the sketches of all documents were not stored"));
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
        self.stored_sketches()?.ok_or_else(|| Error::bug("the sketches of all documents were not stored"))
    }

    /// Sketches of at least the documents in the prefix join.
    pub(super) fn of_joined(&self) -> Result<Sketched> {
        let table = WorkTable::HOT_SKETCHES;
        match self.stored_sketches()? {
            Some(frame) => Ok(Sketched { frame, count: self.count() }),
            None => Ok(Sketched { frame: self.table(table)?, count: self.rows(table) }),
        }
    }

    /// Sketches of at least the documents of candidates.
    pub(super) async fn of_candidates(&self, named: TextsToCut) -> Result<Sketched> {
        if let Some(frame) = self.stored_sketches()? {
            return Ok(Sketched { frame, count: self.count() });
        }
        let frame = self.cut(named).await?;
        let count = self.rows(WorkTable::POSITIONS) + self.rows(WorkTable::REFERENCE);
        Ok(Sketched { frame, count })
    }

    /// Signatures (doc, signature) of all documents, if they are stored.
    pub(super) fn signatures(&self) -> Result<Option<Sketched>> {
        let signature = || vec![col("doc"), col("signature")];
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

    /// The documents of candidates whose scores are not known.
    pub(super) fn wanted_of_candidates(&self) -> Result<TextsToCut> {
        let CandidatePairs { pairs, rows } = CandidatePairs::to_compare(self)?;
        let (needed, bytes) = (frames::scores::needed(pairs)?, rows * BYTES_OF_POSITION);
        Ok(TextsToCut { table: WorkTable::POSITIONS, needed, bytes })
    }

    /// The documents of hot buckets.
    pub(super) fn wanted_of_hot(&self) -> Result<TextsToCut> {
        let needed = self.table(WorkTable::HOT)?.select(vec![col("a").alias("needed")])?;
        let bytes = self.rows(WorkTable::HOT) * BYTES_OF_POSITION;
        Ok(TextsToCut { table: WorkTable::HOT_POSITIONS, needed, bytes })
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

    /// Finds the positions of the texts of documents whose shingles are not stored.
    pub(super) fn find(&self, wanted: &TextsToCut) -> Result<Planned> {
        let known =
            self.reference_documents()?.map(|known| known.filter(col("shingles").is_null())).transpose()?;
        self.find_among(known, wanted.needed.clone(), wanted.bytes)
    }

    /// Finds the positions of the texts of the documents `needed` (needed).
    pub(super) fn find_texts(&self, needed: DataFrame) -> Result<Planned> {
        let bytes = self.rows(WorkTable::MEMBERS) * BYTES_OF_POSITION;
        self.find_among(self.reference_documents()?, needed, bytes)
    }

    /// Finds where the texts of the documents `needed` (needed) are, which may be any that clusters have, as far as their
    /// shingles are not there.
    pub(super) fn find_removals(&self, needed: DataFrame, bytes: u64) -> Result<Planned> {
        let known = self.clustered_reference()?;
        let known = known.map(|known| known.filter(col("shingles").is_null())).transpose()?;
        self.find_among(known, needed, bytes)
    }

    /// The shingles (doc, shingles) of the documents `needed` (needed), once it was found where their texts are.
    pub(super) async fn sketches_of_removals(&self, needed: DataFrame) -> Result<DataFrame> {
        let shingles = || vec![col("doc"), col("shingles")];
        let mut found = Vec::new();
        match self.sketches_of_new()? {
            Some(new) => found.push(Ok(frames::sketches::among(new, needed.clone())?.select(shingles())?)),
            None => {
                for texts in self.at(WorkTable::REMOVAL_POSITIONS, Some(&self.job.shingle)).await? {
                    found
                        .push(Ok(frames::sketches::sketches(texts, self.job, self.frequent()?)?
                            .select(shingles())?));
                }
            }
        }
        if let Some(known) = self.clustered_reference()? {
            let known = known.filter(col("shingles").is_not_null())?;
            found.push(Ok(frames::sketches::among(known, needed)?.select(shingles())?));
        }
        frames::union(found)?.ok_or_else(|| Error::bug("there is no source to read texts from"))
    }

    /// The reference documents that clusters may have, with the columns of the work table of reference documents.
    fn clustered_reference(&self) -> Result<Option<DataFrame>> {
        match self.reference_outputs() {
            Some(outputs) => outputs.documents(self).map(Some),
            None => self.reference_documents(),
        }
    }

    /// Finds the positions of the texts of the documents `needed`: of the job's own, and of reference
    /// documents.
    pub(super) fn find_among(
        &self,
        known: Option<DataFrame>,
        needed: DataFrame,
        bytes: u64,
    ) -> Result<Planned> {
        let no_origin = lit(ScalarValue::UInt64(None)).alias("origin");
        let at = |origin| vec![col("source"), col("position"), col("doc"), origin];
        let mut documents = self.table(Table::Documents)?.select(at(no_origin))?;
        if let Some(known) = known {
            documents = documents.union(known.select(at(col("origin")))?)?;
        }
        let rows = self.rows(Table::Documents) + self.rows(WorkTable::REFERENCE);
        let positions = frames::sketches::positions(documents, needed)?;
        Ok(Planned::new(bytes + rows * BYTES_OF_POSITION, vec![positions]))
    }

    /// Reads those texts again by their positions, and takes the sketches that are stored.
    pub(super) async fn cut(&self, wanted: TextsToCut) -> Result<DataFrame> {
        let texts = self.at(wanted.table, Some(&self.job.shingle)).await?;
        let mut sketches = Vec::with_capacity(texts.len() + 1);
        for texts in texts {
            sketches.push(frames::sketches::sketches(texts, self.job, self.frequent()?));
        }
        if self.reference.is_some() {
            let kept = self.table(WorkTable::REFERENCE)?.filter(col("shingles").is_not_null())?;
            sketches.push(Ok(frames::sketches::among(kept, wanted.needed)?.select(sketch())?));
        }
        frames::union(sketches)?.ok_or_else(|| Error::bug("there is no source to read texts from"))
    }

    /// Reads the texts of pairs by their positions: (doc, text, bytes).
    pub(super) async fn texts(&self) -> Result<Vec<DataFrame>> {
        let texts = self.at(WorkTable::TEXT_POSITIONS, None).await?;
        texts.into_iter().map(frames::passages::texts).collect()
    }
}

/// The columns of a sketch.
fn sketch() -> Vec<Expr> {
    ["doc", "shingle_count", "shingles", "signature"].map(col).to_vec()
}
