//! The settings and the manifest of an application, and the record that is written before its first file.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::job::{Requirements, TableFormat};
use crate::output::Stored;
use crate::output::manifest::{File, Origin};
use crate::output::results::APPLY_FORMAT;
use crate::rewrite::{Annotation, DocumentCounts, Rejects, SourceRecord, WrittenFile, names};
use crate::schema::IdType;

/// A finished application: the content of `_resemblance/manifest.json`. Paths are inside the folder of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyManifest {
    /// The version of this format.
    pub apply_format: u64,
    /// The version of this program.
    pub resemblance: String,
    /// The fingerprint of the settings and the output. With another fingerprint, the files can differ.
    pub fingerprint: String,
    /// The output that was applied, as the user named it.
    pub output: String,
    /// The folder or URL of the output, with an absolute path.
    pub output_url: String,
    /// The fingerprint of the output's run.
    pub output_fingerprint: String,
    /// The runs that read the documents. A merged output has several such runs.
    pub origins: Vec<Origin>,
    /// The type of ids.
    pub id: IdType,
    /// The settings of the application.
    #[serde(flatten)]
    pub settings: ApplySettings,
    /// The numbers of documents.
    pub counts: DocumentCounts,
    /// The files of the source, in order, with the files that were written from each source file.
    pub files: Vec<SourceRecord>,
    /// The table of removed documents.
    pub removed: Vec<File>,
    /// The table of passages that were cut out of documents.
    pub removed_spans: Vec<File>,
    /// The file with the proven figures. `None` if no figures were required.
    pub proof: Option<File>,
    /// The numbers of passages that were cut or marked.
    pub passage_counts: PassageCounts,
    /// The counts for added size columns. `None` if there are no such columns.
    pub sizes: Option<SizeCounts>,
    /// The repeat counts before and after. `None` without a repeat budget.
    pub repeats: Option<Vec<RepeatCount>>,
    /// Warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}

impl ApplyManifest {
    /// The files of kept documents, of the tables of removed documents and passages, and of the proof.
    pub(super) fn all_files(&self) -> Vec<File> {
        let kept = self.files.iter().flat_map(|file| &file.written).map(kept_file);
        kept.chain(self.removed.iter().chain(&self.removed_spans).chain(&self.proof).cloned()).collect()
    }
}

/// Describes a file of documents as a file of the table `kept`.
pub(super) fn kept_file(WrittenFile { path, rows, bytes, crc32 }: &WrittenFile) -> File {
    File { table: "kept".to_owned(), path: path.clone(), rows: *rows, bytes: *bytes, crc32: *crc32 }
}

/// The numbers of cut or marked passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageCounts {
    /// The number of cut or marked occurrences in kept documents.
    pub spans: u64,
    /// The number of documents with such occurrences.
    pub documents: u64,
    /// The number of words in these occurrences.
    pub words: u64,
    /// The number of UTF-8 bytes in these occurrences.
    pub bytes: u64,
    /// The number of documents that are removed because too few words remain.
    pub too_short: u64,
}

/// The numbers of documents with added size columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCounts {
    /// The number of documents with a size.
    pub documents: u64,
    /// The sum of all sizes.
    pub represented: u64,
    /// The largest size.
    pub largest: u64,
}

/// The record that an application writes before its first file. It claims the folder for this application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub fingerprint: String,
    pub output: String,
}

/// The treatment of repeated passages.
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

    pub(super) fn cuts(self) -> bool {
        matches!(self, Self::Cut | Self::Drop)
    }
}

/// The number of documents of a cluster that stay. A cluster consists of a kept document and the documents that it represents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatBudget {
    /// The maximum number of documents of a cluster that stay, at least 1.
    pub up_to: u64,
    /// The column with the values that have a budget each. `None` if each cluster has one budget.
    pub per: Option<String>,
    /// Whether documents of a cluster with byte-identical texts can stay. Otherwise, only the first of them counts.
    pub identical: bool,
}

impl FromStr for RepeatBudget {
    /// The message about invalid text.
    type Err = String;

