//! `containment(a, b)`: the share of `a` that is in `b` (Broder 1997, section 2).

/// The share, in [0, 1], of a set of `len` elements of which `shared` are in another one. NaN for an empty set.
pub(crate) fn containment_of(shared: u64, len: u64) -> f64 {
    shared as f64 / len as f64
}
