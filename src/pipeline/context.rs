//! The context of the stages of a run.

use std::ops::Deref;

use datafusion::prelude::{DataFrame, col};
use tokio::sync::OnceCell;

use super::input::RunInput;
use super::parts;
use super::reference::ReferenceDocuments;
use super::reference::chain::Chain;
use super::reference::outputs::ReferenceOutputs;
use super::run_tables::RunTables;
use super::tables::WorkTable;
use crate::error::Result;
use crate::frames::cluster_id::Founders;
use crate::frames::prefix::Join;

/// The context of the stages of a run: its tables, its input and its reference documents.
pub(crate) struct StageContext<'a> {
    tables: RunTables<'a>,
    pub(super) input: &'a RunInput,
    /// The reference documents, if the job has any.
    pub(super) reference: Option<&'a ReferenceDocuments>,
    /// The documents of the source, including those whose id an earlier one has.
    pub(super) documents: DataFrame,
    /// The prefix join of the documents, computed once.
    pub(super) join: OnceCell<Join>,
    /// Average bytes of a sketch, computed once.
    pub(super) bytes_of_sketch: OnceCell<u64>,
}

impl<'a> Deref for StageContext<'a> {
    type Target = RunTables<'a>;

    fn deref(&self) -> &RunTables<'a> {
        &self.tables
    }
}

impl<'a> StageContext<'a> {
    pub(super) fn new(
        tables: RunTables<'a>,
        input: &'a RunInput,
        reference: Option<&'a ReferenceDocuments>,
        documents: DataFrame,
    ) -> Self {
        Self { tables, input, reference, documents, join: OnceCell::new(), bytes_of_sketch: OnceCell::new() }
    }

    /// The number of parts in which a stage reads the source.
    pub(super) fn parts_of_source(&self) -> usize {
        parts::of_files(&self.input.files())
    }

    /// The bytes of the files from which texts are read.
    pub(super) fn bytes_of_files(&self) -> u64 {
        self.input.files().iter().map(|file| file.bytes).sum()
    }

    /// The outputs with the reference documents, if these are in outputs.
    pub(super) fn reference_outputs(&self) -> Option<&'a ReferenceOutputs> {
        self.reference.and_then(ReferenceDocuments::outputs)
    }

    /// The founders of the clusters of reference outputs or of merged ones; `None` if there is no such output.
    pub(super) fn founders(&self) -> Result<Option<Founders>> {
        match self.reference_outputs() {
            Some(outputs) => outputs.founders(self).map(Some),
            None => self.input.merged().map(Chain::founders_of_merged).transpose(),
        }
    }

    /// The shingles (shingle, ..) that do not count; `None` if all of them do.
    pub(super) fn frequent(&self) -> Result<Option<DataFrame>> {
        if self.job.max_frequency.is_none() {
            return Ok(None);
        }
        let known = match self.reference_outputs() {
            Some(outputs) => outputs.frequent_shingles()?,
            None => self.input.frequent_shingles()?,
        };
        match known {
            Some(known) => Ok(Some(known)),
            None => self.table(WorkTable::FREQUENT).map(Some),
        }
    }

    /// The reference documents that may match new ones, if the job has reference documents.
    pub(super) fn reference_documents(&self) -> Result<Option<DataFrame>> {
        self.reference.map(|_| self.table(WorkTable::REFERENCE)).transpose()
    }

    /// Their keys (doc).
    pub(super) fn reference_docs(&self) -> Result<Option<DataFrame>> {
        Ok(self.reference_documents()?.map(|known| known.select(vec![col("doc")])).transpose()?)
    }
}
