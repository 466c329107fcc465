//! Which two documents of a sample are compared: those that a run of the job compares.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext, col};

use crate::error::Result;
use crate::job::{Compare, Job, NewPairs};
use crate::stage;

/// What the job says of the documents of a sample.
#[derive(Clone)]
pub(super) struct Compared {
    /// The documents (doc) that are known, where some are.
    known: Option<DataFrame>,
    /// Which documents are paired then.
    pairs: Option<NewPairs>,
    /// (doc, group_key) of all documents.
    groups: DataFrame,
    compare: Compare,
}

impl Compared {
    /// Of these documents (doc, group, ..) of the source, and those that are known.
    pub(super) fn new(
        session: &SessionContext,
        job: &Job,
        own: RecordBatch,
        known: Option<RecordBatch>,
    ) -> Result<Self> {
        let table = |rows: RecordBatch| -> Result<DataFrame> {
            Ok(session.read_table(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))?)
        };
        let mut groups = stage::by_group::keys(table(own)?)?;
        let known = known.map(table).transpose()?;
        if let Some(known) = &known {
            groups = groups.union(stage::by_group::keys(known.clone())?)?;
        }
        let known = known.map(|known| known.select(vec![col("doc")])).transpose()?;
        Ok(Self { known, pairs: job.new_pairs(), groups, compare: job.candidates.compare })
    }

    /// The documents (doc) of which no two are compared, if there may be any.
    pub(super) fn known(&self) -> Option<DataFrame> {
        self.known.clone()
    }

    /// Documents (doc, ..) with a mark on these.
    pub(super) fn marked(&self, documents: DataFrame) -> Result<DataFrame> {
        match &self.known {
            Some(known) => stage::mark::mark(documents, known.clone()),
            None => Ok(documents),
        }
    }

    /// Of (a, b, ..), of which no two are known, the pairs that are compared.
    pub(super) fn only(&self, mut pairs: DataFrame) -> Result<DataFrame> {
        if let (Some(known), Some(NewPairs::WithKnown)) = (&self.known, self.pairs) {
            pairs = stage::known::with_known(pairs, known.clone())?;
        }
        match self.compare {
            Compare::All => Ok(pairs),
            compare => stage::by_group::compared(pairs, self.groups.clone(), compare),
        }
    }
}
