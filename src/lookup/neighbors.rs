//! Finds the documents in a finished output that are most similar to a document or a text.
//!
//! As in a run, candidates are documents that share a bucket with the document or text. The output is read twice. The first pass reads the
//! tags of all buckets, and the signatures of documents with a common tag. The second pass reads the shingles of the best candidates. If
//! the output keeps no tags, the first pass reads all signatures. If it keeps no shingles, the texts of the best candidates are read from
//! the source.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType};
use arrow::datatypes::UInt64Type;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_list_array, as_primitive_array, as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col, lit};
use futures::TryStreamExt;
use serde::Serialize;

use super::finished::{MOST_LISTED, id_column, ids};
use super::reread::{Reread, comparable};
use super::show::similarities;
use super::{Finished, Id};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Family, Job, Lsh, ShingleHash, Short};
use crate::kernel::bucket_tags::tag_set;
use crate::kernel::hash::document_key;
use crate::kernel::linear::{self, Linear};
use crate::kernel::lsh_bands::lsh_bands;
use crate::kernel::measure::shared;
use crate::kernel::minhash::{Permutations, minhash};
use crate::kernel::one_permutation::{Rounds, one_permutation};
use crate::kernel::signature::{Signature, SignatureValues, minhash_similarity};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingles::{shingle_set, shingle_texts};
use crate::output::read;
use crate::pipeline::numbers::keys_of;
use crate::schema::Table;
use crate::udf::arguments::{SignatureRows, ValueColumn};
use crate::udf::expr_fn::has_tag;

/// The order of neighbors. They are sorted by this value and then by the other value, both descending, and then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum NeighborOrder {
    /// The share of equal values in the signatures
    Estimate,
    /// The exact similarity of the shingle sets
    Jaccard,
}

/// A document b that shares a bucket with the document a of the query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbor {
    /// The id of b.
    pub id: Id,
    /// The Jaccard similarity estimated from the two signatures.
    pub estimate: f64,
    /// The exact Jaccard similarity of the two shingle sets. `None` if one of the sets is unknown.
    pub jaccard: Option<f64>,
    /// The share of a's shingles that are in b. `None` if `jaccard` is `None`.
    pub containment_a: Option<f64>,
    /// The share of b's shingles that are in a. `None` if `jaccard` is `None`.
    pub containment_b: Option<f64>,
    /// The number of shared distinct shingles. `None` if `jaccard` is `None`.
    pub shared: Option<u64>,
    /// The number of distinct shingles of a.
    pub shingles_a: u64,
    /// The number of distinct shingles of b.
    pub shingles_b: u64,
    /// The number of bands in which the two signatures agree.
    pub shared_bands: usize,
}

impl Neighbor {
    /// Compares two documents. Returns `None` if their signatures differ in length.
    fn new(
        id: Id,
        a: &Sketch,
        signature_b: Signature<'_>,
        len_b: u64,
        shingles_b: Option<&[u64]>,
        [bands, rows]: [usize; 2],
    ) -> Option<Self> {
        let (signature_a, len_a) = (a.signature.signature(), a.shingle_count);
        let shared = a.shingles.as_deref().zip(shingles_b).map(|(a, b)| shared(a, b));
        let similarity = shared.map(|shared| similarities(shared, len_a, len_b));
        Some(Self {
            id,
            estimate: minhash_similarity(signature_a, signature_b)?,
            jaccard: similarity.map(|[jaccard, ..]| jaccard),
            containment_a: similarity.map(|[_, a, _]| a),
            containment_b: similarity.map(|[.., b]| b),
            shared,
            shingles_a: len_a,
            shingles_b: len_b,
            shared_bands: signature_a.shared_bands(signature_b, bands, rows),
        })
    }

    fn order(&self, other: &Self, by: NeighborOrder) -> Ordering {
        let estimate = || other.estimate.total_cmp(&self.estimate);
        let known = |jaccard: Option<f64>| jaccard.unwrap_or(0.0);
        let jaccard = || known(other.jaccard).total_cmp(&known(self.jaccard));
        let similar = match by {
            NeighborOrder::Estimate => estimate().then_with(jaccard),
            NeighborOrder::Jaccard => jaccard().then_with(estimate),
        };
        similar.then_with(|| self.id.cmp(&other.id))
    }
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    /// The number of documents that share a bucket with the query.
    pub candidates: u64,
    /// The most similar candidates, in the order that the query requests.
    pub nearest: Vec<Neighbor>,
}

/// A query for neighbors.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The sketch of the document, computed with the settings of the output.
    pub sketch: &'a Sketch,
    /// The id of the document if it is in the output. It is excluded from its own neighbors.
    pub id: Option<&'a Id>,
    /// The order of neighbors. They are sorted by this value and then by the other value, both descending, and then by id.
    pub by: NeighborOrder,
    /// The maximum number of neighbors.
    pub top: usize,
}

