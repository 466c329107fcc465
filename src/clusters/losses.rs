//! Counts the shingles that no document in a cluster contains after the duplicates are removed.

use crate::kernel::measure::{containment_of, missing};

/// Collects the shingles in a cluster that its representative does not contain, separately for removed and for kept documents. Processes
/// one cluster at a time: first the representative, then the other documents.
#[derive(Debug, Default)]
pub(crate) struct ClusterLosses {
    representative: Option<Vec<u64>>,
    removed: ShingleCollection,
    spared: ShingleCollection,
}

/// Distinct shingles. Repeats are dropped each time the list has doubled.
#[derive(Debug, Default)]
struct ShingleCollection {
    all: Vec<u64>,
    /// The number of shingles at which repeats are dropped next.
    room: usize,
}

/// The number of shingles at which repeats are first dropped.
const FIRST_ROOM: usize = 1 << 12;

impl ShingleCollection {
    fn add(&mut self, shingles: &[u64]) {
        self.all.extend_from_slice(shingles);
        if self.all.len() > self.room.max(FIRST_ROOM) {
            self.room = 2 * self.distinct().len();
        }
    }

    fn distinct(&mut self) -> &[u64] {
        self.all.sort_unstable();
        self.all.dedup();
        &self.all
    }

    fn clear(&mut self) {
        self.all.clear();
        self.room = 0;
    }
}

impl ClusterLosses {
    /// Begins a cluster with the sorted shingles of its representative.
    pub(crate) fn begin(&mut self, representative: Vec<u64>) {
        self.removed.clear();
        self.spared.clear();
        self.representative = Some(representative);
    }

    /// Adds the sorted shingles of another document. The document counts as removed unless [`is_spared`] is true. Returns the number of
    /// shingles that it has in common with the representative, and the number of shingles in the representative. Returns `None` if no
    /// cluster has begun.
    pub(crate) fn add(
        &mut self,
        shingles: &[u64],
        paired: bool,
        contained: Option<f64>,
    ) -> Option<(u64, u64)> {
        let representative = self.representative.as_deref()?;
        let lost = missing(shingles, representative);
        let shared = (shingles.len() - lost.len()) as u64;
        let of_representative = representative.len() as u64;
        let spared = is_spared(contained, paired, shared, shingles.len() as u64);
        let others = if spared { &mut self.spared } else { &mut self.removed };
        others.add(&lost);
        Some((shared, of_representative))
    }

    /// Adds the sorted shingles of a document that is not removed.
    pub(crate) fn stays(&mut self, shingles: &[u64]) {
        let representative = self.representative.as_deref().unwrap_or_default();
        self.spared.add(&missing(shingles, representative));
    }

    /// Ends the cluster. Returns the number of shingles in its representative, and the number of shingles that only removed documents
    /// contain. Returns `None` if no cluster has begun.
    pub(crate) fn end(&mut self) -> Option<(u64, u64)> {
        let representative = self.representative.take()?;
        let gone = missing(self.removed.distinct(), self.spared.distinct());
        Some((representative.len() as u64, gone.len() as u64))
    }

    /// Returns the maximum size in memory, in bytes, after a document with this number of shingles is added.
    pub(crate) fn bytes_with(&self, shingles: usize) -> usize {
        let representative = self.representative.as_ref().map_or(0, Vec::capacity);
        // Vectors double when they grow. The last term is for the list of shingles that the representative does not contain.
        let numbers = 2 * (self.removed.all.capacity() + self.spared.all.capacity() + shingles) + shingles;
        size_of::<u64>() * (representative + numbers)
    }
}

/// Returns whether a document in a cluster is kept although it is not the representative. This is the case if it is not `paired` with it,
/// or if its containment `shared / shingles` is below the minimum `contained`. If there is no minimum, no document is kept.
pub(crate) fn is_spared(contained: Option<f64>, paired: bool, shared: u64, shingles: u64) -> bool {
    contained.is_some_and(|least| !paired || containment_of(shared, shingles) < least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spared_document_has_is_not_gone() {
        let cluster = |contained| {
            let mut losses = ClusterLosses::default();
            losses.begin(vec![1, 2, 3, 4]);
            let added = [
                losses.add(&[1, 2, 3, 9], true, contained),
                losses.add(&[2, 8, 9], true, contained),
                losses.add(&[4, 7], false, contained),
                losses.add(&[1, 2], true, contained),
            ];
            assert_eq!(added, [Some((3, 4)), Some((1, 4)), Some((1, 4)), Some((2, 4))]);
            let ended = losses.end();
            assert_eq!(losses.end(), None);
            ended
        };
        assert_eq!(cluster(None), Some((4, 3)));
        // The second and the third document are kept.
        assert_eq!(cluster(Some(0.75)), Some((4, 0)));
        // Only the third document is kept. It is not paired with the representative.
        assert_eq!(cluster(Some(0.2)), Some((4, 2)));
        assert_eq!(ClusterLosses::default().add(&[1], true, None), None);
    }

    #[test]
    fn repeats_are_dropped() {
        let mut losses = ClusterLosses::default();
        losses.begin(Vec::new());
        for _ in 0..1000 {
            losses.add(&(0..100).collect::<Vec<_>>(), true, None);
        }
        assert!(losses.bytes_with(0) < 16 * 2 * 2 * FIRST_ROOM, "{}", losses.bytes_with(0));
        assert_eq!(losses.end(), Some((0, 100)));
    }
}
