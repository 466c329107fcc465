//! The source of `generate --from`, and what was written, in lines and as JSON.

use std::path::Path;

use serde_json::json;

use crate::cli::support::from_data::{look, refuse_columns};
use crate::cli::support::print;
use crate::cli::support::progress::Screen;
use crate::error::Result;
use crate::inspect::Found;
use crate::job::file::{File, Shingle};
use crate::job::{self, Job};
use crate::lab::planted::Written;
use crate::pipeline::OnExisting;

/// Words of the common header.
pub(in crate::cli) const HEADER_WORDS: usize = 50;

/// The place of an output that is never made: only the source of the job is read.
const NO_OUTPUT: &str = "not-written";

/// A job that reads `from`, with the columns of its texts and ids, and cuts texts into shingles of `size` words.
///
/// # Errors
/// As [`look`], and [`Kind::Job`](crate::error::Kind::Job) if the column of texts cannot be chosen.
pub(in crate::cli) fn job(
    screen: &Screen,
    from: &str,
    (text, id): (Option<&str>, Option<&str>),
    size: usize,
) -> Result<Job> {
    let paths = [from.to_owned()];
    let mut file = match look(screen, "generate --from", &paths, None)? {
        Found { dataset: None, urls, .. } => {
            let owned = |option: Option<&str>| option.map(str::to_owned);
            refuse_columns(&[("--text", &owned(text)), ("--id", &owned(id))])?;
            File::new(job::Format::Text.into(), urls, NO_OUTPUT)
        }
        Found { dataset: Some(dataset), .. } => {
            let id = dataset.id_column(id);
            let text = dataset.text_column(text, id.as_deref())?;
            screen.say(&dataset.sentence(&text, id.as_deref()));
            dataset.job(&text, id.as_deref(), NO_OUTPUT)
        }
    };
    file.shingle = Some(Shingle { unit: job::Unit::Word, size: Some(size), ..Shingle::default() });
    job::resolve(file)
}

/// The files, with the treatment of existing ones.
type Places<'a> = (&'a Path, Option<&'a Path>, OnExisting);

/// What was written, for programs.
pub(in crate::cli) fn as_json(written: &Written, (out, truth, _): Places<'_>) -> String {
    let record = |rows: u64, bytes: u64, path: &Path| json!({"rows": rows, "bytes": bytes, "files": [path.to_string_lossy()]});
    let record = json!({
        "documents": record(written.originals + written.planted, written.bytes, out),
        "truth": truth.zip(written.truth_bytes).map(|(path, bytes)| record(written.planted, bytes, path)),
        "left_out": written.left_out,
    });
    format!("{record:#}\n")
}

/// What was written, for people.
pub(in crate::cli) fn as_text(written: &Written, (out, truth, _): Places<'_>) -> String {
    let originals = print::counted(written.originals, "document");
    let mut text =
        format!("{originals} and {} planted ones in {}\n", print::count(written.planted), out.display());
    if let Some(truth) = truth {
        let pairs = print::counted(written.planted, "planted pair");
        text.push_str(&format!("{pairs} in {}\n", truth.display()));
    }
    if written.left_out > 0 {
        let rows = print::counted(written.left_out, "row");
        text.push_str(&format!(
            "{rows} of the source left out: they have no id or no text, or cannot be read\n"
        ));
    }
    text
}
