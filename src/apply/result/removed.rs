//! Removed documents and their representatives, with their texts.

use std::collections::BTreeMap;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_int64_array, as_string_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::prelude::{DataFrame, cast, col, lit};
use futures::TryStreamExt;
use serde::Deserialize;

use super::AppliedResult;
use crate::apply::decisions::DUPLICATE;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::lookup::show::{Member, MemberTexts, PairOrder, PairRow, drawn_by, similarity};
use crate::lookup::{Id, near_ids, rows};
use crate::origins::{Moved, numbered};
use crate::output::Stored;
use crate::source::{self, DocumentPlaces};

/// Removed documents with their texts.
pub struct Removed {
    /// Pairs of a kept document and a document that the kept document represents.
    pub pairs: Vec<PairRow>,
    /// The texts of these documents.
    pub texts: MemberTexts,
    /// The number of removed documents in the selection.
    pub all: u64,
    /// The number of removed documents that are omitted because the kept document is in a reference output or a second source.
    pub by_reference: u64,
    /// The job that read the texts.
    pub job: Job,
}

/// The selection of removed documents.
#[derive(Debug, Clone, Copy)]
pub enum RemovedFilter<'a> {
    /// All removed documents.
    All,
    /// The documents with this id, and the documents that a document with this id represents.
    Document(&'a str),
    /// The cluster of the document with this id.
    Cluster(&'a str),
}

/// The origin of a document, its file, and its row in the file.
type DocumentPlace = (u64, String, u64);

#[derive(Deserialize)]
struct RemovedRow {
    id: String,
    origin_number: u64,
    source: String,
    position: u64,
    kept_id: String,
    kept_origin_number: u64,
    kept_source: String,
    kept_position: u64,
}

impl RemovedRow {
    fn place(&self) -> DocumentPlace {
        (self.origin_number, self.source.clone(), self.position)
    }

    fn kept_place(&self) -> DocumentPlace {
        (self.kept_origin_number, self.kept_source.clone(), self.kept_position)
    }
}

impl AppliedResult {
    /// Reads at most `most` removed documents, with their texts from the source. `first` decides which documents come first. Only these
    /// documents are kept in memory.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the table of removed documents does not contain the id.
    /// [`Kind::Input`](crate::error::Kind::Input) if the source is missing or has changed.
    pub async fn removed(&self, first: PairOrder, of: RemovedFilter<'_>, most: usize) -> Result<Removed> {
        let rows = self.wanted(of).await?;
        let all = rows.clone().count().await? as u64;
        let rows = rows.filter(col("kept_source").is_not_null())?;
        let by_reference = all - rows.clone().count().await? as u64;
        // A document without a similarity is not paired, so it counts as less similar than all pairs.
        let jaccard = coalesce(vec![col("jaccard"), lit(0.0)]);
        let mut order = vec![match first {
            PairOrder::MostSimilar => jaccard.sort(false, false),
            PairOrder::LeastSimilar => jaccard.sort(true, false),
            PairOrder::Random { seed } => drawn_by(seed, &["id"]).sort(true, false),
        }];
        order.extend(["origin_number", "source", "position"].map(|name| col(name).sort(true, false)));
        let rows: Vec<RemovedRow> = rows::read(rows.sort(order)?.limit(0, Some(most))?).await?;
        let (job, texts) = self.texts(&rows).await?;
        let text = |place: &DocumentPlace| {
            texts.get(place).map(String::as_str).ok_or_else(|| {
                Error::input(format!("{} has no text at row {}: run the job again", place.1, place.2))
            })
        };
        let (mut pairs, mut of_documents) = (Vec::with_capacity(rows.len()), BTreeMap::new());
        for row in &rows {
            let members = [self.member(&row.kept_id)?, self.member(&row.id)?];
            let both = [text(&row.kept_place())?, text(&row.place())?];
            pairs.push(similarity([&members[0], &members[1]], both, &job)?);
            of_documents.extend(members.into_iter().zip(both.map(str::to_owned)));
        }
        match first {
            PairOrder::MostSimilar => pairs.sort_by(|a, b| b.jaccard.total_cmp(&a.jaccard)),
            PairOrder::LeastSimilar => pairs.sort_by(|a, b| a.jaccard.total_cmp(&b.jaccard)),
            PairOrder::Random { .. } => {}
        }
        Ok(Removed { pairs, texts: MemberTexts(of_documents), all, by_reference, job })
    }

    /// The selected rows, with the columns of [`RemovedRow`] and `jaccard`.
    async fn wanted(&self, of: RemovedFilter<'_>) -> Result<DataFrame> {
        let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
        let duplicates = self.removed_rows()?.filter(col("reason").eq(lit(DUPLICATE)))?;
        let rows = duplicates.select(vec![
            text("id"),
            text("source"),
            col("position"),
            text("kept_id"),
            text("kept_source"),
            col("kept_position"),
            col("jaccard"),
            col("origin_number"),
            col("kept_origin_number"),
            text("cluster_id"),
        ])?;
        let id = match of {
            RemovedFilter::All => return Ok(rows),
            RemovedFilter::Document(id) | RemovedFilter::Cluster(id) => id,
        };
        let has_id = col("id").eq(lit(id)).or(col("kept_id").eq(lit(id)));
        let with_id = rows.clone().filter(has_id)?;
        let clusters = with_id.clone().select(vec![col("cluster_id")])?.limit(0, Some(1))?.collect().await?;
        let cluster = clusters.iter().find(|batch| batch.num_rows() > 0);
        let Some(cluster) = cluster else {
            let ids = rows
                .clone()
                .select(vec![col("id")])?
                .union(rows.select(vec![col("kept_id").alias("id")])?)?;
            let near = near_ids(id, ids).await?.unwrap_or_default();
            return Err(Error::job(format!(
                "no document with the id `{id}` was removed because of another one, and none because of it{near}; `resemblance sql {} \"SELECT * \
                 FROM removed\"` lists the removed documents",
                self.target.shown()
            )));
        };
        Ok(match of {
            RemovedFilter::Cluster(_) => {
                let cluster = as_string_array(cluster.column(0))?.value(0).to_owned();
                rows.filter(col("cluster_id").eq(lit(cluster)))?
            }
            RemovedFilter::All | RemovedFilter::Document(_) => with_id,
        })
    }

    fn member(&self, id: &str) -> Result<Member> {
        let id = Id::parse(id, self.manifest.id).ok_or_else(|| {
            Error::input(format!("the id `{id}` in the table of removed documents is not a number"))
        })?;
        Ok(id.own())
    }

    /// Reads the texts of the documents in `rows`. Also returns one of the jobs that read these texts.
    async fn texts(&self, rows: &[RemovedRow]) -> Result<(Job, BTreeMap<DocumentPlace, String>)> {
        let mut wanted = DocumentPlaces::default();
        for (origin, source, position) in rows.iter().flat_map(|row| [row.place(), row.kept_place()]) {
            wanted.insert(origin, &source, position);
        }
        let places = Moved { of: self.target.shown(), places: &self.places };
        let (origins, version) = (&self.manifest.origins, &self.manifest.resemblance);
        let why = ("a result of apply has no removed texts", "");
        let sources = Stored::sources_of(&self.session, origins, version, places, why).await?;
        let mut texts = BTreeMap::new();
        for (origin, read) in source::read_at(&self.session, numbered(&sources), wanted, None).await? {
            let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
            let position = cast(col("position"), DataType::Int64).alias("position");
            let mut batches =
                read.select(vec![text("source"), position, text("text")])?.execute_stream().await?;
            while let Some(batch) = batches.try_next().await? {
                let (sources, found) = (as_string_array(batch.column(0))?, as_string_array(batch.column(2))?);
                let positions = as_int64_array(batch.column(1))?;
                for row in (0..batch.num_rows()).filter(|row| found.is_valid(*row)) {
                    let place = (origin, sources.value(row).to_owned(), positions.value(row).cast_unsigned());
                    texts.insert(place, found.value(row).to_owned());
                }
            }
        }
        let job_of_texts = sources.into_iter().next().map(|(job, _)| job);
        let job =
            job_of_texts.ok_or_else(|| Error::input("the manifest names no job: apply the output again"))?;
        Ok((job, texts))
    }
}