/// Returns the candidates that are most similar to the document of a query. If the output keeps no shingles, they are computed from the
/// texts in `again`. Without `again`, there are only estimates. Memory contains one batch and the keys and similarities of the best
/// candidates. Fails if the table or the source cannot be read. Also fails if the output keeps no signatures, or if they do not fit the
/// bands of its job.
pub async fn neighbors(
    finished: &Finished,
    again: Option<&Reread<'_>>,
    query: Query<'_>,
) -> Result<Neighbors> {
    let lsh = &finished.job().lsh;
    finished.signed().await?;
    let mut own = Vec::new();
    lsh_bands(query.sketch.signature.signature(), lsh.buckets(), &mut own).ok_or_else(|| misfit(lsh))?;
    let all = finished.stored(Table::Documents).await?;
    let documents = match finished.provider(Table::Documents)? {
        Some(table) if finished.job().columns().bucket_tags => {
            let has_own_tag = has_tag(col("bucket_tags"), tag_set(&own, lsh.bands));
            finished.session().read_table(Arc::new(table.only(Some(has_own_tag))))?
        }
        _ => all.clone(),
    };
    own.sort_unstable();
    let others = match query.id {
        // Filters by the key, since the plan reads this column anyway.
        Some(id) => {
            let is_other = col("doc").not_eq(lit(document_key(&id.to_string()).cast_signed()));
            documents.clone().filter(is_other)?
        }
        None => documents.clone(),
    };
    let best = candidates(read::unsigned(others, Table::Documents)?, query, &own, lsh).await?;
    let candidates = best.found;
    let best: Vec<u64> = best.levels.into_values().flatten().collect();
    // The keys of documents take fewer bytes than the tags.
    let documents = if best.len() <= MOST_LISTED { all } else { documents };
    let best = finished.documents_among(documents, best.into_iter())?;
    let id = id_column("id", finished.manifest().source.id);
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
        let ids = ids(batch.column(0))?.into_iter();
        let counts = as_uint64_array(batch.column(2))?.values().iter();
        let mut sets = batch.columns().get(3).map(lists::<UInt64Type>).transpose()?;
        for ((id, signature), &shingle_count) in ids.zip(signatures(batch.column(1))?).zip(counts) {
            let shingles = sets.as_mut().and_then(Iterator::next);
            let neighbor =
                Neighbor::new(id, query.sketch, signature, shingle_count, shingles, [lsh.bands, lsh.rows]);
            nearest.push(neighbor.ok_or_else(|| misfit(lsh))?);
        }
        nearest.sort_unstable_by(|a, b| a.order(b, query.by));
        nearest.truncate(query.top);
    }
    Ok(Neighbors { candidates, nearest })
}

/// The keys of the best candidates by level: the number of equal values in the signatures, or 0 if these do not count. Candidates in a
/// higher level rank before candidates in a lower level.
struct BestCandidates {
    levels: BTreeMap<usize, Vec<u64>>,
    kept: usize,
    most: usize,
    found: u64,
}

impl BestCandidates {
    /// Adds a candidate, and drops the lowest level if the other levels contain enough candidates.
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

/// Returns the documents that share a bucket with `own` (in ascending order) and may be among the nearest neighbors.
async fn candidates(
    documents: DataFrame,
    query: Query<'_>,
    own: &[u64],
    lsh: &Lsh,
) -> Result<BestCandidates> {
    let (of, buckets) = (query.sketch, lsh.buckets());
    let mut best = BestCandidates { levels: BTreeMap::new(), kept: 0, most: query.top, found: 0 };
    let mut rows = documents.select(vec![col("doc"), col("signature")])?.execute_stream().await?;
    let mut others = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let docs = as_uint64_array(batch.column(0))?.values();
        for (&doc, signature) in docs.iter().zip(signatures(batch.column(1))?) {
            others.clear();
            lsh_bands(signature, buckets, &mut others).ok_or_else(|| misfit(lsh))?;
            // Equal buckets come from the same band, unless all bands share one table.
            if others.iter().any(|bucket| own.binary_search(bucket).is_ok()) {
                let level = match query.by {
                    NeighborOrder::Estimate => of.signature.signature().agreement(signature),
                    // Signatures do not bound the exact similarity, so all candidates have the same level.
                    NeighborOrder::Jaccard => 0,
                };
                best.take(doc, level);
            }
        }
    }
    Ok(best)
}

fn misfit(lsh: &Lsh) -> Error {
    Error::input(format!(
        "the signatures in the output do not fit {}: run its job again with --overwrite",
        lsh.bands_of_rows()
    ))
}

/// The shingles and the signature of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    /// The sorted distinct hashes of the shingles. `None` if they are unknown.
    pub shingles: Option<Vec<u64>>,
    /// The number of distinct shingles.
    pub shingle_count: u64,
    /// The signature, with one value per permutation.
    pub signature: SignatureValues,
}

