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
use crate::source::{self, CUT, Listed, Places, Request, Selection};

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
        let own = own.with_column("origin", lit(0_u64))?;
        let mut frames = self.read_at(own, vec![(0, &self.job.source, listed)], documents, cut).await?;
        if frames.is_empty() {
            let request = Request { wanted: Some(Selection::default()), shingle: cut };
            let read = source::read(self.session(), &self.job.source, listed, request).await?;
            frames.push(frames::documents::documents(read.frame)?);
        }
        Ok(frames)
    }

    /// The same of reference documents; no frame if there are none.
    pub(super) async fn reference_at(
        &self,
        table: WorkTable,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let Some(reference) = self.reference else { return Ok(Vec::new()) };
        let places = self.table(table)?.filter(col("origin").is_not_null())?;
        let documents = reference.outputs().map(|outputs| outputs.count(Table::Documents));
        let documents = documents.unwrap_or_else(|| self.rows(WorkTable::REFERENCE_KEYS));
        let frames = self.read_at(places, reference.sources(), documents, cut).await?;
        match reference {
            ReferenceDocuments::Outputs(_) => Ok(frames),
            ReferenceDocuments::Source(_) => {
                frames.into_iter().map(frames::reference::with_second_source_keys).collect()
            }
        }
    }

    /// The documents at `places` (origin, source, position) of `sources`, which have about `documents` documents: a frame for each
    /// source that has some.
    pub(super) async fn read_at(
        &self,
        places: DataFrame,
        sources: Vec<(u64, &job::Source, &Listed)>,
        documents: u64,
        cut: Option<&job::Shingle>,
    ) -> Result<Vec<DataFrame>> {
        let session = self.session();
        // A bit for each document must not be too much to hold or to send.
        if documents / 8 <= self.engine().selection_bytes() {
            let places = Places::of_rows(places, col("origin")).await?;
            let read = source::read_at(session, sources, places, cut).await?.into_iter();
            return read.map(|(_, read)| frames::documents::documents(read)).collect();
        }
        tracing::info!("too many documents need their texts again, so all texts are read");
        let needed = keys_of(places.clone().select(vec![col("origin")])?.distinct()?).await?;
        let mut frames = Vec::with_capacity(needed.len());
        for (origin, source, listed) in sources.into_iter().filter(|(origin, ..)| needed.contains(origin)) {
            let read = source::read(session, source, listed, Request { wanted: None, shingle: cut }).await?;
            let there = places.clone().filter(col("origin").eq(lit(origin)))?;
            frames.push(frames::sketches::at(frames::documents::documents(read.frame)?, there)?);
        }
        Ok(frames)
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
        let wanted = Selection::of_rows(own).await?;
        let mut plans = Vec::new();
        for part in wanted.parts(self.engine().selection_bytes()) {
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
