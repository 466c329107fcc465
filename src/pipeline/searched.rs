//! The documents in which passages are searched, new ones and reference documents: their texts, and their order.

use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{DataFrame, col};
use datafusion::scalar::ScalarValue;

use super::by_group;
use super::context::StageContext;
use super::reference::ReferenceDocuments;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames;
use crate::frames::repeats::PassageRows;
use crate::job::Source;
use crate::schema::{Table, carried};
use crate::source::{self, ReadRequest};

impl StageContext<'_> {
    /// The texts (doc, text) of the job's own documents in which passages are searched.
    pub(super) async fn searched_texts(&self) -> Result<DataFrame> {
        let Some(listed) = self.input.listed() else {
            return Err(Error::bug("texts are read, and no file was listed"));
        };
        let read = source::read(self.session(), &self.job.source, listed, ReadRequest::all()).await?;
        let documents = frames::documents::documents(read.frame)?;
        let uncompared = self.table(WorkTable::UNCOMPARED)?.filter(col("origin").is_null())?;
        self.searched_among(documents, Table::Rejects, uncompared)
    }

    /// The texts (doc, text) of `documents` that are not among the `rejects`, or that are `uncompared`.
    fn searched_among(
        &self,
        documents: DataFrame,
        rejects: Table,
        uncompared: DataFrame,
    ) -> Result<DataFrame> {
        match self.rows(rejects) {
            // Every document is compared, so no join and no look at the texts is needed.
            0 => Ok(documents.select(vec![col("doc"), col("text")])?),
            _ => frames::spans::searched(documents, self.table(rejects)?, uncompared),
        }
    }

    /// The places (source, position, doc, origin) of reference documents that are searched and not compared.
    fn uncompared_reference(&self) -> Result<DataFrame> {
        let places = self.table(WorkTable::UNCOMPARED)?.filter(col("origin").is_not_null())?;
        Ok(places.select(["source", "position", "doc", "origin"].map(col).to_vec())?)
    }

    /// The texts (doc, text) of all reference documents in which passages are searched, without what results of `apply` cut out of them.
    pub(super) async fn searched_reference_texts(&self) -> Result<DataFrame> {
        match self.reference {
            Some(ReferenceDocuments::Source(source)) => {
                let (of, listed) = source.files();
                let read = source::read(self.session(), of, listed, ReadRequest::all()).await?;
                let documents = frames::documents::documents(read.frame)?;
                let documents = frames::reference::with_second_source_keys(documents)?;
                self.searched_among(documents, Table::ReferenceRejects, self.uncompared_reference()?)
            }
            Some(ReferenceDocuments::Outputs(outputs)) => {
                let places = outputs.places(self)?.union(self.uncompared_reference()?)?;
                self.reference_texts_at(places).await
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

    /// The places (source, position, doc, origin) of all documents that passages are searched in, besides the run's own ones that
    /// are compared.
    pub(super) fn searched_places(&self) -> Result<DataFrame> {
        let columns = ["source", "position", "doc", "origin"].map(col).to_vec();
        let uncompared = self.table(WorkTable::UNCOMPARED)?.select(columns.clone())?;
        match self.reference_places()? {
            Some(places) => Ok(places.select(columns)?.union(uncompared)?),
            None => Ok(uncompared),
        }
    }

    /// Reads the texts of the run's own documents at the positions of `table`: (source, position, doc, text, ..).
    pub(super) async fn own_texts_at(&self, table: WorkTable) -> Result<DataFrame> {
        self.texts(self.table(table)?.filter(col("origin").is_null())?, None, Ok).await
    }

    /// The texts (doc, text) of reference documents at `places`, without what results of `apply` cut out of them.
    pub(super) async fn reference_texts_at(&self, places: DataFrame) -> Result<DataFrame> {
        let places = places.filter(col("origin").is_not_null())?;
        let text = |read: DataFrame| Ok(read.select(vec![col("doc"), col("text")])?);
        let texts = self.texts(places, None, text).await?;
        match self.reference_outputs().map(|outputs| outputs.cuts()).transpose()?.flatten() {
            None => Ok(texts),
            Some(cuts) => frames::spans::without_cuts(texts, cuts),
        }
    }

    /// The rows of passages of new documents, with those of reference documents in the table `of_reference`, if the job has any.
    pub(super) fn searched(&self, new: DataFrame, of_reference: WorkTable) -> Result<PassageRows> {
        Ok(match self.job.new_pairs() {
            None => PassageRows::of_new(new),
            Some(pairs) => PassageRows::with_reference(new, self.table(of_reference)?, pairs),
        })
    }

    /// All documents with the columns that order them, see [`frames::spans::in_turn`].
    pub(super) async fn in_turn(&self) -> Result<DataFrame> {
        self.in_turn_among(Ok).await
    }

    /// The same of those documents only that have a row in `table` (doc, ..).
    pub(super) async fn in_turn_of(&self, table: WorkTable) -> Result<DataFrame> {
        let needed = self.table(table)?.select(vec![col("doc").alias("needed")])?.distinct()?;
        self.in_turn_among(|documents| frames::sketches::among(documents, needed.clone())).await
    }

    async fn in_turn_among(
        &self,
        among: impl Fn(DataFrame) -> Result<DataFrame> + Send + Sync,
    ) -> Result<DataFrame> {
        let (compared, of_new) = self.compared_in_turn(&among)?;
        let columns: Vec<_> = compared.schema().columns().into_iter().map(|of| ident(of.name)).collect();
        let mut all = vec![compared.clone()];
        let turn = frames::spans::turns(of_new);
        if let Some(own) = self.own_uncompared().await? {
            let own = own.with_column("reference", lit(false))?;
            let own = own.with_column("turn", turn.clone() + lit(1_u64))?;
            all.push(among(own)?.select(columns.clone())?);
        }
        if self.reference.is_some() && self.rows(WorkTable::UNCOMPARED) > 0 {
            let has_group = matches!(self.reference, Some(ReferenceDocuments::Source(second)) if second.group().is_some());
            let places = self.table(WorkTable::UNCOMPARED)?.filter(col("origin").is_not_null())?;
            let texts = self.texts(places, None, |texts| {
                // Which of its columns an output carries in what order is not known here.
                let group = Some(carried(0))
                    .filter(|group| has_group && texts.schema().has_column_with_unqualified_name(group));
                let named = ["id", "doc", "source", "position"].map(col).to_vec();
                let group =
                    vec![lit(0_u64).alias("shingle_count"), frames::by_group::group(group.as_deref())];
                Ok(texts.select([named, group].concat())?)
            });
            let known = frames::keep::without_carried(texts.await?, &self.job.clusters.order(), &compared)?;
            let known = nowhere(known)?.with_column("reference", lit(true))?;
            let known = known.with_column("turn", turn.clone() - lit(1_u64))?;
            all.push(among(known)?.select(columns.clone())?);
        }
        frames::union(all.into_iter().map(Ok))?.ok_or_else(|| Error::bug("no document is searched"))
    }

    /// The run's own documents that are searched and not compared, in the columns of [`by_group::ordered`] with `source` and
    /// `position`; `None` if there are none.
    pub(super) async fn own_uncompared(&self) -> Result<Option<DataFrame>> {
        if self.rows(WorkTable::UNCOMPARED) == 0 {
            return Ok(None);
        }
        let mut columns = ["id", "doc", "source", "position"].map(col).to_vec();
        columns.push(lit(0_u64).alias("shingle_count"));
        let names = self.job.source.columns.iter().enumerate();
        columns.extend(names.map(|(at, name)| ident(carried(at)).alias(Source::stored(name))));
        let mut ordered = by_group::ordered(self.job)?;
        ordered.extend(["source", "position"].map(col));
        let texts = self.own_texts_at(WorkTable::UNCOMPARED).await?;
        Ok(Some(texts.select(columns)?.select(ordered)?))
    }

    /// The documents that are compared, with the columns that order them, and the place of new ones.
    fn compared_in_turn(&self, among: impl Fn(DataFrame) -> Result<DataFrame>) -> Result<(DataFrame, Expr)> {
        let mut columns = by_group::ordered(self.job)?;
        columns.extend(["source", "position"].map(col));
        let documents = among(self.table(Table::Documents)?.select(columns)?)?;
        let clusters = self.table(Table::Clusters)?;
        let spared = self.job.clusters.contained.map(|_| self.table(Table::Spared)).transpose()?;
        let Some(reference) = self.reference else {
            return Ok((frames::spans::in_turn(documents, clusters, spared, None)?, lit(0_u64)));
        };
        let (known, of_new) = reference.in_order(self, &documents)?;
        let known = nowhere(among(known)?)?;
        Ok((frames::spans::in_turn(documents, clusters, spared, Some((known, of_new.clone())))?, of_new))
    }
}

/// Reference documents without a place: only spans of new documents are written.
fn nowhere(documents: DataFrame) -> Result<DataFrame> {
    let documents = documents.with_column("source", lit(ScalarValue::Utf8(None)))?;
    Ok(documents.with_column("position", lit(ScalarValue::UInt64(None)))?)
}