/// Returns the sketch of the document `id`, or `None` if the output contains no such document. If the output keeps no shingles, they are
/// computed from the text in `again`. Without `again`, they are unknown. Fails if the table or the source cannot be read, or if the output
/// keeps no signatures.
pub async fn document_sketch(
    finished: &Finished,
    id: &Id,
    again: Option<&Reread<'_>>,
) -> Result<Option<Sketch>> {
    let documents = finished.signed().await?.filter(col("id").eq(id.literal()))?;
    let mut columns = vec![col("signature"), col("shingle_count")];
    if finished.keeps_shingles() {
        columns.push(col("shingles"));
    }
    for batch in documents.clone().select(columns)?.collect().await? {
        let signature = signatures(batch.column(0))?.next();
        let count = as_uint64_array(batch.column(1))?.values().first();
        let (Some(signature), Some(&shingle_count)) = (signature, count) else { continue };
        let shingles = match (batch.columns().get(2), again) {
            (Some(kept), _) => lists::<UInt64Type>(kept)?.next().map(<[u64]>::to_vec),
            (None, Some(again)) => first_list(again.shingles(documents).await?).await?,
            (None, None) => None,
        };
        return Ok(Some(Sketch { shingles, shingle_count, signature: signature.into() }));
    }
    Ok(None)
}

async fn first_list(shingles: DataFrame) -> Result<Option<Vec<u64>>> {
    for batch in shingles.collect().await? {
        if let Some(list) = lists::<UInt64Type>(batch.column(1))?.next() {
            return Ok(Some(list.to_vec()));
        }
    }
    Ok(None)
}

/// Returns the sketch of `text`, computed with the settings of the output. Returns `None` if the text is too short for a shingle. Fails if
/// the output's dictionary or its table of frequent shingles cannot be read, or if the text contains only frequent shingles.
pub async fn text_sketch(finished: &Finished, text: &str) -> Result<Option<Sketch>> {
    let job = finished.job();
    let (mut set, known) = match job.shingle.hash {
        ShingleHash::Dictionary => by_dictionary(finished, job, text).await?,
        _ => {
            let mut set = shingle_set(text, &job.shingle)?;
            leave_out_frequent(finished, &mut set).await?;
            let known = set.len();
            (set, known)
        }
    };
    if set.is_empty() {
        let signature = SignatureValues::new(vec![u32::MAX; job.minhash.permutations], job.minhash.bits);
        let empty = Sketch { shingles: Some(set), shingle_count: 0, signature };
        return Ok((job.shingle.short == Short::Empty).then_some(empty));
    }
    let dictionary = finished.manifest().tables.get(Table::Dictionary.name()).map(|table| table.rows);
    let signature = SignatureValues::new(minima(&set, known, job, dictionary)?, job.minhash.bits);
    let shingle_count = set.len() as u64;
    if job.shingle.hash == ShingleHash::Dictionary && !finished.keeps_shingles() {
        // If the output does not store shingles, the shingles of documents are computed again and hashed. So the shingles of the text are
        // also hashed.
        set = shingle_set(text, &comparable(job))?;
    }
    Ok(Some(Sketch { shingles: Some(set), shingle_count, signature }))
}

/// Removes the frequent shingles, which the output ignores. Fails with `Kind::Input` if all shingles of the text are frequent.
async fn leave_out_frequent(finished: &Finished, set: &mut Vec<u64>) -> Result<()> {
    let Some(frequent) = finished.frequent_shingles()? else { return Ok(()) };
    let had_some = !set.is_empty();
    let frequent = keys_of(frequent.select(vec![col("shingle")])?).await?;
    let frequent: HashSet<u64> = frequent.into_iter().collect();
    set.retain(|shingle| !frequent.contains(shingle));
    if had_some && set.is_empty() {
        return Err(Error::input(
            "all shingles of the text are in the table frequent_shingles, so that nothing is left to compare (shingle.max_frequency)",
        ));
    }
    Ok(())
}

