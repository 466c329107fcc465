//! The spans that are cut out of the texts of a part of the source.

use super::spans::PartSpans;
use crate::source::TextPlace;

/// The spans that are cut out of the texts of a part of the source.
pub(super) struct Cuts {
    /// The spans; `None` if nothing is cut.
    pub spans: Option<PartSpans>,
    /// Where the texts are.
    pub text: TextPlace,
}
