//! Assigns every pair of an output to one stratum, and draws pairs from the strata.
//!
//! The population consists of the rows in the table `pairs` and of chained pairs. A chained pair is a document in a cluster and its
//! representative, if only other documents connect them.

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use datafusion::common::cast::{as_boolean_array, as_float64_array, as_int64_array, as_string_array};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::TryStreamExt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, Result};
use crate::job::Job;
use crate::kernel::hash::document_key;
use crate::lookup::Finished;
use crate::pipeline::numbers::texts_of;

/// The width of the stratum `near_threshold`, as a share of the interval from the threshold to 1.
const NEAR: f64 = 0.1;
/// A removed document is contained if its representative contains at least this share of its shingles (see `crate::apply`).
/// `clusters.contained` overrides it.
const CONTAINED: f64 = 0.98;
const LARGE: i64 = 20;
/// The maximum number of groups with a stratum of their own: the groups with the most pairs.
const MAX_GROUPS: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ends {
    /// The id of the document in the source of the job.
    pub(super) id_a: String,
    pub(super) id_b: String,
    pub(super) reference_b: bool,
}

impl Ends {
    fn bytes(&self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&document_key(&self.id_a).to_le_bytes());
        bytes[8..16].copy_from_slice(&document_key(&self.id_b).to_le_bytes());
        bytes[16] = u8::from(self.reference_b);
        bytes
    }

    /// Returns the key of the pair in files of labels. It is a hash of 64 bits in hexadecimal, after a letter, so that spreadsheets do not
    /// read it as a number.
    pub(super) fn key(&self) -> String {
        format!("k{:016x}", xxh3_64(&self.bytes()))
    }

    /// Returns a pseudorandom number that depends only on the pair and the seed.
    fn random(&self, seed: u64) -> u64 {
        xxh3_64_with_seed(&self.bytes(), seed)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) ends: Ends,
    /// The Jaccard similarity, and the share of each document's shingles in the other document; `None` for chained pairs.
    pub(super) scores: Option<[f64; 3]>,
    /// The index of the stratum in [`Population::strata`].
    pub(super) stratum: usize,
}

/// All pairs of an output, with the rules that assign them to strata.
pub(super) struct Population<'a> {
    session: &'a SessionContext,
    job: &'a Job,
    /// The names of the strata. A pair belongs to the first stratum that matches it.
    pub(super) strata: Vec<String>,
    /// The index of the stratum of each group with a stratum of its own.
    groups: BTreeMap<String, usize>,
    near: f64,
    /// A removed document is contained if its representative has at least this share of its shingles.
    contained: f64,
}

/// The index of chained pairs in [`Population::strata`].
pub(super) const CHAINED: usize = 1;

impl<'a> Population<'a> {
    /// Chooses the strata for the pairs of `finished`, whose tables are in `session`.
    pub(super) async fn open(session: &'a SessionContext, finished: &'a Finished) -> Result<Self> {
        let job = finished.job();
        let mut strata =
            ["near_threshold", "chained", "not_contained", "large_cluster"].map(str::to_owned).to_vec();
        let mut groups = BTreeMap::new();
        if job.source.group.is_some() {
            let sql = format!(
                "SELECT arrow_cast(group_a, 'Utf8') FROM pairs WHERE group_a = group_b GROUP BY 1 ORDER BY count(*) DESC, 1 \
                 LIMIT {MAX_GROUPS}"
            );
            for group in texts_of(session.sql(&sql).await?).await? {
                strata.push(format!("group: {group}"));
                groups.insert(group, strata.len() - 1);
            }
        }
        strata.push("random".to_owned());
        let threshold = job.score.threshold;
        let near = threshold + NEAR * (1.0 - threshold);
        let contained = job.clusters.contained.unwrap_or(CONTAINED);
        Ok(Self { session, job, strata, groups, near, contained })
    }

    pub(super) fn similarity(&self, [jaccard, containment_a, containment_b]: [f64; 3]) -> f64 {
        self.job.score.measure.similarity_from_shares(jaccard, [containment_a, containment_b])
    }

