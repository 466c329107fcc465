//! How many pairs a source has, by those of a sample.
//!
//! In a random sample of a share p of the documents, a pair is found if both of its documents are in it: with probability p^2. So
//! the number in the source is that of the sample by p^2, however the pairs are distributed. How certain that is depends on the
//! groups that they form: a document that has m partners in the source has one in the sample with probability 1 - (1 - p)^m.

use super::measure::Measured;

/// Standard deviations between the estimate and an end of its range: 95 % of a normal distribution.
const DEVIATIONS: f64 = 2.0;
/// Pairs that a sample may have missed by chance: if 3 are expected, it has not a single one with probability 0.05.
const UNSEEN: f64 = 3.0;

/// A number of pairs in a source, with what is known of the groups that they form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairsOf {
    /// Pairs in the sample.
    pub(super) seen: f64,
    /// Pairs in the source.
    pub(super) value: f64,
    /// The range of these.
    pub(super) low: f64,
    pub(super) high: f64,
    /// The partners of a document that has one, on average.
    pub(super) partners: f64,
}

/// The pairs of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    /// The share of the documents that the sample has.
    pub(super) share: f64,
    /// Pairs of different shingle sets that are compared.
    pub(super) candidates: PairsOf,
    /// Pairs of documents with the same shingle set.
    pub(super) copies: PairsOf,
    /// Pairs in the result.
    pub(super) pairs: PairsOf,
}

impl Expected {
    /// The pairs of a source, by the run over a sample with this share of its documents.
    pub(super) fn of(plain: &Measured, share: Share) -> Self {
        let counts = &plain.counts;
        let documents = counts.documents as f64;
        let copies = (counts.documents - counts.shingle_sets.min(counts.documents)) as f64;
        // A star of k copies has k - 1 pairs, and leaves out (k - 1) (k - 2) / 2. Such pairs grow as the documents.
        let stars = (2.0 * counts.pairs_left_out as f64).sqrt().min(copies);
        let copies = copies - stars;
        let pairs = counts.pairs as f64 - stars;
        // Of a smaller group, k - 1 are counted above, and k (k - 1) / 2 are pairs.
        let of_copies = (pairs - counts.scores as f64).max(copies);
        let candidates = counts.candidates.map_or(pairs - of_copies, |candidates| candidates as f64);
        let of = |seen, in_pairs| PairsOf::new(seen, in_pairs, documents, share);
        let in_candidates = plain.rows("positions").map_or(2.0 * candidates, |rows| rows as f64);
        Self {
            share: share.of_all,
            candidates: of(candidates, in_candidates.min(documents)),
            copies: of(of_copies, (2.0 * copies).min(documents)),
            pairs: of(pairs, counts.clustered_documents as f64 - stars).and(stars / share.of_all),
        }
    }
}

impl Expected {
    /// With the pairs of new and reference documents: those that the run `plain` over the sample has and the run `alone` without
    /// reference documents has not. A pair is in the sample with the probability of its new document.
    pub(super) fn with_reference(self, plain: &Measured, alone: &Measured) -> Self {
        let more = |plain: u64, alone: u64| plain.saturating_sub(alone) as f64;
        let candidates = |run: &Measured| run.counts.candidates.unwrap_or(run.counts.scores);
        let candidates = more(candidates(plain), candidates(alone));
        Self {
            candidates: self.candidates.and_in_proportion(candidates, self.share),
            pairs: self.pairs.and_in_proportion(more(plain.counts.pairs, alone.counts.pairs), self.share),
            ..self
        }
    }
}

/// The share of the documents that a sample has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    /// Of all documents, over 0 and at most 1.
    pub(super) of_all: f64,
    /// The share of the documents that were read to choose them from. Pairs whose documents lie near each other are found more
    /// often than others if that is less than 1.
    pub(super) read: f64,
}

impl PairsOf {
    /// These, and others whose number is known.
    fn and(self, more: f64) -> Self {
        Self { value: self.value + more, low: self.low + more, high: self.high + more, ..self }
    }

    /// These, and `seen` others in the sample, whose number in the source is in proportion to the documents.
    fn and_in_proportion(self, seen: f64, share: f64) -> Self {
        if share >= 1.0 {
            return self.and(seen);
        }
        // A document with several partners has all of them: about as many as it has among the new ones.
        let deviation = DEVIATIONS * (seen * self.partners.max(1.0)).sqrt();
        Self {
            value: self.value + seen / share,
            low: self.low + (seen - deviation).max(0.0) / share,
            high: self.high + (seen + deviation + UNSEEN) / share,
            ..self
        }
    }

