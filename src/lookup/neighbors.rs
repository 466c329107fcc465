//! Finds the documents of a finished output that are most similar to one document.
//!
//! Candidates are the documents that share a bucket with it, as in a run. The table is read twice: the signatures of all
//! documents, then the shingles of the best candidates. Of an output with a table of buckets only the pages with candidates are
//! read. If the output keeps no shingles, the texts of the best candidates are read from the source.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::UInt64Type;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_int64_array, as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col, lit};
use futures::TryStreamExt;
use serde::Serialize;

use super::reread::Reread;
use super::show::Similarity;
use super::sketch::{Sketch, lists, signatures};
use super::{Finished, Id, id};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::Lsh;
use crate::kernel::document_key::document_key;
use crate::kernel::jaccard::shared;
use crate::kernel::lsh_bands::{Buckets, lsh_bands};
use crate::kernel::minhash_similarity::minhash_similarity;
use crate::kernel::signature::Signature;
use crate::output::pages::{LookedUpRows, WantedPages};
use crate::output::read;
use crate::schema::Table;

/// The order of neighbors: the highest value comes first, then the highest of the other one, then the smallest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The share of equal values in the signatures
    Estimate,
    /// The exact similarity of the shingle sets
    Jaccard,
}

/// A document `b` that shares a bucket with the document `a` of the query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbor {
    /// Its id.
    pub id: Id,
    /// The estimate from the two signatures.
    pub estimate: f64,
    /// The exact Jaccard similarity of the two shingle sets; `None` if the shingles of one are unknown.
    pub jaccard: Option<f64>,
    /// The share of a's shingles that are in b; `None` as above.
    pub containment_a: Option<f64>,
    /// The share of b's shingles that are in a; `None` as above.
    pub containment_b: Option<f64>,
    /// Distinct shingles in both; `None` as above.
    pub shared: Option<u64>,
    /// Distinct shingles of a.
    pub shingles_a: u64,
    /// Distinct shingles of b.
    pub shingles_b: u64,
    /// Bands in which the two signatures agree in every row.
    pub shared_bands: usize,
}

/// A candidate's row.
struct Other<'a> {
    signature: Signature<'a>,
    shingle_count: u64,
    shingles: Option<&'a [u64]>,
}

impl Neighbor {
    /// `None` if the signatures differ in length.
    fn new(id: Id, a: &Sketch, b: &Other<'_>, rows: usize, bands: usize) -> Option<Self> {
        let (signature_a, signature_b) = (a.signature.signature(), b.signature);
        let (len_a, len_b) = (a.shingle_count, b.shingle_count);
        let shared = a.shingles.as_deref().zip(b.shingles).map(|(a, b)| shared(a, b));
        let similarity = shared.map(|shared| Similarity::new(shared, len_a, len_b));
        Some(Self {
            id,
            estimate: minhash_similarity(signature_a, signature_b)?,
            jaccard: similarity.map(|of| of.jaccard),
            containment_a: similarity.map(|of| of.containment_a),
            containment_b: similarity.map(|of| of.containment_b),
            shared,
            shingles_a: len_a,
            shingles_b: len_b,
            shared_bands: signature_a.shared_bands(signature_b, bands, rows),
        })
    }

    fn order(&self, other: &Self, by: By) -> Ordering {
        let estimate = || other.estimate.total_cmp(&self.estimate);
        let known = |jaccard: Option<f64>| jaccard.unwrap_or(0.0);
        let jaccard = || known(other.jaccard).total_cmp(&known(self.jaccard));
        let similar = match by {
            By::Estimate => estimate().then_with(jaccard),
            By::Jaccard => jaccard().then_with(estimate),
        };
        similar.then_with(|| self.id.cmp(&other.id))
    }
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    /// The number of documents that share a bucket with the query's.
    pub candidates: u64,
    /// The most similar of them, in the query's order.
    pub nearest: Vec<Neighbor>,
}

/// A query for neighbors.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The sketch of the document, hashed like those of the output.
    pub sketch: &'a Sketch,
    /// The document's id if it is in the output: it is not its own neighbor.
    pub id: Option<&'a Id>,
    /// The order of neighbors: the highest value comes first, then the highest of the other one, then the smallest id.
    pub by: By,
    /// The most neighbors to return.
    pub top: NonZeroUsize,
}