/// Returns the sorted numbers of the text's shingles, and the number of these shingles that are in the dictionary. All other shingles occur
/// in no document, but they count in every union with the text's set. They get the numbers after the dictionary's last number.
async fn by_dictionary(finished: &Finished, job: &Job, text: &str) -> Result<(Vec<u64>, usize)> {
    let texts = shingle_texts(text, &job.shingle, &mut CutScratch::default())?;
    let mut numbers: BTreeMap<&str, Option<u64>> = texts.iter().map(|t| (t.as_str(), None)).collect();
    let dictionary = finished.table(Table::Dictionary)?;
    let mut entries = dictionary.select(vec![col("number"), utf8("shingle")])?.execute_stream().await?;
    let mut entries_read = 0;
    while let Some(batch) = entries.try_next().await? {
        let (number, shingle) = (as_uint64_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (number, shingle) in number.values().iter().zip(shingle.iter().flatten()) {
            if let Some(found) = numbers.get_mut(shingle) {
                *found = Some(*number);
            }
        }
        entries_read += batch.num_rows() as u64;
    }
    let mut set: Vec<u64> = numbers.values().flatten().copied().collect();
    set.sort_unstable();
    let known = set.len();
    set.extend((entries_read + 1..).take(numbers.len() - known));
    Ok((set, known))
}

/// Returns the minima of `set`. The elements with an index of at least `known` occur in no document.
///
/// Every minimum includes these elements, because the estimate would otherwise be for a smaller set. If one of them gives a minimum, the
/// minimum must not agree with any document. But modulo a prime just above the dictionary's last number, the hash of the element can equal
/// the hash of another shingle. So the minimum is replaced by a value that the linear family never returns.
fn minima(set: &[u64], known: usize, job: &Job, dictionary: Option<u64>) -> Result<Vec<u32>> {
    let by = &job.minhash;
    let mut signature = Vec::with_capacity(by.permutations);
    if by.family == Family::OnePermutation {
        let rounds = Rounds::new(by.permutations, by.seed);
        one_permutation(set, &rounds, &mut Vec::new(), &mut signature);
        return Ok(signature);
    }
    let Some((modulus, draws)) = by.linear(dictionary)? else {
        minhash(set, &Permutations::new(by.permutations, by.seed), &mut signature);
        return Ok(signature);
    };
    let functions = match &by.coefficients {
        Some(given) => Linear::from_coefficients(given, modulus),
        None => Linear::new(by.permutations, by.seed, modulus, draws),
    };
    let functions = functions.ok_or_else(|| {
        Error::bug(format!("no linear functions modulo {modulus} can be drawn from {draws}"))
    })?;
    linear::minhash(set, &functions, &mut signature);
    if known < set.len() {
        let mut of_known = Vec::with_capacity(by.permutations);
        linear::minhash(&set[..known], &functions, &mut of_known);
        of_known.resize(by.permutations, NEVER);
        for (value, of_known) in signature.iter_mut().zip(of_known) {
            if *value < of_known {
                *value = NEVER;
            }
        }
    }
    Ok(signature)
}

/// A value that the linear family never returns, because its modulus is below 2^32.
const NEVER: u32 = u32::MAX;

pub(super) fn signatures(column: &ArrayRef) -> Result<impl Iterator<Item = Signature<'_>>> {
    let rows = SignatureRows::new("a query for neighbors", column)?;
    Ok((0..rows.len()).map(move |row| rows.row(row).unwrap_or(Signature::Of32(&[]))))
}

pub(super) fn lists<T: ArrowPrimitiveType>(column: &ArrayRef) -> Result<impl Iterator<Item = &[T::Native]>> {
    let lists = as_list_array(column)?;
    let values = as_primitive_array::<T>(lists.values())?.values();
    let bounds = lists.value_offsets().windows(2);
    Ok(bounds.map(move |bounds| &values[bounds[0] as usize..bounds[1] as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_measured_in_every_way() {
        let a = Sketch {
            shingles: Some(vec![1, 2, 3]),
            shingle_count: 3,
            signature: SignatureValues::Of32(vec![7, 8, 9, 9]),
        };
        let compare = |signature: &[u32], count, shingles| {
            Neighbor::new(Id::Number(2), &a, Signature::Of32(signature), count, shingles, [2, 2])
        };
        let found = compare(&[7, 8, 9, 1], 4, Some(&[2, 3, 4, 5])).unwrap();
        let shown = (found.shared, found.shingles_a, found.shingles_b, found.shared_bands);
        assert_eq!(shown, (Some(2), 3, 4, 1));
        assert_eq!((found.estimate, found.jaccard), (0.75, Some(0.4)));
        assert_eq!((found.containment_a, found.containment_b), (Some(2.0 / 3.0), Some(0.5)));
        assert_eq!(compare(&[7], 1, Some(&[2])), None);
        let unknown = compare(&[7, 8, 9, 1], 4, None).unwrap();
        assert_eq!((unknown.jaccard, unknown.shared, unknown.shingles_b), (None, None, 4));
    }

    #[test]
    fn only_levels_that_can_reach_the_top_are_kept() {
        let mut best = BestCandidates { levels: BTreeMap::new(), kept: 0, most: 2, found: 0 };
        for (doc, level) in [(1, 5), (2, 3), (3, 3), (4, 9), (5, 5), (6, 1)] {
            best.take(doc, level);
        }
        assert_eq!(best.found, 6);
        assert_eq!(best.levels.into_iter().collect::<Vec<_>>(), [(5, vec![1, 5]), (9, vec![4])]);
    }
}
