//! A finished output, its tables registered for SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::id::Id;
use super::query;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::output::manifest::{KnownOutput, Run};
use crate::output::{Stored, read};
use crate::schema::Table;
use crate::source::Listed;

/// A finished output and the session in which its tables are `documents`, `rejects`, `pairs` and `clusters`, and
/// `dictionary` if it has one.
pub struct Finished {
    stored: Stored,
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
        Ok(Self { stored })
    }

    /// The same output, whose source was moved to `places`, one for each of its URLs; none if it was not moved.
    #[must_use]
    pub fn with_source_in(self, places: Vec<String>) -> Self {
        Self { stored: self.stored.with_source_in(places) }
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Run {
        self.stored.manifest()
    }

    /// The job that was run, every default filled in.
    pub fn job(&self) -> &Job {
        self.stored.job()
    }

    /// The jobs that read the texts, and the files of their sources: see [`Stored::sources`].
    ///
    /// # Errors
    /// As [`Stored::sources`].
    pub(super) async fn sources(&self, why: &str, or: &str) -> Result<Vec<(Job, Listed)>> {
        self.stored.sources(why, or).await
    }

    /// One of the reference outputs of this output's run, in a session of its own.
    ///
    /// # Errors
    /// As [`Self::open`], and [`Kind::Input`](crate::error::Kind::Input) if it was replaced since by a run over other
    /// documents.
    pub(super) async fn known(&self, known: &KnownOutput) -> Result<Finished> {
        let state = self.session().state();
        let session =
            SessionContext::new_with_config_rt(state.config().clone(), Arc::clone(state.runtime_env()));
        let there = Finished::open(&session, &known.output).await?;
        if there.manifest().fingerprint != known.fingerprint {
            return Err(Error::input(format!(
                "{} was made again since {} was made against it, so its documents may be others: run the job of {1} again with \
                 --overwrite",
                known.output,
                self.stored.layout().shown()
            )));
        }
        Ok(there)
    }

    /// The rows of a table with its unsigned numbers: see `Stored::table`. Lazy.
    ///
    /// # Errors
    /// When the output has no such table.
    pub async fn table(&self, table: Table) -> Result<DataFrame> {
        self.stored.table(table)
    }

    /// The table of the shingles that do not count; `None` if all of them do.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.stored.frequent_shingles()
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
        self.table(Table::Documents).await
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

    /// The output itself.
    pub(crate) fn output(&self) -> &Stored {
        &self.stored
    }

    /// The session in which the tables are.
    pub(super) fn session(&self) -> &SessionContext {
        self.stored.session()
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
