//! A finished output, its tables registered for SQL.

use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::id::Id;
use super::query;
use crate::error::{Error, Result};
use crate::output::manifest::ReferenceOutput;
use crate::output::{Stored, read};
use crate::schema::Table;

/// A finished output and the session in which its tables are `documents`, `rejects`, `pairs` and `clusters`, and
/// `dictionary` if it has one.
pub struct Finished(Stored);

impl Deref for Finished {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.0
    }
}

impl Finished {
    /// Opens the output at `url` and registers its tables in `session`. Reads only the manifest, and the sizes of the files
    /// that it names.
    ///
    /// # Errors
    /// As [`Stored::open`].
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let stored = Stored::open(session, url).await?;
        for table in Table::ALL {
            if let Some(provider) = stored.provider(table)? {
                session.register_table(table.name(), Arc::new(provider))?;
            }
        }
        Ok(Self(stored))
    }

    /// The same output, whose source was moved to `places`, one for each of its URLs; none if it was not moved.
    #[must_use]
    pub fn with_source_in(self, places: Vec<String>) -> Self {
        Self(self.0.with_source_in(places))
    }

    /// One of the reference outputs of this output's run, in a session of its own.
    ///
    /// # Errors
    /// As [`Self::open`], and [`Kind::Input`](crate::error::Kind::Input) if it was replaced since by a run over other
    /// documents.
    pub(super) async fn reference(&self, output: &ReferenceOutput) -> Result<Finished> {
        let state = self.session().state();
        let session =
            SessionContext::new_with_config_rt(state.config().clone(), Arc::clone(state.runtime_env()));
        let there = Finished::open(&session, &output.output).await?;
        if there.manifest().fingerprint != output.fingerprint {
            return Err(Error::input(format!(
                "{} was made again since {} was made against it, so its documents may be others: run the job of {1} again with \
                 --overwrite",
                output.output,
                self.layout().shown()
            )));
        }
        Ok(there)
    }

    /// The documents with their signatures.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the output keeps none.
    pub async fn signed(&self) -> Result<DataFrame> {
        if !self.job().output.keep.signatures() {
            return Err(Error::input(
                "this output keeps no signatures (output.keep = \"none\"), so nothing can be compared with its \
                 documents: run the job again with output.keep = \"signatures\"",
            ));
        }
        self.table(Table::Documents)
    }

    /// The rows of a table, with its numbers signed as in the files. Lazy.
    pub(super) async fn stored(&self, table: Table) -> Result<DataFrame> {
        Ok(self.session().table(table.name()).await?)
    }

    /// The documents with these keys. Of other rows only the key is read.
    pub(crate) async fn documents_of(&self, keys: impl Iterator<Item = u64>) -> Result<DataFrame> {
        // Signed, as they are stored: a join on the column itself need not read the rows of other documents.
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys.map(u64::cast_signed)));
        let keys = self.session().read_batch(RecordBatch::try_from_iter([("needed", keys)])?)?;
        let documents = self.stored(Table::Documents).await?;
        let rows = keys.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?;
        read::unsigned(rows, Table::Documents)
    }

    /// The id that `text` is; `None` if ids are numbers and `text` is not one.
    pub fn id(&self, text: &str) -> Option<Id> {
        Id::parse(text, self.manifest().source.id)
    }

    /// Whether a compared document has this id.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn has(&self, id: &Id) -> Result<bool> {
        let documents = self.stored(Table::Documents).await?.filter(col("id").eq(id.literal()))?;
        Ok(documents.limit(0, Some(1))?.count().await? > 0)
    }

    /// Whether the output keeps the shingles of its documents.
    pub fn keeps_shingles(&self) -> bool {
        self.job().output.keep.shingles()
    }

    /// The result of a query that only reads the tables.
    ///
    /// # Errors
    /// As [`query::read_only`].
    pub async fn sql(&self, query: &str) -> Result<DataFrame> {
        query::read_only(self.session(), query).await
    }

    /// The `most` most similar pairs, or all of them: (id_a, id_b, jaccard, containment_a, containment_b), then by id.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn top_pairs(&self, most: Option<usize>) -> Result<DataFrame> {
        let pairs = self.session().table("pairs").await?;
        let order = vec![
            col("jaccard").sort(false, false),
            col("id_a").sort(true, false),
            col("id_b").sort(true, false),
            col("reference_b").sort(true, false),
        ];
        let columns = ["id_a", "id_b", "jaccard", "containment_a", "containment_b"].map(col).to_vec();
        Ok(pairs.sort(order)?.limit(0, most)?.select(columns)?)
    }
}
