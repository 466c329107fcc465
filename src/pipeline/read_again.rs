//! Texts that are read again, by their positions in the source.
//!
//! A plan says with a bit for each document which rows of a file are read. Where these are too many bits for one plan that is sent to
//! a cluster, several plans read the texts, each of a part of them.

use arrow::datatypes::{DataType, Field};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::context::StageContext;
use super::numbers::keys_of;
use super::reference::ReferenceDocuments;
use super::tables::{WorkTable, id_column};
use crate::engine::SHARE_OF_SELECTION;
use crate::error::{Error, Result};
use crate::frames;
use crate::job;
use crate::schema::{self, SourceTypes, Table};
use crate::source::{self, CUT, Listed, Request, Selection};

impl StageContext<'_> {
    /// The documents at the positions of a table, in the columns of [`frames::documents`]. Pass `cut` if only the
    /// shingles are needed, so that long texts are streamed.
    pub(super) async fn at(&self, table: WorkTable, cut: Option<&job::Shingle>) -> Result<Vec<DataFrame>> {
        let mut frames = self.own_at(table, cut).await?;
        frames.extend(self.reference_at(table, cut).await?);
        Ok(frames)
    }

    /// The same of the run's own documents.
    pub(super) async fn own_at(
        &self,
        table: WorkTable,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read again, and no file was listed"));
        };
        let own = self.table(table)?.filter(col("origin").is_null())?;
        let documents = self.rows(Table::Documents) + self.rows(Table::Rejects);
        if self.needs_several_plans(documents) {
            return Ok(vec![self.in_several_plans(table, own, listed, cut).await?]);
        }
        self.read_at(own, &[(&self.job.source, listed)], documents, cut).await
    }

    /// The same of reference documents.
    pub(super) async fn reference_at(
        &self,
        table: WorkTable,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let mut frames = Vec::new();
        let positions = self.table(table)?;
        let of_origin = |origin: usize| positions.clone().filter(col("origin").eq(lit(origin as u64)));
        let known = positions.clone().filter(col("origin").is_not_null())?;
        let origins = keys_of(known.select(vec![col("origin")])?.distinct()?).await?;
        let is_needed = |origin: usize| origins.contains(&(origin as u64));
        match self.reference {
            Some(ReferenceDocuments::Source(source)) if is_needed(0) => {
                let documents = self.rows(WorkTable::REFERENCE_KEYS);
                let known = self.read_at(of_origin(0)?, &[source.files()], documents, cut).await?;
                for texts in known {
                    frames.push(frames::reference::with_second_source_keys(texts)?);
                }
            }
            None | Some(ReferenceDocuments::Source(_)) => {}
            Some(ReferenceDocuments::Outputs(outputs)) => {
                for (origin, sources) in outputs.sources().filter(|(origin, _)| is_needed(*origin)) {
                    let sources: Vec<_> =
                        sources.iter().map(|(made, listed)| (&made.source, listed)).collect();
                    let there = of_origin(origin)?;
                    frames.extend(
                        self.read_at(there, &sources, outputs.chain.count(Table::Documents), cut).await?,
                    );
                }
            }
        }
        Ok(frames)
    }

    /// The documents at `positions` in the files of one source or more, which have about `documents` documents.
    pub(super) async fn read_at(
        &self,
        positions: DataFrame,
        sources: &[(&job::Source, &Listed)],
        documents: u64,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let session = self.session();
        let open = async |source, listed, wanted| {
            source::read(session, source, listed, Request { wanted, shingle: cut }).await
        };
        let mut wanted = self.selection(positions.clone(), documents).await?;
        let mut frames = Vec::with_capacity(sources.len());
        for (at, (source, listed)) in sources.iter().enumerate() {
            frames.push(match &mut wanted {
                Some(wanted) => {
                    let of_source = listed.take(wanted);
                    // The first source gives a frame even if none of its documents is wanted.
                    if of_source.is_empty() && at > 0 {
                        continue;
                    }
                    frames::documents::documents(open(source, listed, Some(of_source)).await?.frame)?
                }
                None => {
                    let documents = frames::documents::documents(open(source, listed, None).await?.frame)?;
                    frames::sketches::at(documents, positions.clone())?
                }
            });
        }
        if let Some(wanted) = wanted {
            wanted.all_taken()?;
        }
        Ok(frames)
    }

    /// The positions, among about `documents` documents; `None` if a bit for each document would be too much to hold or
    /// to send.
    async fn selection(&self, positions: DataFrame, documents: u64) -> Result<Option<Selection>> {
        if documents / 8 > self.engine().selection_bytes() {
            tracing::info!("too many documents need their texts again, so all texts are read");
            return Ok(None);
        }
        Ok(Some(Selection::of_rows(positions).await?))
    }

    /// Whether a bit for each of `documents` is too much for one plan, and not too much for the memory of this process.
    fn needs_several_plans(&self, documents: u64) -> bool {
        let room = match self.session().runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64 / SHARE_OF_SELECTION,
            _ => u64::MAX,
        };
        (self.engine().selection_bytes() + 1..=room).contains(&(documents / 8))
    }

    /// The documents at the positions `own` of `table` in the files of the source, which several plans read and write to a table,
    /// one after the other.
    async fn in_several_plans(
        &self,
        table: WorkTable,
        own: DataFrame,
        listed: &Listed,
        cut: Option<&job::Shingle>,
    ) -> Result<DataFrame> {
        let texts = table.texts(columns);
        if !self.is_taken(&texts) {
            let plans = match self.is_done(&texts).await? {
                true => Vec::new(),
                false => self.plans_of(own, listed, cut).await?,
            };
            self.run_further(&texts, 0, plans).await?;
        }
        self.table(texts)
    }

    /// The documents at the positions `own` in the files of the source, in plans that each select a part of them.
    async fn plans_of(
        &self,
        own: DataFrame,
        listed: &Listed,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let mut wanted = Selection::of_rows(own).await?;
        let of_source = listed.take(&mut wanted);
        wanted.all_taken()?;
        let mut plans = Vec::new();
        for part in of_source.parts(self.engine().selection_bytes()) {
            let request = Request { wanted: Some(part), shingle: cut };
            let read = source::read(self.session(), &self.job.source, listed, request).await?;
            let documents = frames::documents::documents(read.frame)?;
            plans.push(match documents.schema().has_column_with_unqualified_name(CUT) {
                true => documents,
                false => documents.with_column(CUT, lit(ScalarValue::try_from(&cuts())?))?,
            });
        }
        Ok(plans)
    }
}

/// The shingles of texts that were cut while they were read.
fn cuts() -> DataType {
    DataType::new_list(DataType::UInt64, true)
}

fn columns(source: &SourceTypes) -> Vec<Field> {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let mut columns = vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::UInt64, false),
        id_column(source, true),
        text("text"),
        Field::new(CUT, cuts(), true),
        Field::new("doc", DataType::UInt64, true),
        text("reason"),
    ];
    let carried = source.columns.iter().enumerate();
    columns.extend(carried.map(|(at, of)| Field::new(schema::carried(at), of.data_type.clone(), true)));
    columns
}