    /// The pairs of a source, of whose `documents` in the sample `in_pairs` form `seen` pairs.
    fn new(seen: f64, in_pairs: f64, documents: f64, share: Share) -> Self {
        let p = share.of_all;
        if p >= 1.0 {
            let partners = 2.0 * seen / in_pairs.max(1.0);
            return Self { seen, value: seen, low: seen, high: seen, partners };
        }
        let all = documents / p;
        let most = all * (all - 1.0) / 2.0;
        let value = (seen / (p * p)).min(most);
        // The k (k - 1) / 2 pairs of a group are seen together: their number varies by the cube of k.
        let together = (2.0 * seen / in_pairs.max(1.0)).max(1.0);
        let deviation = (seen * (2.0 * together - 1.0)).sqrt();
        let low = (seen - DEVIATIONS * deviation).max(seen * p) * share.read / (p * p);
        let high = (seen + DEVIATIONS * deviation + UNSEEN) / (p * p);
        let partners = partners(2.0 * value / all, in_pairs / documents.max(1.0), p);
        Self { seen, value, low: low.min(value), high: high.min(most), partners }
    }
}

/// The partners of a document that has one, if a document of the source has `each` on average, and this share of the documents
/// of a sample with share `p` have one in it: the m of each / m * (1 - (1 - p)^m) = `with_one`.
fn partners(each: f64, with_one: f64, p: f64) -> f64 {
    if each <= 0.0 || with_one <= 0.0 {
        return 1.0;
    }
    let seen = |m: f64| each / m * -(m * (-p).ln_1p()).exp_m1();
    let (mut low, mut high) = (each.max(1.0), (each / with_one).max(1.0) + 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match seen(middle) > with_one {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::SplitMix64;

    #[test]
    fn pairs_with_reference_documents_grow_as_the_documents() {
        let share = Share { of_all: 0.1, read: 1.0 };
        let own = PairsOf::new(20.0, 40.0, 1_000.0, share);
        let both = own.and_in_proportion(100.0, share.of_all);
        assert!((own.value - 2_000.0).abs() < 1e-6 && (both.value - 3_000.0).abs() < 1e-6, "{both:?}");
        assert!(both.low > own.low + 400.0 && both.low < own.low + 1_000.0, "{both:?}");
        assert!(both.high > own.high + 1_000.0 && both.high < own.high + 1_600.0, "{both:?}");
        let all = PairsOf::new(20.0, 40.0, 1_000.0, Share { of_all: 1.0, read: 1.0 });
        let both = all.and_in_proportion(100.0, 1.0);
        assert_eq!((both.low, both.value, both.high), (120.0, 120.0, 120.0));
    }

    /// The pairs and the documents with a partner in a sample of a share of `groups` groups of `size`.
    fn sampled(groups: u64, size: u64, share: f64, seed: u64) -> (f64, f64) {
        let mut random = SplitMix64(seed);
        let (mut pairs, mut with_one) = (0, 0);
        for _ in 0..groups {
            let there = (0..size).filter(|_| (random.next() as f64 / 2f64.powi(64)) < share).count() as u64;
            pairs += there * there.saturating_sub(1) / 2;
            with_one += if there > 1 { there } else { 0 };
        }
        (pairs as f64, with_one as f64)
    }

    #[test]
    fn the_range_holds_the_pairs_of_groups_of_any_size() {
        let (all, p) = (100_000.0, 0.1);
        for (groups, size) in [(5_000, 2), (2_000, 5), (200, 50), (10, 1_000)] {
            let truth = (groups * size * (size - 1) / 2) as f64;
            let held = (1..=100).filter(|seed| {
                let (seen, with_one) = sampled(groups, size, p, *seed);
                let found = PairsOf::new(seen, with_one, all * p, Share { of_all: p, read: 1.0 });
                found.low <= truth && truth <= found.high
            });
            assert!(held.count() >= 90, "{groups} groups of {size}");
            let (seen, with_one) = sampled(groups, size, p, 7);
            let found = PairsOf::new(seen, with_one, all * p, Share { of_all: p, read: 1.0 });
            let off = found.partners / (size - 1) as f64;
            assert!((0.5..2.0).contains(&off), "{} of {size} - 1", found.partners);
        }
    }

    #[test]
    fn a_sample_of_everything_has_no_range() {
        let found = PairsOf::new(7.0, 10.0, 100.0, Share { of_all: 1.0, read: 1.0 });
        assert_eq!((found.value, found.low, found.high), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_sample_without_a_pair_does_not_prove_that_there_are_no_pairs() {
        let found = PairsOf::new(0.0, 0.0, 1_000.0, Share { of_all: 0.01, read: 1.0 });
        assert_eq!((found.value, found.low, found.high), (0.0, 0.0, 30_000.0));
    }
}
