//! Connected components in the plainest way, for tests that hold others against it.

use std::collections::BTreeMap;

/// Each node of `edges` with the least one that can be reached from it, found by walking from the least node of each
/// component.
pub fn least_reachable<T: Ord + Clone>(edges: impl IntoIterator<Item = (T, T)>) -> BTreeMap<T, T> {
    let mut neighbours: BTreeMap<T, Vec<T>> = BTreeMap::new();
    for (a, b) in edges {
        neighbours.entry(a.clone()).or_default().push(b.clone());
        neighbours.entry(b).or_default().push(a);
    }
    let mut least = BTreeMap::new();
    for root in neighbours.keys() {
        let mut next = vec![root];
        while let Some(node) = next.pop() {
            if !least.contains_key(node) {
                least.insert(node.clone(), root.clone());
                next.extend(&neighbours[node]);
            }
        }
    }
    least
}