    pub(super) fn describe(&self, stratum: usize) -> String {
        match self.strata[stratum].as_str() {
            "near_threshold" => format!(
                "{} from {} to {}",
                self.job.score.measure.noun(),
                self.job.score.threshold,
                (1e6 * self.near).round() / 1e6
            ),
            "chained" => "not paired with the document that stays: other documents connect them".to_owned(),
            "not_contained" => format!(
                "the document that stays has less than {} % of the shingles of the one that goes",
                100.0 * self.contained
            ),
            "large_cluster" => format!("in a cluster of {LARGE} documents or more"),
            "random" => "all other pairs".to_owned(),
            _ => "both documents are of this group".to_owned(),
        }
    }

    /// Calls `visit` with each pair, in any order. One batch of pairs is in memory.
    pub(super) async fn each(&self, mut visit: impl FnMut(Candidate)) -> Result<()> {
        let mut batches = self.pairs().await?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let column = |at: usize| as_float64_array(batch.column(at));
            let (jaccard, a, b, kept) = (column(3)?, column(4)?, column(5)?, column(6)?);
            let size = as_int64_array(batch.column(7))?;
            let group = as_string_array(batch.column(8))?;
            for (row, ends) in ends(&batch)?.into_iter().enumerate() {
                let scores = [jaccard, a, b].map(|column| column.value(row));
                let stratum = if self.similarity(scores) < self.near {
                    0
                } else if kept.is_valid(row) && kept.value(row) < self.contained {
                    2
                } else if size.value(row) >= LARGE {
                    3
                } else {
                    let group = group.is_valid(row).then(|| self.groups.get(group.value(row)).copied());
                    group.flatten().unwrap_or(self.strata.len() - 1)
                };
                visit(Candidate { ends, scores: Some(scores), stratum });
            }
        }
        let mut batches = self.chained().await?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            for ends in ends(&batch)? {
                visit(Candidate { ends, scores: None, stratum: CHAINED });
            }
        }
        Ok(())
    }

    /// Returns the table `pairs` as (id_a, id_b, reference_b, jaccard, containment_a, containment_b, kept, size, group). For a removed
    /// document and its representative, `kept` is the share of the document's shingles that the representative contains, and otherwise
    /// null. `size` is the size of the cluster, or of the larger cluster if the documents are in two. `group` is the common group of the
    /// documents, or null.
    async fn pairs(&self) -> Result<DataFrame> {
        let (spared, stays) = if self.job.clusters.spares() {
            (
                "LEFT JOIN spared s ON s.id = c.id AND s.reference = c.reference",
                "c.representative OR s.id IS NOT NULL",
            )
        } else {
            ("", "c.representative")
        };
        let group = match self.job.source.group {
            Some(_) => "CASE WHEN p.group_a = p.group_b THEN p.group_a END",
            None => "NULL",
        };
        let sql = format!(
            "WITH ends AS (SELECT c.id, c.reference, c.cluster_id, c.size, c.representative, {stays} AS stays FROM clusters c {spared})
             SELECT arrow_cast(p.id_a, 'Utf8') AS id_a, arrow_cast(p.id_b, 'Utf8') AS id_b, p.reference_b, p.jaccard, p.containment_a,
                 p.containment_b,
                 CASE WHEN a.cluster_id <> b.cluster_id THEN NULL
                     WHEN b.representative AND NOT a.stays THEN p.containment_a
                     WHEN a.representative AND NOT b.stays AND NOT p.reference_b THEN p.containment_b END AS kept,
                 coalesce(greatest(a.size, b.size), 0) AS size, arrow_cast({group}, 'Utf8') AS \"group\"
             FROM pairs p LEFT JOIN ends a ON a.id = p.id_a AND NOT a.reference
             LEFT JOIN ends b ON b.id = p.id_b AND b.reference = p.reference_b"
        );
        Ok(self.session.sql(&sql).await?)
    }

    /// Returns the chained pairs as (id_a, id_b, reference_b): each document and its representative, unless the table `pairs` contains
    /// them.
    async fn chained(&self) -> Result<DataFrame> {
        let sql = "SELECT CASE WHEN r.reference OR c.id < r.id THEN arrow_cast(c.id, 'Utf8') ELSE arrow_cast(r.id, 'Utf8') END AS id_a,
                 CASE WHEN r.reference OR c.id < r.id THEN arrow_cast(r.id, 'Utf8') ELSE arrow_cast(c.id, 'Utf8') END AS id_b,
                 r.reference AS reference_b
             FROM clusters c JOIN clusters r ON r.cluster_id = c.cluster_id AND r.representative
             WHERE NOT c.representative AND NOT c.reference AND c.jaccard_to_representative IS NULL";
        Ok(self.session.sql(sql).await?)
    }
}

