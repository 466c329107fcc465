//! What is done with the documents of an output.

use xxhash_rust::xxh3::xxh3_128;

use super::columns::{Column, Columns};
use super::passage_action::Passages;
use crate::job::Tables;
use crate::output::Stored;
pub(super) use crate::output::applied::FORMAT_VERSION;
use crate::rewrite::{Annotation, Rejects};

/// What is done with the documents of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Settings {
    /// Where documents go that the job rejected.
    pub rejects: Rejects,
    /// Whether every document stays, and gets columns that say what would be done with it.
    pub annotate: bool,
    /// The columns that the documents which stay get.
    pub columns: Columns,
    /// What the folders of the result are besides Parquet files.
    pub tables: Tables,
    /// The least share of its shingles that the representative of a removed document has, instead of what the job says.
    pub contained: Option<f64>,
    /// What is done with the occurrences of passages that do not stay.
    pub passages: Passages,
}

impl Settings {
    /// A hash in 32 hexadecimal digits of everything that can change a file of the result.
    pub(super) fn fingerprint(self, stored: &Stored) -> String {
        let Self { rejects, annotate, columns, tables, contained, passages } = self;
        let (run, origin) = (&stored.manifest().fingerprint, stored.origin().fingerprint);
        let mut text = format!("apply {FORMAT_VERSION} {run} {origin} {rejects:?} {annotate} {tables:?}");
        if let Some(contained) = contained {
            text.push_str(&format!(" {contained:?}"));
        }
        if passages != Passages::Leave {
            text.push_str(&format!(" {passages:?}"));
        }
        for column in columns.iter() {
            text.push_str(&format!(" {}", column.name()));
        }
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// The annotations that documents get.
    pub(super) fn annotations(self) -> Vec<Annotation> {
        let clusters = self.annotate.then_some(Annotation::Clusters);
        let spans = (self.passages == Passages::Mark).then_some(Annotation::Spans);
        let columns = self.columns.iter().map(Column::annotation);
        clusters.into_iter().chain(columns).chain(spans).collect()
    }
}
