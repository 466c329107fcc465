//! Pseudorandom numbers from a seed, the same on every machine: splitmix64.

/// Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014, figure 17, with the constants of
/// Vigna's `splitmix64.c`.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next 64 bits.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would return an Option, and the numbers never end"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[inline]
    pub(crate) fn upper_half(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }
}