/// The documents most similar to the query's, among those that share a bucket with it.
///
/// Shingles that the output does not keep are cut from the texts of `again`; without it, there are only estimates. Holds the
/// keys and similarities of the best candidates, one batch of rows, and of an output with a table of buckets the places of all
/// candidates.
///
/// # Errors
/// When the table or the source cannot be read, or the output keeps no signatures or ones that do not fit its bands.
pub async fn neighbors(
    finished: &Finished,
    again: Option<&Reread<'_>>,
    query: Query<'_>,
) -> Result<Neighbors> {
    let lsh = &finished.job().lsh;
    finished.signed().await?;
    let own = own_buckets(query.sketch, lsh)?;
    let documents = match documents_of_buckets(finished, &own).await? {
        Some(documents) => documents,
        None => finished.stored(Table::Documents).await?,
    };
    let others = match query.id {
        // By its key, which is read anyway.
        Some(id) => {
            let is_other = col("doc").not_eq(lit(document_key(&id.to_string()).cast_signed()));
            documents.clone().filter(is_other)?
        }
        None => documents.clone(),
    };
    let best = candidates(read::unsigned(others, Table::Documents)?, query, &own, lsh).await?;
    let candidates = best.found;
    let best = finished.documents_among(documents, best.levels.into_values().flatten())?;
    let id = id::column(finished.manifest().source.id);
    let mut columns = vec![id.alias("id"), col("signature"), col("shingle_count")];
    let best = if finished.keeps_shingles() {
        columns.push(col("shingles"));
        best
    } else if let Some(again) = again {
        columns.push(col("shingles"));
        let cut = again.shingles(best.clone()).await?;
        let cut = cut.select(vec![col("doc").alias("cut"), col("shingles")])?;
        best.join(cut, JoinType::Inner, &["doc"], &["cut"], None)?
    } else {
        best
    };

    let mut rows = best.select(columns)?.execute_stream().await?;
    let mut nearest = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let ids = id::ids(batch.column(0))?.into_iter();
        let counts = as_uint64_array(batch.column(2))?.values().iter();
        let mut sets = batch.columns().get(3).map(lists::<UInt64Type>).transpose()?;
        for ((id, signature), &shingle_count) in ids.zip(signatures(batch.column(1))?).zip(counts) {
            let shingles = sets.as_mut().and_then(Iterator::next);
            let other = Other { signature, shingle_count, shingles };
            let neighbor = Neighbor::new(id, query.sketch, &other, lsh.rows, lsh.bands);
            nearest.push(neighbor.ok_or_else(|| misfit(lsh))?);
        }
        nearest.sort_unstable_by(|a, b| a.order(b, query.by));
        nearest.truncate(query.top.get());
    }
    Ok(Neighbors { candidates, nearest })
}

/// Keys of the best candidates by level: a higher level comes first, even if the shingles differ more.
struct Best {
    levels: BTreeMap<usize, Vec<u64>>,
    kept: usize,
    most: usize,
    found: u64,
}

impl Best {
    /// Adds a candidate, and drops the lowest level when the ones above it have enough.
    fn take(&mut self, doc: u64, level: usize) {
        self.found += 1;
        self.levels.entry(level).or_default().push(doc);
        self.kept += 1;
        while let Some(lowest) = self.levels.first_entry()
            && self.kept - lowest.get().len() >= self.most
        {
            self.kept -= lowest.remove().len();
        }
    }
}

fn buckets_of(lsh: &Lsh) -> Buckets {
    Buckets { bands: lsh.bands, rows: lsh.rows, hash: lsh.bucket_hash, table_size: lsh.table_size }
}

/// The buckets of the query's document, in ascending order.
fn own_buckets(sketch: &Sketch, lsh: &Lsh) -> Result<Vec<u64>> {
    let mut own = Vec::new();
    lsh_bands(sketch.signature.signature(), buckets_of(lsh), &mut own).ok_or_else(|| misfit(lsh))?;
    own.sort_unstable();
    Ok(own)
}

/// Those of `documents` that have one of the buckets `own` and can be among the nearest.
async fn candidates(documents: DataFrame, query: Query<'_>, own: &[u64], lsh: &Lsh) -> Result<Best> {
    let (of, buckets) = (query.sketch, buckets_of(lsh));
    let mut best = Best { levels: BTreeMap::new(), kept: 0, most: query.top.get(), found: 0 };
    let mut rows = documents.select(vec![col("doc"), col("signature")])?.execute_stream().await?;
    let mut others = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let docs = as_uint64_array(batch.column(0))?.values();
        for (&doc, signature) in docs.iter().zip(signatures(batch.column(1))?) {
            others.clear();
            lsh_bands(signature, buckets, &mut others).ok_or_else(|| misfit(lsh))?;
            if meet(own, &others) {
                let level = match query.by {
                    By::Estimate => of.signature.signature().agreement(signature),
                    // Signatures do not bound the exact similarity.
                    By::Jaccard => 0,
                };
                best.take(doc, level);
            }
        }
    }
    Ok(best)
}

/// Whether a bucket of `others` is in `own`, which is sorted. A bucket's number includes its band, unless all bands share one
/// table.
fn meet(own: &[u64], others: &[u64]) -> bool {
    others.iter().any(|bucket| own.binary_search(bucket).is_ok())
}

fn misfit(lsh: &Lsh) -> Error {
    Error::input(format!(
        "the signatures in the output do not fit {} bands of {} rows: run its job again with --overwrite",
        lsh.bands, lsh.rows
    ))
}

