//! What a job reads and how much disk it takes, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::support::print::{self, bytes};
use crate::inspect::{InspectedContents, RowCount};
use crate::job::Job;

/// Bytes of a document in `documents/` besides its signature and its shingles.
const RESULT_BYTES: u64 = 20;
/// Bytes of a shingle.
const SHINGLE_BYTES: u64 = 8;
/// Bytes of a document between stages besides its bands: its keys, the copies of it, and its position.
const STAGE_BYTES: u64 = 80;

/// Bytes that a document takes on disk, as `docs/scale.md` measures them.
struct Disk {
    /// In the result, besides its pairs.
    result: u64,
    /// Between stages, until the run ends.
    between: u64,
}

impl Disk {
    fn of(job: &Job, contents: &InspectedContents) -> Self {
        let shingles = SHINGLE_BYTES * contents.words.round() as u64;
        let keep = job.output.keep;
        let signature = job.minhash.signature_bytes();
        let kept = |kept: bool, bytes: u64| if kept { bytes } else { 0 };
        let between = job.candidates.method.bytes_between_stages(&job.lsh, shingles);
        Self {
            result: RESULT_BYTES + kept(keep.signatures(), signature) + kept(keep.shingles(), shingles),
            between: STAGE_BYTES + between,
        }
    }
}

/// Bytes on disk that the job needs in all, as far as the number of its documents is known.
pub(in crate::cli) fn expected_bytes(job: &Job, contents: &InspectedContents) -> Option<u64> {
    let Disk { result, between } = Disk::of(job, contents);
    documents(contents).map(|documents| (result + between).saturating_mul(documents))
}

/// What the job reads, for people.
pub(in crate::cli) fn as_text(job: &Job, contents: &InspectedContents) -> String {
    let mut text = String::new();
    let rows = match contents.rows {
        RowCount::Exact(rows) => print::counted(rows, "row"),
        RowCount::About(rows) => format!("about {}", print::counted(rows, "row")),
        RowCount::Unknown => "an unknown number of rows".to_owned(),
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "\ndata: {}, {}, {rows}",
        print::counted(contents.files, "file"),
        bytes(contents.bytes)
    );
    let columns: Vec<Vec<String>> = contents
        .columns
        .iter()
        .map(|column| {
            vec![column.name.clone(), column.kind.clone(), column.example.clone().unwrap_or_default()]
        })
        .collect();
    if !columns.is_empty() {
        text.push_str(&print::table(&["column", "values", "for example"], &columns));
    }
    for (name, read_as) in &contents.carried {
        let _ = writeln!(text, "column {name} is read as {read_as}");
    }
    if !contents.texts.is_empty() {
        let _ = writeln!(text, "the first texts");
        for beginning in &contents.texts {
            let _ = writeln!(text, "  {beginning}");
        }
    }
    let first = print::counted(contents.sampled, "document");
    let _ = writeln!(text, "words of a document: {:.1} on average in the first {first}", contents.words);
    let disk = Disk::of(job, contents);
    let all = match documents(contents) {
        Some(documents) => format!(
            ", so {} and {}",
            bytes(disk.result.saturating_mul(documents)),
            bytes(disk.between.saturating_mul(documents))
        ),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "expected disk: {} bytes of a document in the result, and {} more until the run ends{all}; pairs are extra",
        disk.result, disk.between
    );
    text
}

/// The same for programs.
pub(in crate::cli) fn as_json(job: &Job, contents: &InspectedContents) -> Value {
    let disk = Disk::of(job, contents);
    let documents = documents(contents);
    let columns: Vec<Value> = contents
        .columns
        .iter()
        .map(|column| json!({"name": column.name, "values": column.kind, "example": column.example}))
        .collect();
    json!({
        "files": contents.files,
        "bytes": contents.bytes,
        "rows": documents,
        "rows_are_exact": matches!(contents.rows, RowCount::Exact(_)),
        "columns": columns,
        "carried": contents.carried.iter().map(|(name, read_as)| json!({"name": name, "read_as": read_as})).collect::<Vec<_>>(),
        "texts": contents.texts,
        "sampled_documents": contents.sampled,
        "words_of_a_document": contents.words,
        "expected_bytes_of_result": documents.map(|documents| disk.result.saturating_mul(documents)),
        "expected_bytes_between_stages": documents.map(|documents| disk.between.saturating_mul(documents)),
    })
}

/// The number of documents, as far as it is known.
fn documents(contents: &InspectedContents) -> Option<u64> {
    match contents.rows {
        RowCount::Exact(rows) | RowCount::About(rows) => Some(rows),
        RowCount::Unknown => None,
    }
}
