//! The pairs that an output decides on, each in one stratum, and a draw from the strata.
//!
//! They are the rows of the table `pairs`, and each document of a cluster with the document that stays of it, where other documents
//! connect the two and they are not paired themselves.

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use datafusion::common::cast::{as_boolean_array, as_float64_array, as_int64_array, as_string_array};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::TryStreamExt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, Result};
use crate::job::{Job, Measure};
use crate::kernel::hash::document_key;
use crate::lookup::Finished;

/// The part of the interval from the threshold to 1 that is just above the threshold.
const NEAR: f64 = 0.1;
/// A removal that keeps this share of its shingles is contained, unless the job says otherwise: see `crate::apply`.
const CONTAINED: f64 = 0.98;
/// Documents of a large cluster, at least.
const LARGE: i64 = 20;
/// Groups that are strata, at most: those with the most pairs.
const MOST_GROUPS: usize = 10;

/// The two documents of a pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ends {
    /// A document of the output's own source.
    pub(super) id_a: String,
    /// The other, which may be a reference document.
    pub(super) id_b: String,
    /// Whether it is one.
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

    /// The key of the pair in files of labels: a letter, so that no spreadsheet reads a number, and 64 bits of a hash in
    /// hexadecimal.
    pub(super) fn key(&self) -> String {
        format!("k{:016x}", xxh3_64(&self.bytes()))
    }

    /// A pseudorandom number of the pair.
    pub(super) fn random(&self, seed: u64) -> u64 {
        xxh3_64_with_seed(&self.bytes(), seed)
    }
}

/// The similarity of a pair of the table `pairs`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairScores {
    pub(super) jaccard: f64,
    pub(super) containment_a: f64,
    pub(super) containment_b: f64,
}

impl PairScores {
    /// The similarity that the threshold of a job is for.
    pub(super) fn by(&self, measure: Measure) -> f64 {
        measure.similarity_from_shares(self.jaccard, [self.containment_a, self.containment_b])
    }
}

/// A pair of the population.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) ends: Ends,
    /// `None` for chained pairs.
    pub(super) scores: Option<PairScores>,
    /// The place of its stratum in [`Population::strata`].
    pub(super) stratum: usize,
}

/// All pairs of an output.
pub(super) struct Population<'a> {
    session: &'a SessionContext,
    job: &'a Job,
    /// The names of the strata, in the order in which they are tried: a pair is in the first that fits.
    pub(super) strata: Vec<String>,
    /// The strata of groups.
    groups: BTreeMap<String, usize>,
}

/// The place of the chained pairs in [`Population::strata`].
pub(super) const CHAINED: usize = 1;

