//! The join of sketches and candidates. The one that moves the fewest bytes is chosen, by numbers that are known before.

use crate::engine::Engine;
use crate::frames::scores::{SketchJoin, homes, segments};

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

/// The joins that `engine` can make for `load` in a plan of at least `least` partitions, the cheapest first.
pub(super) fn joins(load: Load, engine: &dyn Engine, least: usize) -> Vec<JoinCost> {
    let partitions = |bytes| engine.partitions(bytes).max(least);
    let mut joins =
        vec![at_homes(load, partitions, SketchJoin::Homes), at_homes(load, partitions, SketchJoin::Blocks)];
    if engine.is_one_process() {
        joins.push(by_segments(load, partitions));
    }
    // If joins must not hold a side, nothing is held whole.
    let holds = engine.config().options().optimizer.hash_join_single_partition_threshold > 0;
    if holds && load.sketches() <= HELD_SHARE * engine.task_bytes() as f64 {
        let readers = if engine.is_one_process() { 0 } else { partitions(0) };
        let moved = if readers > 0 { load.sketches() * (1 + readers) as f64 } else { 0.0 };
        joins.push(JoinCost { join: SketchJoin::Held, moved, shuffled: 0 });
    }
    joins.sort_by(|a, b| a.moved.total_cmp(&b.moved));
    joins
}

impl Load {
    /// Bytes of all sketches.
    pub(super) fn sketches(self) -> f64 {
        self.documents as f64 * self.sketch as f64
    }

    fn pairs(self) -> f64 {
        self.candidates as f64 * BYTES_OF_PAIR
    }
}

/// The expected number of different places among `places`, for a document with `each` candidates that choose them at
/// random.
fn places(each: f64, places: u64) -> f64 {
    let places = places.max(1) as f64;
    places * -(-each / places).exp_m1()
}

/// All sketches are written once. A partition reads them once for as many of its pairs as fit in memory.
fn by_segments(load: Load, partitions: impl Fn(u64) -> usize) -> JoinCost {
    let shuffled = load.sketches() as u64 / LARGER_SEGMENTS;
    let partitions = partitions(shuffled) as f64;
    let waiting = (load.sketches() / partitions).max(LEAST_WAITING);
    let passes = partitions * (load.pairs() / partitions / waiting).ceil().max(1.0);
    JoinCost {
        join: SketchJoin::Segments,
        moved: load.sketches() * (1.0 + passes) + 2.0 * load.pairs(),
        shuffled,
    }
}

/// A sketch is shuffled by its document, and once more for each home that needs it.
fn at_homes(load: Load, partitions: impl Fn(u64) -> usize, join: SketchJoin) -> JoinCost {
    // A candidate needs at most two sketches.
    let most = 2.0 * load.candidates as f64;
    let bytes = |requests: f64| (requests * (load.sketch as f64 + BYTES_AT_HOME)) as u64;
    let partitions = partitions(bytes(most));
    let each = load.candidates as f64 / load.documents.max(1) as f64;
    let places = match join {
        SketchJoin::Blocks => places(2.0 * each, segments(partitions)),
        // The lesser document is needed at its own home.
        _ => places(each, 1) + places(each, homes(partitions)),
    };
    let requests = (load.documents as f64 * places).min(most);
    let written = load.sketches()
        + requests * load.sketch as f64
        + most * BYTES_OF_REQUEST
        + load.candidates as f64 * BYTES_AT_HOME;
    JoinCost { join, moved: 2.0 * written, shuffled: bytes(requests) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Local, session};
    use crate::job;

    const MIB: u64 = 1 << 20;

    /// The cheapest join with this memory and two threads, and the megabytes that it moves.
    fn cheapest(memory: u64, documents: u64, each: f64, sketch: u64) -> (SketchJoin, u64) {
        let settings = job::Engine { threads: 2, ..job::Engine::local(memory) };
        let engine = Local::new(session::session(&settings).unwrap());
        let load = Load { documents, candidates: (documents as f64 * each) as u64, sketch };
        let joins = joins(load, &engine, 1);
        assert!(joins.is_sorted_by(|a, b| a.moved <= b.moved));
        (joins[0].join, (joins[0].moved / 1e6) as u64)
    }

    #[test]
    fn sketches_that_fit_are_held() {
        // Twenty thousand posts, each a candidate with 124 others.
        assert_eq!(cheapest(4096 * MIB, 19_466, 124.0, 12_800), (SketchJoin::Held, 0));
        assert_eq!(cheapest(512 * MIB, 50_000, 500.0, 2_200), (SketchJoin::Held, 0));
    }

    #[test]
    fn sketches_with_many_candidates_are_read_past_segments() {
        for (memory, documents, each) in
            [(512, 19_466, 124.0), (512, 200_000, 50.0), (512, 200_000, 500.0), (4096, 1_000_000, 50.0)]
        {
            let sketch = if documents < 20_000 { 12_800 } else { 2_200 };
            let (join, moved) = cheapest(memory * MIB, documents, each, sketch);
            assert_eq!(join, SketchJoin::Segments, "{documents} documents, {each} candidates, {memory} MiB");
            // With homes, nearly every sketch would be sent to all candidates that need it.
            let at_homes = documents as f64 * each.min(100.0) * sketch as f64 / 1e6;
            assert!((moved as f64) < at_homes, "{moved} megabytes instead of {at_homes}");
        }
    }

    #[test]
    fn sketches_with_few_candidates_go_to_their_homes() {
        assert_eq!(cheapest(512 * MIB, 600_000, 0.6, 2_200).0, SketchJoin::Homes);
        assert_eq!(cheapest(4096 * MIB, 100_000_000, 1.5, 1_300).0, SketchJoin::Homes);
    }
}
