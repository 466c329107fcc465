//! A finished output, its tables registered for SQL.

use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};

use super::id::Id;
use crate::error::{Error, Result};
use crate::output::manifest::ReferenceOutput;
use crate::output::{Stored, read};
use crate::schema::Table;

/// The most keys that a condition lists. Scans read the other columns only of the rows that meet it; a join reads them all.
const MOST_LISTED: usize = 256;

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

    /// The documents with these keys. If there are few, only the key of other rows is read.
    pub(crate) async fn documents_of(&self, keys: impl Iterator<Item = u64>) -> Result<DataFrame> {
        self.documents_among(self.stored(Table::Documents).await?, keys)
    }

    /// Those of `documents`, whose numbers are signed as in the files, with these keys. If there are few keys, only the key of other
    /// rows is read.
    pub(super) fn documents_among(
        &self,
        documents: DataFrame,
        keys: impl Iterator<Item = u64>,
    ) -> Result<DataFrame> {
        // Signed, as they are stored: a condition on the column itself need not read the rows of other documents.
        let keys: Vec<i64> = keys.map(u64::cast_signed).collect();
        let rows = if keys.len() <= MOST_LISTED {
            documents.filter(col("doc").in_list(keys.into_iter().map(lit).collect(), false))?
        } else {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys));
            let keys = self.session().read_batch(RecordBatch::try_from_iter([("needed", keys)])?)?;
            keys.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?
        };
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
