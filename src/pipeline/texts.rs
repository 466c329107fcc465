//! Texts that are read again, by their positions in the sources.

use datafusion::functions::expr_fn::coalesce;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::context::StageContext;
use super::reference::ReferenceDocuments;
use super::runner::Planned;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames;
use crate::job::Shingle;
use crate::schema::Table;
use crate::source::{self, DocumentPlaces};

/// Bytes of a row (document, file, position); the file takes little.
pub(super) const BYTES_OF_POSITION: u64 = 32;

/// The number of the job's own source, which is null in tables.
const OWN: u64 = u64::MAX;

impl StageContext<'_> {
    /// The texts at `places` (source, position, origin, ..). From the columns of [`frames::documents`], `select` chooses the same
    /// ones for each source. Pass `cut` if only the shingles are needed, so that long texts are streamed.
    pub(super) async fn texts(
        &self,
        places: DataFrame,
        cut: Option<&Shingle>,
        select: impl Fn(DataFrame) -> Result<DataFrame>,
    ) -> Result<DataFrame> {
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read again, and no file was listed"));
        };
        let mut sources = self.reference.map(ReferenceDocuments::sources).unwrap_or_default();
        sources.push((OWN, &self.job.source, listed));
        // A frame without rows has the columns too.
        let places =
            DocumentPlaces::of_rows(places, coalesce(vec![col("origin"), lit(OWN)])).await?.or_none_in(OWN);
        let read = source::read_at(self.session(), sources, places, cut).await?.into_iter();
        let texts = read.map(|(origin, read)| {
            let documents = frames::documents::documents(read)?;
            match self.reference {
                Some(ReferenceDocuments::Source(_)) if origin != OWN => {
                    select(frames::reference::with_second_source_keys(documents)?)
                }
                _ => select(documents),
            }
        });
        frames::union(texts)?.ok_or_else(|| Error::bug("no source is read"))
    }

    /// Finds the positions of the texts of the documents `needed` (needed): of the job's own, and of the reference documents
    /// `known`. The search for the keys shuffles about `bytes`.
    pub(super) fn find(
        &self,
        needed: DataFrame,
        bytes: u64,
        known: Option<DataFrame>,
    ) -> Result<Planned<'static>> {
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
}
