//! Which shingle sets are drawn, from strata of equal numbers of copies and of equal sizes of clusters, about.

use std::collections::{BTreeMap, HashMap};

use super::sets::Set;
use crate::kernel::random::SplitMix64;

/// A stratum: the binary digits of the number of copies, and of the size of the cluster.
type Key = (u32, u32);

/// A shingle set that was drawn, and its weight: how many sets of its stratum it represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnSet {
    pub(super) set: u64,
    pub(super) stratum: usize,
    pub(super) weight: f64,
}

/// The sets that were drawn, in the order of their strata, and the sizes of these.
pub(super) struct SetDraw {
    pub(super) drawn: Vec<DrawnSet>,
    pub(super) sizes: Vec<u64>,
}

/// The least number of sets that is drawn of a stratum, if it has so many.
const LEAST: usize = 5;

fn key(set: &Set) -> Key {
    let digits = |number: u64| u64::BITS - number.leading_zeros();
    (digits(set.documents), digits(set.cluster))
}

/// Draws about `sample` of the sets, or all if there are no more. Half of the sample is shared out by the sizes of the strata,
/// and half evenly. The same seed draws the same sets, in whatever order documents were read.
pub(super) fn draw(sets: &HashMap<u64, Set>, sample: usize, seed: u64) -> SetDraw {
    let mut strata: BTreeMap<Key, Vec<(u64, u64)>> = BTreeMap::new();
    for (&id, set) in sets {
        let place = SplitMix64(set.key() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next();
        strata.entry(key(set)).or_default().push((place, id));
    }
    let (all, count) = (sets.len(), strata.len());
    let mut draw = SetDraw { drawn: Vec::new(), sizes: Vec::with_capacity(count) };
    for (stratum, mut places) in strata.into_values().enumerate() {
        let size = places.len();
        draw.sizes.push(size as u64);
        let by_size = sample as f64 / 2.0 * size as f64 / all as f64;
        let evenly = sample as f64 / 2.0 / count as f64;
        let wanted =
            if sample >= all { size } else { ((by_size + evenly).ceil() as usize).max(LEAST).min(size) };
        places.sort_unstable();
        let weight = size as f64 / wanted as f64;
        draw.drawn.extend(places.into_iter().take(wanted).map(|(_, set)| DrawnSet { set, stratum, weight }));
    }
    draw
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> HashMap<u64, Set> {
        let set = |number: u64| Set {
            hashes: [SplitMix64(number).next(), 0],
            group: 0,
            shingles: 90,
            documents: if number == 7 { 20_000 } else { 1 + number % 3 / 2 },
            cluster: if number.is_multiple_of(4) { 3 } else { 0 },
        };
        (0..1000).map(|number| (number, set(number))).collect()
    }

    #[test]
    fn weights_add_up_to_the_sets_and_rare_strata_are_drawn() {
        let sets = sets();
        let draw = draw(&sets, 100, 1);
        let weights: f64 = draw.drawn.iter().map(|drawn| drawn.weight).sum();
        assert!((weights - 1000.0).abs() < 1e-9, "{weights}");
        assert!(draw.drawn.iter().any(|drawn| drawn.set == 7));
        // The stratum of one set has less than its share.
        assert!((90..=110).contains(&draw.drawn.len()), "{}", draw.drawn.len());
        assert_eq!(draw.sizes.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn the_seed_decides_and_a_large_sample_is_everything() {
        let of = |sample, seed| draw(&sets(), sample, seed).drawn;
        assert_eq!(of(100, 1), of(100, 1));
        assert_ne!(of(100, 1), of(100, 2));
        let all = of(1000, 1);
        assert!(all.len() == 1000 && all.iter().all(|drawn| drawn.weight == 1.0));
    }
}