/// Rows of the table of documents, with its numbers signed as in the files: all documents that have one of `buckets`, and others
/// of their pages. Lazy. `None` if the output has no table of buckets.
///
/// Holds the places of the documents in these buckets: 8 bytes each.
///
/// # Errors
/// When a table cannot be read.
async fn documents_of_buckets(finished: &Finished, buckets: &[u64]) -> Result<Option<DataFrame>> {
    let Some(table) = finished.provider(Table::Buckets)? else { return Ok(None) };
    let mut signed: Vec<i64> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    signed.sort_unstable();
    let are_wanted = col("bucket").in_list(signed.iter().map(|bucket| lit(*bucket)).collect(), false);
    let session = finished.session();
    let rows =
        session.read_table(Arc::new(WantedPages::new(table, LookedUpRows::Numbers("bucket", signed))))?;
    let places = places(rows.filter(are_wanted)?).await?;
    let Some(table) = finished.provider(Table::Documents)? else { return Ok(None) };
    Ok(Some(session.read_table(Arc::new(WantedPages::new(table, LookedUpRows::Places(places))))?))
}

/// The distinct places of rows (source, position, ..): positions in ascending order, by their source.
async fn places(rows: DataFrame) -> Result<BTreeMap<Vec<u8>, Vec<i64>>> {
    // A document shares several buckets with one that is like it.
    let rows = rows.select(vec![utf8("source"), col("position")])?.distinct()?;
    let mut rows = rows.execute_stream().await?;
    let mut places: BTreeMap<Vec<u8>, Vec<i64>> = BTreeMap::new();
    while let Some(batch) = rows.try_next().await? {
        let (sources, positions) = (as_string_array(batch.column(0))?, as_int64_array(batch.column(1))?);
        for (source, position) in sources.iter().flatten().zip(positions.values()) {
            match places.get_mut(source.as_bytes()) {
                Some(positions) => positions.push(*position),
                None => {
                    places.insert(source.as_bytes().to_vec(), vec![*position]);
                }
            }
        }
    }
    places.values_mut().for_each(|positions| positions.sort_unstable());
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::signature::SignatureValues;

    fn neighbor(id: &str, estimate: f64, jaccard: f64) -> Neighbor {
        let sketch = Sketch { shingles: None, shingle_count: 1, signature: SignatureValues::Of32(vec![1]) };
        let other = Other { signature: Signature::Of32(&[1]), shingle_count: 1, shingles: None };
        let same = Neighbor::new(Id::Text(id.into()), &sketch, &other, 1, 1).unwrap();
        Neighbor { estimate, jaccard: Some(jaccard), ..same }
    }

    #[test]
    fn ties_go_to_the_other_measure_and_then_to_the_smaller_id() {
        let mut all = [
            neighbor("c", 0.5, 0.9),
            neighbor("b", 0.5, 0.9),
            neighbor("a", 0.9, 0.5),
            neighbor("d", 0.5, 0.95),
        ];
        let ids = |all: &[Neighbor]| all.iter().map(|n| n.id.to_string()).collect::<String>();
        all.sort_by(|a, b| a.order(b, By::Estimate));
        assert_eq!(ids(&all), "adbc");
        all.sort_by(|a, b| a.order(b, By::Jaccard));
        assert_eq!(ids(&all), "dbca");
    }

    #[test]
    fn a_pair_is_measured_in_every_way() {
        let a = Sketch {
            shingles: Some(vec![1, 2, 3]),
            shingle_count: 3,
            signature: SignatureValues::Of32(vec![7, 8, 9, 9]),
        };
        let b = Other {
            signature: Signature::Of32(&[7, 8, 9, 1]),
            shingle_count: 4,
            shingles: Some(&[2, 3, 4, 5]),
        };
        let found = Neighbor::new(Id::Number(2), &a, &b, 2, 2).unwrap();
        assert_eq!(
            (found.shared, found.shingles_a, found.shingles_b, found.shared_bands),
            (Some(2), 3, 4, 1)
        );
        assert_eq!((found.estimate, found.jaccard), (0.75, Some(0.4)));
        assert_eq!((found.containment_a, found.containment_b), (Some(2.0 / 3.0), Some(0.5)));
        let other = Other { signature: Signature::Of32(&[7]), shingle_count: 1, shingles: Some(&[2]) };
        assert_eq!(Neighbor::new(Id::Number(2), &a, &other, 2, 2), None);
        let unknown = Neighbor::new(Id::Number(2), &a, &Other { shingles: None, ..b }, 2, 2).unwrap();
        assert_eq!((unknown.jaccard, unknown.shared, unknown.shingles_b), (None, None, 4));
    }

    #[test]
    fn only_levels_that_can_reach_the_top_are_kept() {
        let mut best = Best { levels: BTreeMap::new(), kept: 0, most: 2, found: 0 };
        for (doc, level) in [(1, 5), (2, 3), (3, 3), (4, 9), (5, 5), (6, 1)] {
            best.take(doc, level);
        }
        assert_eq!(best.found, 6);
        assert_eq!(best.levels.into_iter().collect::<Vec<_>>(), [(5, vec![1, 5]), (9, vec![4])]);
    }
}
