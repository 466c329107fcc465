//! The pairs of documents of a sample that are compared: those that a run of the job compares.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext, col};

use crate::error::Result;
use crate::frames;
use crate::job::{Compare, Job, NewPairs};

/// The reference documents and groups of a sample.
#[derive(Clone)]
pub(in crate::lab) struct Compared {
    /// The reference documents (doc), if there are any.
    known: Option<DataFrame>,
    /// Which documents are paired with them.
    pairs: Option<NewPairs>,
    /// (doc, group_key) of all documents.
    groups: DataFrame,
    compare: Compare,
}

impl Compared {
    /// The documents (doc, group, ..) of the source, and the reference documents.
    pub(in crate::lab) fn new(
        session: &SessionContext,
        job: &Job,
        own: RecordBatch,
        known: Option<RecordBatch>,
    ) -> Result<Self> {
        let table = |rows: RecordBatch| -> Result<DataFrame> {
            Ok(session.read_table(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))?)
        };
        let mut groups = frames::by_group::keys(table(own)?)?;
        let known = known.map(table).transpose()?;
        if let Some(known) = &known {
            groups = groups.union(frames::by_group::keys(known.clone())?)?;
        }
        let known = known.map(|known| known.select(vec![col("doc")])).transpose()?;
        Ok(Self { known, pairs: job.new_pairs(), groups, compare: job.candidates.compare })
    }

    /// The reference documents (doc), which are not compared with each other.
    pub(in crate::lab) fn known(&self) -> Option<DataFrame> {
        self.known.clone()
    }

    /// Documents (doc, ..) with a mark on the reference documents.
    pub(in crate::lab) fn marked(&self, documents: DataFrame) -> Result<DataFrame> {
        match &self.known {
            Some(known) => frames::mark::mark(documents, known.clone()),
            None => Ok(documents),
        }
    }

    /// The pairs of (a, b, ..) that are compared. None of them has two reference documents.
    pub(in crate::lab) fn only(&self, mut pairs: DataFrame) -> Result<DataFrame> {
        if let (Some(known), Some(NewPairs::WithReference)) = (&self.known, self.pairs) {
            pairs = frames::reference::with_reference(pairs, known.clone())?;
        }
        match self.compare {
            Compare::All => Ok(pairs),
            compare => frames::by_group::compared(pairs, self.groups.clone(), compare),
        }
    }
}