    /// Parses `3` or `COLUMN=3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (per, up_to) = match text.rsplit_once('=') {
            Some((column, up_to)) => (Some(column.trim().to_owned()), up_to),
            None => (None, text),
        };
        let up_to = up_to.trim().parse().ok().filter(|up_to| *up_to > 0);
        match up_to.filter(|_| per.as_deref() != Some("")) {
            Some(up_to) => Ok(Self { up_to, per, identical: false }),
            None => {
                Err("expected a whole number from 1, such as 2, or a column and a number, such as shop=2"
                    .to_owned())
            }
        }
    }
}

/// Texts with a repeat count in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedTexts {
    /// The number of texts. A cluster counts as one text.
    pub texts: u64,
    /// The number of UTF-8 bytes of all their documents.
    pub bytes: u64,
}

/// The texts whose number of documents is in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatCount {
    /// The minimum number of documents of a text.
    pub from: u64,
    /// The maximum number of documents of a text.
    pub to: u64,
    /// The texts in the compared documents.
    pub before: RepeatedTexts,
    /// The texts in the documents that stay.
    pub after: RepeatedTexts,
}

/// The settings of an application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplySettings {
    /// Says where the documents are written that the job rejected.
    pub rejects: Rejects,
    /// Whether every document is kept, with added columns that contain the decision about the document.
    pub annotate: bool,
    /// The columns that are added to kept documents.
    pub columns: BTreeSet<Annotation>,
    /// The format of the tables of the result.
    pub tables: TableFormat,
    /// The minimum share of a removed document's shingles that its representative contains. Overrides the bound in the job.
    pub contained: Option<f64>,
    /// The treatment of repeated passages.
    pub passages: PassageAction,
    /// The minimum number of words in a document after the cut, for `passages = drop`.
    pub min_words: u64,
    /// The number of documents of each cluster that stay. `None` if only its representative stays.
    pub keep_up_to: Option<RepeatBudget>,
    /// The figures that were proven before documents were removed.
    pub require: Option<Requirements>,
}

impl ApplySettings {
    /// Returns a hash of the settings and runs that determine the files in the result, in 32 hexadecimal digits.
    pub(super) fn fingerprint(&self, stored: &Stored) -> String {
        let Self { rejects, annotate, columns, tables, contained, passages, min_words, keep_up_to, require } =
            self;
        let (run, origin) = (&stored.manifest().fingerprint, stored.origin().fingerprint);
        let min_words = (*passages == PassageAction::Drop).then_some(min_words);
        let text = format!(
            "apply {APPLY_FORMAT} {run} {origin} {rejects:?} {annotate} {tables:?} {contained:?} {passages:?} {min_words:?} \
             {columns:?} {keep_up_to:?} {require:?}"
        );
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    pub(super) fn annotations(&self) -> Vec<Annotation> {
        let clusters = self.annotate.then_some(Annotation::Clusters);
        let spans = (self.passages == PassageAction::Mark).then_some(Annotation::Spans);
        clusters.into_iter().chain(self.columns.iter().copied()).chain(spans).collect()
    }

    /// The columns with the number of documents that a document represents.
    pub(super) fn size_columns(&self) -> impl Iterator<Item = Annotation> {
        self.columns.iter().copied().filter(|column| *column != Annotation::Copies)
    }

    /// The names of `size_columns`.
    pub fn column_names(&self) -> Vec<&'static str> {
        names(&self.size_columns().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_numbers_or_numbers_per_column() {
        let budget = |up_to, per: Option<&str>| {
            Ok(RepeatBudget { up_to, per: per.map(str::to_owned), identical: false })
        };
        assert_eq!("3".parse(), budget(3, None));
        assert_eq!("shop=2".parse(), budget(2, Some("shop")));
        assert_eq!("a=b = 2".parse(), budget(2, Some("a=b")));
        for text in ["", "0", "-1", "2.5", "shop=", "shop=0", "=2", "shop"] {
            assert!(text.parse::<RepeatBudget>().is_err(), "{text}");
        }
    }
}
