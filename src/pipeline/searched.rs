//! The documents in which passages are searched, new ones and reference documents: their texts, and their order.

use datafusion::logical_expr::lit;
use datafusion::prelude::{DataFrame, col};
use datafusion::scalar::ScalarValue;

use super::by_group;
use super::context::StageContext;
use super::reference::ReferenceDocuments;
use super::stage::Stage;
use super::stage::spared::Spared;
use super::tables::WorkTable;
use super::writes::Writes;
use crate::error::{Error, Result};
use crate::frames;
use crate::frames::repeats::Rows;
use crate::schema::Table;
use crate::source::{self, Request};

impl StageContext<'_> {
    /// The texts (doc, text) of the documents that are compared.
    pub(super) async fn searched_texts(&self) -> Result<DataFrame> {
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read, and no file was listed"));
        };
        let read = source::read(self.session(), &self.job.source, listed, Request::all()).await?;
        let documents = frames::documents::documents(read.frame)?;
        self.compared(documents, Table::Rejects)
    }

    /// The texts (doc, text) of `documents` that are not among the `rejects`.
    fn compared(&self, documents: DataFrame, rejects: Table) -> Result<DataFrame> {
        match self.rows(rejects) {
            // Every document is compared, so no join and no look at the texts is needed.
            0 => Ok(documents.select(vec![col("doc"), col("text")])?),
            _ => frames::spans::compared(documents, self.table(rejects)?),
        }
    }

    /// The texts (doc, text) of all reference documents that can be compared, without those that this run replaces.
    pub(super) async fn searched_reference_texts(&self) -> Result<DataFrame> {
        match self.reference {
            Some(ReferenceDocuments::Source(source)) => {
                let (of, listed) = source.files();
                let read = source::read(self.session(), of, listed, Request::all()).await?;
                let documents = frames::documents::documents(read.frame)?;
                let documents = frames::reference::with_second_source_keys(documents)?;
                self.compared(documents, Table::ReferenceRejects)
            }
            Some(ReferenceDocuments::Outputs(outputs)) => {
                let places = outputs.places(self)?;
                let count = outputs.count(Table::Documents);
                let texts = self.read_at(places.clone(), outputs.sources(), count, None).await?.into_iter();
                let text = |read: DataFrame| Ok(read.select(vec![col("doc"), col("text")])?);
                match frames::union(texts.map(text))? {
                    Some(texts) => Ok(texts),
                    // This run replaces all of them.
                    None => {
                        let none = lit(ScalarValue::Utf8View(None)).alias("text");
                        Ok(places.select(vec![col("doc"), none])?.filter(lit(false))?)
                    }
                }
            }
            None => Err(Error::bug("the job has no reference documents")),
        }
    }

    /// The places (source, position, doc, origin) of all reference documents that can be compared; `None` if the job has none.
    fn reference_places(&self) -> Result<Option<DataFrame>> {
        Ok(match self.reference {
            None => None,
            Some(ReferenceDocuments::Outputs(outputs)) => Some(outputs.places(self)?),
            Some(ReferenceDocuments::Source(_)) => {
                Some(self.table(WorkTable::REFERENCE_KEYS)?.with_column("origin", lit(0_u64))?)
            }
        })
    }

    /// Finds the positions of the texts of the documents `needed` (needed), which may be any that passages are searched in.
    pub(super) async fn find_searched_texts(
        &self,
        stage: &dyn Writes,
        needed: DataFrame,
        bytes: u64,
    ) -> Result<()> {
        self.find_among(self.reference_places()?, stage, needed, bytes).await
    }

    /// Reads the texts of the run's own documents at the positions of `table`: (source, position, doc, text, ..).
    pub(super) async fn own_texts_at(&self, table: WorkTable) -> Result<DataFrame> {
        let texts = self.own_at(table, None).await?.into_iter().map(Ok);
        frames::union(texts)?.ok_or_else(|| Error::bug("there is no source to read texts from"))
    }

    /// The same of reference documents; `None` if it names none.
    pub(super) async fn reference_texts_at(&self, table: WorkTable) -> Result<Option<DataFrame>> {
        let texts = self.reference_at(table, None).await?.into_iter();
        frames::union(texts.map(|texts| Ok(texts.select(vec![col("doc"), col("text")])?)))
    }

    /// The rows of passages of new documents, with those of reference documents in the table `of_reference`, if the job has any.
    pub(super) fn searched(&self, new: DataFrame, of_reference: WorkTable) -> Result<Rows> {
        Ok(match self.job.new_pairs() {
            None => Rows::of_new(new),
            Some(pairs) => Rows::with_reference(new, self.table(of_reference)?, pairs),
        })
    }

    /// All documents with the columns that order them, see [`frames::spans::in_turn`].
    pub(super) fn in_turn(&self) -> Result<DataFrame> {
        self.in_turn_among(Ok)
    }

    /// The same of those documents only that have a row in `table` (doc, ..).
    pub(super) fn in_turn_of(&self, table: WorkTable) -> Result<DataFrame> {
        let needed = self.table(table)?.select(vec![col("doc").alias("needed")])?.distinct()?;
        self.in_turn_among(|documents| frames::sketches::among(documents, needed.clone()))
    }

    fn in_turn_among(&self, among: impl Fn(DataFrame) -> Result<DataFrame>) -> Result<DataFrame> {
        let mut columns = by_group::ordered(self.job)?;
        columns.extend(["source", "position"].map(col));
        let documents = among(self.table(Table::Documents)?.select(columns)?)?;
        let clusters = self.table(Table::Clusters)?;
        let spared = match Spared.is_in(self.job) {
            true => Some(self.table(Table::Spared)?),
            false => None,
        };
        let Some(reference) = self.reference else {
            return frames::spans::in_turn(documents, clusters, spared, None);
        };
        let (known, of_new) = reference.in_order(self, &documents)?;
        let nowhere = [lit(ScalarValue::Utf8(None)), lit(ScalarValue::UInt64(None))];
        let [source, position] = nowhere;
        // Only spans of new documents are written.
        let known = among(known)?.with_column("source", source)?.with_column("position", position)?;
        frames::spans::in_turn(documents, clusters, spared, Some((known, of_new)))
    }
}
