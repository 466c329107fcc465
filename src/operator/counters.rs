//! Counts of very many keys in little memory, which are never too small.
//!
//! Many keys share a counter, as in a count-min sketch (Cormode and Muthukrishnan, *An Improved Data Stream Summary*, 2005). A
//! key whose counter has passed a number has a count of its own from then on, so that it is known within bounds.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::sketches::KeyHasher;

/// The key of a shingle: the product spreads the numbers of short hashes over all bits (Knuth, *The Art of Computer Programming* 3,
/// section 6.4).
pub(super) fn key(shingle: u64) -> u64 {
    shingle.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A map by [`key`].
pub(super) type ByKey<T> = HashMap<u64, T, BuildHasherDefault<KeyHasher>>;

/// How often a shingle was counted. Another shingle may have the same counter, so this is known within bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub shingle: u64,
    pub most: u64,
    pub least: u64,
}

/// There are `2^COUNTER_BITS` counters.
const COUNTER_BITS: u32 = 22;
/// `2^SHARED_BITS` neighbouring counters share one for what is beyond a byte.
const SHARED_BITS: u32 = 1;
/// The most shingles that have a count of their own, and bytes of one. The table that holds them is at most doubled while it grows.
const MOST: usize = 1 << 17;
const BYTES_OF_COUNT: usize = 72;

/// Shingles whose counters are read together before any of them is counted, so that the processor waits for all of them at once.
const SHINGLES_AT_ONCE: usize = 64;

/// The place of the counter of a [`key`].
fn place(key: u64) -> usize {
    (key >> (u64::BITS - COUNTER_BITS)) as usize
}

/// Counters that shingles share.
pub(super) struct SharedCounters {
    /// Up to 255, which most of them do not reach: the fewer bytes, the more of them are in the processor's cache.
    counters: Vec<u8>,
    /// What counters counted beyond that.
    beyond: Vec<u16>,
    /// The shingles whose counter passed `missed`, by key.
    counted: ByKey<Counted>,
    missed: u64,
}

impl SharedCounters {
    /// The memory that they take at most.
    pub(super) const BYTES: usize =
        (1 << COUNTER_BITS) + (size_of::<u16>() << (COUNTER_BITS - SHARED_BITS)) + BYTES_OF_COUNT * MOST;

    /// A shingle that occurs more than `missed` times has a count of its own, unless there are too many of them.
    pub(super) fn new(missed: u64) -> Self {
        Self {
            counters: vec![0; 1 << COUNTER_BITS],
            beyond: vec![0; 1 << (COUNTER_BITS - SHARED_BITS)],
            counted: ByKey::default(),
            // A counter that is full says nothing about larger numbers.
            missed: missed.min(u64::from(u16::MAX) - 1),
        }
    }

    /// How often at most a shingle occurs that has no count.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// The counts of shingles that have one.
    pub(super) fn into_counted(self) -> impl Iterator<Item = Counted> {
        self.counted.into_values()
    }

    /// Counts distinct shingles.
    pub(super) fn count_all(&mut self, shingles: &[u64]) {
        for shingles in shingles.chunks(SHINGLES_AT_ONCE) {
            let looked_up = shingles.iter().fold(0, |all, &shingle| all | self.counters[place(key(shingle))]);
            std::hint::black_box(looked_up);
            for &shingle in shingles {
                self.count(shingle, key(shingle));
            }
        }
    }

    /// Counts a shingle, whose [`key`] is `key`.
    fn count(&mut self, shingle: u64, key: u64) {
        let at = place(key);
        let counter = &mut self.counters[at];
        let counted = if *counter < u8::MAX {
            *counter += 1;
            u64::from(*counter)
        } else {
            let beyond = &mut self.beyond[at >> SHARED_BITS];
            *beyond = beyond.saturating_add(1);
            u64::from(u8::MAX) + u64::from(*beyond)
        };
        if counted > self.missed {
            self.count_own(shingle, key, counted);
        }
    }

    /// Counts a shingle whose counter passed `missed`, and is `counted` now.
    #[cold]
    fn count_own(&mut self, shingle: u64, key: u64, counted: u64) {
        let first = Counted { shingle, most: counted - 1, least: 0 };
        let own = self.counted.entry(key).or_insert(first);
        (own.most, own.least) = (own.most + 1, own.least + 1);
        if self.counted.len() > MOST {
            self.miss_more();
        }
    }

    /// Keeps the counts of fewer shingles: those of the greatest counts.
    fn miss_more(&mut self) {
        while self.counted.len() > MOST / 2 && self.missed < u64::from(u16::MAX) - 1 {
            self.miss((self.missed.max(1) * 2).min(u64::from(u16::MAX) - 1));
        }
    }

    /// Gives no count to shingles that occur `missed` times or less.
    pub(super) fn miss(&mut self, missed: u64) {
        self.missed = missed;
        self.counted.retain(|_, own| own.most > missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_shingles_are_missed_and_not_held() {
        let mut counts = SharedCounters::new(1);
        let often = 1 << 40;
        for round in 0..6 {
            (0..MOST as u64 / 4).for_each(|shingle| {
                (0..3).for_each(|_| counts.count(shingle + (round << 20), key(shingle + (round << 20))))
            });
            (0..40).for_each(|_| counts.count(often, key(often)));
            assert!(counts.counted.len() <= MOST);
        }
        assert!(counts.missed > 1 && counts.missed < 240, "{}", counts.missed);
        assert!(counts.counted[&key(often)].most >= 240);
    }

    /// A rare shingle with the counter of a frequent one does not become frequent.
    #[test]
    fn a_shared_counter_leaves_the_least_number_as_it_is() {
        let mut counts = SharedCounters::new(3);
        let (often, counter) = (1 << 40, |shingle| key(shingle) >> (u64::BITS - COUNTER_BITS));
        let rare = (0..).find(|&shingle| counter(shingle) == counter(often)).unwrap();
        (0..100).for_each(|_| counts.count(often, key(often)));
        counts.count(rare, key(rare));
        let found = |shingle| counts.counted[&key(shingle)];
        assert_eq!((found(often).least, found(often).most), (97, 100));
        assert_eq!((found(rare).least, found(rare).most), (1, 101));
    }
    /// Also where a counter passes a byte, and where its neighbour did.
    #[test]
    fn no_count_is_too_small() {
        let counter = |shingle| key(shingle) >> (u64::BITS - COUNTER_BITS);
        let often = 1 << 40;
        let neighbour = (0..).find(|&shingle| counter(shingle) == counter(often) ^ 1).unwrap();
        for missed in [1, 254, 255, 256, 500] {
            let mut counts = SharedCounters::new(missed);
            for _ in 0..700 {
                counts.count(often, key(often));
                counts.count(neighbour, key(neighbour));
            }
            for shingle in [often, neighbour] {
                let Counted { most, least, .. } = counts.counted[&key(shingle)];
                assert!(most >= 700 && (200..=700).contains(&least), "{missed}: {least} to {most}");
                assert!(most <= 2 * 700, "{missed}: {most}");
            }
            // A shingle that was not counted once has no count.
            assert_eq!(counts.counted.len(), 2);
        }
    }
}
