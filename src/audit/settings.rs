//! What is drawn.

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many pairs; all if there are no more.
    pub pairs: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// The new places of a source that was moved, one for each of its URLs; none if it was not moved.
    pub places: Vec<String>,
}
