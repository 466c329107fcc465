//! frequencies: how often each shingle occurs among the documents of a prefix join.

use std::borrow::Cow;

use arrow::datatypes::Field;
use async_trait::async_trait;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::operator::token_counts;
use crate::pipeline::context::StageContext;
use crate::pipeline::frames;
use crate::pipeline::tables::{WorkTable, columns_of};
use crate::schema::SourceTypes;

/// Counts shingles. The documents determine when it can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frequencies {
    /// Of new documents, before the reference documents are read.
    New,
    /// Of all documents.
    All,
    /// Of documents in hot buckets.
    Hot,
}

impl WorkTable {
    /// How often shingles occur.
    pub(crate) const FREQUENCIES: Self = Self::new("frequencies", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    columns_of(&token_counts::schema())
}

impl Writes for Frequencies {
    fn name(&self) -> Cow<'static, str> {
        "frequencies".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "count how often each shingle occurs".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::FREQUENCIES)
    }
}

#[async_trait]
impl Stage for Frequencies {
    fn is_in(&self, job: &Job) -> bool {
        let is_joined = job.compares() && job.candidates.method == Method::Prefix;
        match self {
            Frequencies::New => is_joined && job.against.is_some(),
            Frequencies::All => is_joined && job.against.is_none(),
            Frequencies::Hot => false,
        }
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let documents = cx.new_documents_to_join()?;
        let frame = frames::prefix::frequencies(documents, cx.join().await?)?;
        cx.run(self, 0, vec![frame]).await
    }
}
