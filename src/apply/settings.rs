//! What is done with the documents of an output.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::job::TableFormat;
use crate::output::Stored;
pub(super) use crate::output::applied::FORMAT_VERSION;
use crate::rewrite::{Annotation, Rejects, names};

/// What is done with the occurrences of passages that do not stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PassageAction {
    /// Nothing.
    #[default]
    #[value(skip)]
    Leave,
    /// Add the column repeated_spans with their places in bytes, as in `[[0,41],[120,161]]`.
    Mark,
    /// Cut them out of the texts.
    Cut,
    /// Cut them out of the texts, and remove documents that become too short.
    Drop,
}

impl PassageAction {
    /// The default of [`ApplySettings::min_words`], as `min_doc_words` in the sentence deduplication of datatrove.
    pub const MIN_WORDS: u64 = 50;

    /// Whether texts change.
    pub(super) fn cuts(self) -> bool {
        matches!(self, Self::Cut | Self::Drop)
    }
}

/// What is done with the documents of an output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplySettings {
    /// Where documents go that the job rejected.
    pub rejects: Rejects,
    /// Whether every document stays, and gets columns that say what would be done with it.
    pub annotate: bool,
    /// The columns that the documents which stay get.
    pub columns: BTreeSet<Annotation>,
    /// What the folders of the result are besides Parquet files.
    pub tables: TableFormat,
    /// The least share of its shingles that the representative of a removed document has, instead of what the job says.
    pub contained: Option<f64>,
    /// What is done with the occurrences of passages that do not stay.
    pub passages: PassageAction,
    /// The fewest words that a document must have after the cut, if documents that become too short are removed.
    pub min_words: u64,
}

impl ApplySettings {
    /// A hash in 32 hexadecimal digits of everything that can change a file of the result.
    pub(super) fn fingerprint(&self, stored: &Stored) -> String {
        let Self { rejects, annotate, columns, tables, contained, passages, min_words } = self;
        let (run, origin) = (&stored.manifest().fingerprint, stored.origin().fingerprint);
        let min_words = (*passages == PassageAction::Drop).then_some(min_words);
        let text = format!(
            "apply {FORMAT_VERSION} {run} {origin} {rejects:?} {annotate} {tables:?} {contained:?} {passages:?} {min_words:?} {columns:?}"
        );
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// The annotations that documents get.
    pub(super) fn annotations(&self) -> Vec<Annotation> {
        let clusters = self.annotate.then_some(Annotation::Clusters);
        let spans = (self.passages == PassageAction::Mark).then_some(Annotation::Spans);
        clusters.into_iter().chain(self.columns.iter().copied()).chain(spans).collect()
    }

    /// The names of the columns of [`Self::columns`].
    pub fn column_names(&self) -> Vec<&'static str> {
        names(&self.columns.iter().copied().collect::<Vec<_>>())
    }
}