/// Reads id_a, id_b and reference_b, the first columns of the batch.
fn ends(batch: &RecordBatch) -> Result<Vec<Ends>> {
    let (a, b) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
    let reference = as_boolean_array(batch.column(2))?;
    let ends = |row| Ends {
        id_a: a.value(row).to_owned(),
        id_b: b.value(row).to_owned(),
        reference_b: reference.value(row),
    };
    Ok((0..batch.num_rows()).map(ends).collect())
}

/// The drawn pairs in a random order.
pub(super) struct PairDraw {
    pub(super) drawn: Vec<Candidate>,
    pub(super) sizes: Vec<u64>,
}

/// Draws `pairs` pairs from the population, or all pairs if there are fewer: the pairs with the smallest hashes of each stratum. At most
/// `pairs` pairs per stratum are in memory. Fails with `Kind::Job` if more than `pairs` strata contain pairs.
pub(super) async fn draw(population: &Population<'_>, pairs: usize, seed: u64) -> Result<PairDraw> {
    let strata = population.strata.len();
    let mut sizes = vec![0_u64; strata];
    let mut least: Vec<BTreeMap<_, Candidate>> = vec![BTreeMap::new(); strata];
    let visit = |candidate: Candidate| {
        let least = &mut least[candidate.stratum];
        sizes[candidate.stratum] += 1;
        least.insert((candidate.ends.random(seed), candidate.ends.clone()), candidate);
        if least.len() > pairs {
            least.pop_last();
        }
    };
    population.each(visit).await?;
    let count = sizes.iter().filter(|size| **size > 0).count();
    if pairs < count {
        return Err(Error::job(format!(
            "the pairs belong to {count} strata, and a pair of each stratum is drawn: ask for {count} pairs or more"
        )));
    }
    let allocated = allocate(&sizes, pairs);
    let drawn = least.into_iter().zip(allocated).flat_map(|(least, number)| least.into_values().take(number));
    let mut drawn: Vec<Candidate> = drawn.collect();
    // The order uses another hash than the draw, since otherwise pairs of large strata would come first. So labels soon cover all strata.
    drawn.sort_by_cached_key(|candidate| (candidate.ends.random(!seed), candidate.ends.clone()));
    Ok(PairDraw { drawn, sizes })
}

/// Returns the number of pairs to draw from each stratum, by the numbers of pairs in the strata (`sizes`). Each stratum with pairs gets a
/// draw.
///
/// Half of the draws are divided evenly among the strata, and half in proportion to their sizes. A stratum gets at most as many draws as
/// it has pairs. Each remaining draw goes to the stratum that is furthest below its share.
fn allocate(sizes: &[u64], pairs: usize) -> Vec<usize> {
    let all: u64 = sizes.iter().sum();
    let pairs = all.min(pairs as u64);
    let count = sizes.iter().filter(|size| **size > 0).count();
    let share = |size: u64| pairs as f64 / 2.0 * (1.0 / count as f64 + size as f64 / all as f64);
    let mut allocated: Vec<u64> = sizes.iter().map(|size| (*size).min(1)).collect();
    for _ in count as u64..pairs {
        let missing = |at: &usize| share(sizes[*at]) - allocated[*at] as f64;
        let with_room = (0..sizes.len()).filter(|at| allocated[*at] < sizes[*at]);
        // `max_by` returns the last of several equal strata, so the reversed order gives the first.
        let next = with_room.rev().max_by(|a, b| missing(a).total_cmp(&missing(b)));
        if let Some(next) = next {
            allocated[next] += 1;
        }
    }
    allocated.into_iter().map(|number| number as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stratum_has_its_share() {
        assert_eq!(allocate(&[0, 100, 1_000, 98_900], 150), [0, 25, 26, 99]);
        assert_eq!(allocate(&[3, 0, 1_000], 100), [3, 0, 97]);
        assert_eq!(allocate(&[3, 4], 100), [3, 4]);
        assert_eq!(allocate(&[1, 1, 1_000_000], 3), [1, 1, 1]);
        assert_eq!(allocate(&[0, 0], 10), [0, 0]);
        for pairs in 4..200 {
            assert_eq!(allocate(&[5, 40, 0, 7, 3_000], pairs).iter().sum::<usize>(), pairs);
        }
    }
}