impl<'a> Population<'a> {
    /// The pairs of `finished`, whose tables are in `session`.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn of(session: &'a SessionContext, finished: &'a Finished) -> Result<Self> {
        let job = finished.job();
        let mut strata =
            ["near_threshold", "chained", "not_contained", "large_cluster"].map(str::to_owned).to_vec();
        let mut groups = BTreeMap::new();
        if job.source.group.is_some() {
            let sql = format!(
                "SELECT arrow_cast(group_a, 'Utf8') FROM pairs WHERE group_a = group_b GROUP BY 1 ORDER BY count(*) DESC, 1 \
                 LIMIT {MOST_GROUPS}"
            );
            for batch in session.sql(&sql).await?.collect().await? {
                for group in as_string_array(batch.column(0))?.iter().flatten() {
                    groups.insert(group.to_owned(), strata.len());
                    strata.push(format!("group: {group}"));
                }
            }
        }
        strata.push("random".to_owned());
        Ok(Self { session, job, strata, groups })
    }

    /// The measure of the job's threshold.
    pub(super) fn measure(&self) -> Measure {
        self.job.score.measure
    }

    /// The threshold of the job.
    pub(super) fn threshold(&self) -> f64 {
        self.job.score.threshold
    }

    /// What is in the stratum at a place, as a phrase.
    pub(super) fn describe(&self, stratum: usize) -> String {
        let threshold = self.threshold();
        match self.strata[stratum].as_str() {
            "near_threshold" => format!(
                "{} from {threshold} to {}",
                self.measure().noun(),
                (1e6 * self.near_threshold()).round() / 1e6
            ),
            "chained" => "not paired with the document that stays: other documents connect them".to_owned(),
            "not_contained" => format!(
                "the document that stays has less than {} % of the shingles of the one that goes",
                100.0 * self.contained()
            ),
            "large_cluster" => format!("in a cluster of {LARGE} documents or more"),
            "random" => "all other pairs".to_owned(),
            _ => "both documents are of this group".to_owned(),
        }
    }

    /// The end of the stratum `near_threshold`.
    fn near_threshold(&self) -> f64 {
        self.threshold() + NEAR * (1.0 - self.threshold())
    }

    fn contained(&self) -> f64 {
        self.job.clusters.contained.unwrap_or(CONTAINED)
    }

    /// Calls `take` with each pair, in any order. Holds a batch of them.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn each(&self, mut take: impl FnMut(Candidate)) -> Result<()> {
        let (near, contained) = (self.near_threshold(), self.contained());
        let mut batches = self.pairs().await?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let ends = ends(&batch)?;
            let share = |at: usize| as_float64_array(batch.column(at));
            let (jaccard, of_a, of_b, kept) = (share(3)?, share(4)?, share(5)?, share(6)?);
            let size = as_int64_array(batch.column(7))?;
            let (group_a, group_b) = (as_string_array(batch.column(8))?, as_string_array(batch.column(9))?);
            let group = |row: usize| {
                let both = group_a.is_valid(row)
                    && group_b.is_valid(row)
                    && group_a.value(row) == group_b.value(row);
                both.then(|| self.groups.get(group_a.value(row)).copied()).flatten()
            };
            for (row, ends) in ends.into_iter().enumerate() {
                let scores = PairScores {
                    jaccard: jaccard.value(row),
                    containment_a: of_a.value(row),
                    containment_b: of_b.value(row),
                };
                let stratum = if scores.by(self.measure()) < near {
                    0
                } else if kept.is_valid(row) && kept.value(row) < contained {
                    2
                } else if size.value(row) >= LARGE {
                    3
                } else {
                    group(row).unwrap_or(self.strata.len() - 1)
                };
                take(Candidate { ends, scores: Some(scores), stratum });
            }
        }
        let mut batches = self.chained().await?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            for ends in ends(&batch)? {
                take(Candidate { ends, scores: None, stratum: CHAINED });
            }
        }
        Ok(())
    }

    /// (id_a, id_b, reference_b, jaccard, containment_a, containment_b, kept, size, group_a, group_b) of the table `pairs`.
    /// `kept` is the share of the shingles of a document that goes which the one that stays has; null if neither goes because of
    /// the other. `size` is that of the larger cluster of the two.
    async fn pairs(&self) -> Result<DataFrame> {
        let (spared, stays) = match self.job.clusters.contained {
            Some(_) => (
                "LEFT JOIN spared s ON s.id = c.id AND s.reference = c.reference",
                "c.representative OR s.id IS NOT NULL",
            ),
            None => ("", "c.representative"),
        };
        let group = |end: &str| match self.job.source.group {
            Some(_) => format!("arrow_cast(p.group_{end}, 'Utf8') AS group_{end}"),
            None => format!("arrow_cast(NULL, 'Utf8') AS group_{end}"),
        };
        let sql = format!(
            "WITH ends AS (SELECT c.id, c.reference, c.cluster_id, c.size, c.representative, {stays} AS stays FROM clusters c {spared})
             SELECT arrow_cast(p.id_a, 'Utf8') AS id_a, arrow_cast(p.id_b, 'Utf8') AS id_b, p.reference_b, p.jaccard, p.containment_a,
                 p.containment_b,
                 CASE WHEN a.cluster_id <> b.cluster_id THEN NULL
                     WHEN b.representative AND NOT a.stays THEN p.containment_a
                     WHEN a.representative AND NOT b.stays AND NOT p.reference_b THEN p.containment_b END AS kept,
                 coalesce(greatest(a.size, b.size), 0) AS size, {}, {}
             FROM pairs p LEFT JOIN ends a ON a.id = p.id_a AND NOT a.reference
             LEFT JOIN ends b ON b.id = p.id_b AND b.reference = p.reference_b",
            group("a"),
            group("b")
        );
        Ok(self.session.sql(&sql).await?)
    }

    /// (id_a, id_b, reference_b) of each document and the one that represents its cluster, if the two are not paired.
    async fn chained(&self) -> Result<DataFrame> {
        let sql = "SELECT CASE WHEN r.reference OR c.id < r.id THEN arrow_cast(c.id, 'Utf8') ELSE arrow_cast(r.id, 'Utf8') END AS id_a,
                 CASE WHEN r.reference OR c.id < r.id THEN arrow_cast(r.id, 'Utf8') ELSE arrow_cast(c.id, 'Utf8') END AS id_b,
                 r.reference AS reference_b
             FROM clusters c JOIN clusters r ON r.cluster_id = c.cluster_id AND r.representative
             WHERE NOT c.representative AND NOT c.reference AND c.jaccard_to_representative IS NULL";
        Ok(self.session.sql(sql).await?)
    }
}

