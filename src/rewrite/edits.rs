//! The changes to the documents of a file that are kept.

use super::annotations::Cursor;
use super::spans::SpanCursor;
use super::work::Work;
use crate::error::Result;

/// The changes to the documents of a file, in the order of positions.
#[derive(Default)]
pub(super) struct Edits {
    /// The columns that are added; `None` if there are none.
    pub annotations: Option<Cursor>,
    /// The spans that are cut; `None` if nothing is cut.
    pub cuts: Option<SpanCursor>,
}

impl Edits {
    /// Those of documents that are kept. Rejects in a folder of their own are not changed.
    pub(super) async fn of_kept(work: &Work, source: &str) -> Result<Self> {
        Ok(Self {
            annotations: work.annotations.of(&work.session, &work.records, source).await?,
            cuts: work.cuts.spans.as_ref().map(|spans| spans.of_file(source)),
        })
    }

    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.annotations.is_none() && self.cuts.is_none()
    }
}
