//! The drawn sets by their shingles: which of them has a shingle, and whether a document of a number of shingles can be similar
//! to one.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::prelude::SessionContext;

use crate::error::Result;
use crate::job::Score;

/// Bits of the filter for each shingle, which sets two of them in one word: at most one in 150 shingles that no drawn set has
/// passes it. That of a thousand sets of a hundred shingles fits into the cache of a core.
const BITS_OF_SHINGLE: usize = 32;
/// The most bits of the filter, as a power of two: 16 MiB.
const MOST_BITS: u32 = 27;

/// Bytes of an entry with its bits in the filter: a vector that grows is at most doubled, and moved.
const BYTES_OF_ENTRY: usize = 3 * size_of::<(u64, u32)>() + 2 * BITS_OF_SHINGLE / 8;

/// A drawn set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexedSet {
    /// Its id among the sets.
    pub(super) set: u64,
    /// Its shingles.
    pub(super) shingles: u64,
}

/// The drawn sets by their shingles.
pub(super) struct Index {
    pub(super) drawn: Vec<IndexedSet>,
    /// A shingle and the place of a set that has it, sorted.
    entries: Vec<(u64, u32)>,
    /// Two bits of a word for the hash of each shingle.
    filter: Vec<u64>,
    /// The numbers of shingles of drawn sets, sorted.
    sizes: Vec<u64>,
    score: Score,
    held: MemoryReservation,
}

impl Index {
    /// An index without sets.
    pub(super) fn new(session: &SessionContext, score: Score) -> Self {
        let held = MemoryConsumer::new("Evaluate").register(&session.runtime_env().memory_pool);
        let (drawn, entries, filter, sizes) = Default::default();
        Self { drawn, entries, filter, sizes, score, held }
    }

    /// Adds a drawn set with its distinct shingles. [`Self::finish`] must follow.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn add(&mut self, set: u64, shingles: &[u64]) -> Result<()> {
        self.held.try_grow(BYTES_OF_ENTRY * shingles.len())?;
        let place = self.drawn.len() as u32;
        self.drawn.push(IndexedSet { set, shingles: shingles.len() as u64 });
        self.entries.extend(shingles.iter().map(|&shingle| (shingle, place)));
        Ok(())
    }

    /// Makes the index ready to be searched.
    pub(super) fn finish(&mut self) {
        self.entries.sort_unstable();
        self.sizes = self.drawn.iter().map(|place| place.shingles).collect();
        self.sizes.sort_unstable();
        self.sizes.dedup();
        let bits = (BITS_OF_SHINGLE * self.entries.len()).max(64).next_power_of_two().ilog2().min(MOST_BITS);
        self.filter = vec![0; 1 << (bits - 6)];
        for at in 0..self.entries.len() {
            let (word, bits) = self.bits(self.entries[at].0);
            self.filter[word] |= bits;
        }
    }

    /// The word of a shingle and its bits there. The product spreads the numbers of short hashes over all bits.
    fn bits(&self, shingle: u64) -> (usize, u64) {
        let hash = shingle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The filter has a power of two of words, so that the leading bits are the number of one.
        let leading = self.filter.len().ilog2();
        let word = hash.checked_shr(u64::BITS - leading).unwrap_or(0) as usize;
        (word, 1 << (hash >> (58 - leading) & 63) | 1 << (hash >> (52 - leading) & 63))
    }

    /// The drawn sets that have a shingle.
    pub(super) fn places(&self, shingle: u64) -> impl Iterator<Item = u32> + '_ {
        let (word, bits) = self.bits(shingle);
        let start = match self.filter[word] & bits == bits {
            true => self.entries.partition_point(|entry| entry.0 < shingle),
            false => self.entries.len(),
        };
        self.entries[start..].iter().take_while(move |entry| entry.0 == shingle).map(|entry| entry.1)
    }

    /// How many of its `shingles` a document shares at least with any set that it is similar to; `None` if it has too few or too
    /// many to be similar to a drawn set.
    pub(super) fn least(&self, shingles: u64) -> Option<u64> {
        let Score { measure, threshold, .. } = self.score;
        measure.least_shared(shingles, &self.sizes, threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Measure;
    use crate::kernel::containment::containment_of;
    use crate::kernel::jaccard::jaccard_of;
    use crate::kernel::random::SplitMix64;

    fn index(score: Score, sets: &[(u64, Vec<u64>)]) -> Index {
        let mut index = Index::new(&SessionContext::new(), score);
        sets.iter().for_each(|(set, shingles)| index.add(*set, shingles).unwrap());
        index.finish();
        index
    }

    #[test]
    fn the_sets_of_a_shingle_are_found() {
        let mut random = SplitMix64(1);
        // Small numbers are those of short hashes.
        let shared: Vec<u64> = (0..50).chain((0..50).map(|_| random.next())).collect();
        let own: Vec<u64> = (0..1_000).map(|_| random.next()).collect();
        let all = [(4, shared.clone()), (9, [shared.clone(), own.clone()].concat())];
        let index = index(Score::default(), &all);
        assert!(shared.iter().all(|&shingle| index.places(shingle).collect::<Vec<_>>() == [0, 1]));
        assert!(own.iter().all(|&shingle| index.places(shingle).collect::<Vec<_>>() == [1]));
        assert!((0..10_000).all(|_| index.places(random.next()).count() == 0));
        assert_eq!(index.drawn[1], IndexedSet { set: 9, shingles: 1_100 });
        let empty = super::tests::index(Score::default(), &[]);
        assert_eq!((empty.places(7).count(), empty.least(7)), (0, None));
    }

    /// No document that is similar to a set shares fewer shingles with it.
    #[test]
    fn the_least_is_a_bound() {
        for measure in [Measure::Jaccard, Measure::Containment] {
            for threshold in [0.3, 0.5, 0.8, 1.0] {
                let sets = [3, 7, 40, 41].map(|size| (size, (0..size).collect::<Vec<u64>>()));
                let index = index(Score { threshold, measure, ..Score::default() }, &sets);
                for shingles in 1..120 {
                    let similar = |(size, shared): (u64, u64)| match measure {
                        Measure::Jaccard => jaccard_of(shared, size, shingles) >= threshold,
                        Measure::Containment => containment_of(shared, size.min(shingles)) >= threshold,
                    };
                    let pairs = [3, 7, 40, 41]
                        .into_iter()
                        .flat_map(|size| (0..=size.min(shingles)).map(move |shared| (size, shared)));
                    let fewest = pairs.filter(|&pair| similar(pair)).map(|(_, shared)| shared).min();
                    match (fewest, index.least(shingles)) {
                        (Some(fewest), Some(least)) => assert!(least > 0 && least <= fewest),
                        (None, None) => {}
                        (None, Some(_)) => assert!(measure == Measure::Containment),
                        (Some(_), None) => panic!("{measure:?} {threshold} {shingles}"),
                    }
                }
            }
        }
    }
}
