//! A pseudo-random permutation of the numbers below n that is computed in both directions and not stored.

use crate::kernel::hash::SplitMix64;

const ROUNDS: usize = 4;

/// A permutation of 0..n: a Feistel network over the next even number of bits, repeated until the result is in the
/// range (Black and Rogaway, *Ciphers with arbitrary finite domains*, CT-RSA 2002).
#[derive(Debug)]
pub(super) struct Shuffle {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    pub(super) fn new(n: u64, mut random: SplitMix64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Self { n, half_bits, keys: std::array::from_fn(|_| random.next()) }
    }

    /// The place of `number`, which is below n.
    pub(super) fn to(&self, number: u64) -> u64 {
        self.walk(number, |x| self.keys.iter().fold(x, |x, key| self.round(x, *key)))
    }

    /// The number at `place`, which is below n.
    pub(super) fn from(&self, place: u64) -> u64 {
        // A round is its own inverse if the halves are exchanged before and after.
        let undone = |x| self.keys.iter().rev().fold(self.exchange(x), |x, key| self.round(x, *key));
        self.walk(place, |x| self.exchange(undone(x)))
    }

    fn walk(&self, mut x: u64, step: impl Fn(u64) -> u64) -> u64 {
        loop {
            x = step(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn round(&self, x: u64, key: u64) -> u64 {
        let (left, right) = self.halves(x);
        let mixed = SplitMix64(key ^ right).next() & self.mask();
        right << self.half_bits | (left ^ mixed)
    }

    fn exchange(&self, x: u64) -> u64 {
        let (left, right) = self.halves(x);
        right << self.half_bits | left
    }

    fn halves(&self, x: u64) -> (u64, u64) {
        (x >> self.half_bits, x & self.mask())
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once_and_found_again() {
        for n in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097] {
            let shuffle = Shuffle::new(n, SplitMix64(n));
            let mut places: Vec<u64> = (0..n).map(|number| shuffle.to(number)).collect();
            assert!(places.iter().zip(0..).all(|(place, number)| shuffle.from(*place) == number), "{n}");
            places.sort_unstable();
            assert_eq!(places, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn neighbours_part() {
        let shuffle = Shuffle::new(1_000_000, SplitMix64(7));
        let near = (0..1000).filter(|&x| shuffle.to(x).abs_diff(shuffle.to(x + 1)) < 1000).count();
        assert!(near < 20, "{near} of 1000 neighbours stayed near");
    }
}
