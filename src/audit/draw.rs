//! Which pairs are drawn, and how many of each stratum.

use std::collections::BTreeMap;

use super::population::{Candidate, Population};
use crate::error::{Error, Result};

/// The pairs that were drawn, in a random order, and the sizes of the strata.
pub(super) struct Draw {
    pub(super) drawn: Vec<Candidate>,
    /// The pairs of each stratum of the population.
    pub(super) sizes: Vec<u64>,
}

/// Draws `pairs` pairs of the population, or all if there are no more: of each stratum those with the smallest hashes. Holds that
/// many of each stratum.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if more strata than `pairs` have pairs; when a table cannot be read.
pub(super) async fn draw(population: &Population<'_>, pairs: usize, seed: u64) -> Result<Draw> {
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
    Ok(Draw { drawn, sizes })
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