/// The first three columns: id_a, id_b, reference_b.
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

/// The pairs that were drawn, in a random order, and the sizes of the strata.
pub(super) struct PairDraw {
    pub(super) drawn: Vec<Candidate>,
    /// The pairs of each stratum of the population.
    pub(super) sizes: Vec<u64>,
}

/// Draws `pairs` pairs of the population, or all if there are no more: of each stratum those with the smallest hashes. Holds that
/// many of each stratum.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if more strata than `pairs` have pairs; when a table cannot be read.
pub(super) async fn draw(population: &Population<'_>, pairs: usize, seed: u64) -> Result<PairDraw> {
    let strata = population.strata.len();
    let mut sizes = vec![0_u64; strata];
    let mut least: Vec<BTreeMap<_, Candidate>> = vec![BTreeMap::new(); strata];
    let take = |candidate: Candidate| {
        let least = &mut least[candidate.stratum];
        sizes[candidate.stratum] += 1;
        least.insert((candidate.ends.random(seed), candidate.ends.clone()), candidate);
        if least.len() > pairs {
            least.pop_last();
        }
    };
    population.each(take).await?;
    let count = sizes.iter().filter(|size| **size > 0).count();
    if pairs < count {
        return Err(Error::job(format!(
            "the pairs are of {count} strata, and one of each is needed: ask for {count} pairs or more"
        )));
    }
    let allocated = allocate(&sizes, pairs);
    let drawn = least.into_iter().zip(allocated).flat_map(|(least, number)| least.into_values().take(number));
    let mut drawn: Vec<Candidate> = drawn.collect();
    // By another hash than that of the draw, or large strata would come first. Even the first half of the labels then has pairs
    // of all strata.
    drawn.sort_by_cached_key(|candidate| (candidate.ends.random(!seed), candidate.ends.clone()));
    Ok(PairDraw { drawn, sizes })
}

/// How many of `pairs` are drawn of strata of these `sizes`: one of each that has pairs; half of the pairs are shared out evenly,
/// and half by size. What a small stratum does not have goes to the others, one pair at a time to the one that is the furthest
/// below its share.
fn allocate(sizes: &[u64], pairs: usize) -> Vec<usize> {
    let all: u64 = sizes.iter().sum();
    let pairs = all.min(pairs as u64);
    let count = sizes.iter().filter(|size| **size > 0).count();
    let share = |size: u64| pairs as f64 / 2.0 * (1.0 / count as f64 + size as f64 / all as f64);
    let mut allocated: Vec<u64> = sizes.iter().map(|size| (*size).min(1)).collect();
    for _ in count as u64..pairs {
        let below = |at: &usize| share(sizes[*at]) - allocated[*at] as f64;
        let with_room = (0..sizes.len()).filter(|at| allocated[*at] < sizes[*at]);
        // Of several, the first.
        let next = with_room.rev().max_by(|a, b| below(a).total_cmp(&below(b)));
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
        // A half evenly is 25 for each, and a half by size 0, 0.1, 1 and 98.9.
        assert_eq!(allocate(&[0, 100, 1_000, 98_900], 150), [0, 25, 26, 99]);
        assert_eq!(allocate(&[3, 0, 1_000], 100), [3, 0, 97]);
        assert_eq!(allocate(&[3, 4], 100), [3, 4]);
        assert_eq!(allocate(&[1, 1, 1_000_000], 3), [1, 1, 1]);
        assert_eq!(allocate(&[0, 0], 10), [0, 0]);
    }

    #[test]
    fn all_are_allocated() {
        for pairs in 4..200 {
            assert_eq!(allocate(&[5, 40, 0, 7, 3_000], pairs).iter().sum::<usize>(), pairs);
        }
    }
}
