//! The join of sketches and candidates. The one that moves the fewest bytes is chosen, by numbers that are known before.

use crate::engine::Engine;
use crate::frames::scores::{SketchJoin, segments};

/// The share of a task's memory that sketches may take if they are held whole.
const HELD_SHARE: f64 = 0.4;

/// If sketches are divided by [`Engine::partitions`], they take the smaller part of a task's memory. If nothing else is
/// held, a partition may have this many times more.
const LARGER_SEGMENTS: u64 = 2;

/// Bytes of a pair in a shuffle: two documents; with its home; and of a request (home, document).
const BYTES_OF_PAIR: f64 = 16.0;
const BYTES_AT_HOME: f64 = 24.0;
const BYTES_OF_REQUEST: f64 = 16.0;

/// The least bytes of pairs that fit in memory while sketches are read past them.
const LEAST_WAITING: f64 = 4e6;

/// The documents and candidates to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// The most documents in candidates.
    pub(super) documents: u64,
    pub(super) candidates: u64,
    /// The average bytes of a sketch.
    pub(super) sketch: u64,
}

/// A join, and its estimated costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JoinCost {
    pub(super) join: SketchJoin,
    /// The approximate bytes that are written or sent, and read again.
    pub(super) moved: f64,
    /// Bytes that go to partitions: see [`Engine::partitions`].
    pub(super) shuffled: u64,
}

impl Load {
    /// Bytes of all sketches.
    pub(super) fn sketches(self) -> f64 {
        self.documents as f64 * self.sketch as f64
    }

    /// The cheapest join that `engine` can make.
    pub(super) fn cheapest_join(self, engine: &dyn Engine) -> JoinCost {
        let divided = self.cheapest_divided(engine, 1);
        // If joins must not hold a side, nothing is held whole.
        let holds = engine.config().options().optimizer.hash_join_single_partition_threshold > 0;
        if !holds || self.sketches() > HELD_SHARE * engine.task_bytes() as f64 {
            return divided;
        }
        let readers = engine.partitions(0) as f64;
        let moved = if engine.is_one_process() { 0.0 } else { self.sketches() * (1.0 + readers) };
        if moved > divided.moved {
            return divided;
        }
        JoinCost { join: SketchJoin::Held, moved, shuffled: 0 }
    }

    /// The cheapest join that holds no side whole, in a plan of at least `least` partitions.
    pub(super) fn cheapest_divided(self, engine: &dyn Engine, least: usize) -> JoinCost {
        let partitions = |bytes| engine.partitions(bytes).max(least);
        let blocks = self.in_blocks(partitions);
        let segments = engine.is_one_process().then(|| self.by_segments(partitions));
        segments.filter(|segments| segments.moved <= blocks.moved).unwrap_or(blocks)
    }

    /// All sketches are written once. A partition reads them once for as many of its pairs as fit in memory.
    fn by_segments(self, partitions: impl Fn(u64) -> usize) -> JoinCost {
        let shuffled = self.sketches() as u64 / LARGER_SEGMENTS;
        let (partitions, pairs) = (partitions(shuffled) as f64, self.candidates as f64 * BYTES_OF_PAIR);
        let waiting = (self.sketches() / partitions).max(LEAST_WAITING);
        let passes = partitions * (pairs / partitions / waiting).ceil().max(1.0);
        let moved = self.sketches() * (1.0 + passes) + 2.0 * pairs;
        JoinCost { join: SketchJoin::Segments, moved, shuffled }
    }

    /// A sketch is shuffled by its document, and once more for each home that needs it.
    fn in_blocks(self, partitions: impl Fn(u64) -> usize) -> JoinCost {
        // A candidate needs at most two sketches.
        let most = 2.0 * self.candidates as f64;
        let bytes = |requests: f64| (requests * (self.sketch as f64 + BYTES_AT_HOME)) as u64;
        // The expected number of different segments, if the candidates of a document choose them at random.
        let segments = segments(partitions(bytes(most))) as f64;
        let each = most / self.documents.max(1) as f64;
        let places = segments * -(-each / segments).exp_m1();
        let requests = (self.documents as f64 * places).min(most);
        let written = self.sketches()
            + requests * self.sketch as f64
            + most * BYTES_OF_REQUEST
            + self.candidates as f64 * BYTES_AT_HOME;
        JoinCost { join: SketchJoin::Blocks, moved: 2.0 * written, shuffled: bytes(requests) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Local, session};
    use crate::job;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_join_that_moves_the_fewest_bytes_is_taken() {
        for (memory, documents, each, sketch, expected) in [
            // Twenty thousand posts, each a candidate with 124 others.
            (4096, 19_466, 124.0, 12_800, SketchJoin::Held),
            (512, 50_000, 500.0, 2_200, SketchJoin::Held),
            (512, 19_466, 124.0, 12_800, SketchJoin::Segments),
            (512, 200_000, 50.0, 2_200, SketchJoin::Segments),
            (512, 200_000, 500.0, 2_200, SketchJoin::Segments),
            (4096, 1_000_000, 50.0, 2_200, SketchJoin::Segments),
            (512, 600_000, 0.6, 2_200, SketchJoin::Blocks),
            (4096, 100_000_000, 1.5, 1_300, SketchJoin::Blocks),
        ] {
            let settings = job::Engine { threads: 2, ..job::Engine::local(memory * MIB) };
            let engine = Local::new(session::session(&settings).unwrap());
            let load = Load { documents, candidates: (documents as f64 * each) as u64, sketch };
            let cost = load.cheapest_join(&engine);
            assert_eq!(cost.join, expected, "{documents} documents, {each} candidates, {memory} MiB");
            // No sketch is sent to every candidate that needs it.
            let at_homes = documents as f64 * each.clamp(10.0, 100.0) * sketch as f64;
            assert!(cost.moved < at_homes, "{} bytes instead of {at_homes}", cost.moved);
        }
    }
}
