//! What an application kept, removed and wrote, in lines.

use crate::apply::{Counts, Outcome};
use crate::cli::support::print;

/// The counts, each on a line; the last one `of_rejects`.
pub(in crate::cli) fn counts(counts: Counts, of_rejects: &str) -> String {
    let lines = [
        (counts.read, "documents read"),
        (counts.kept, "kept"),
        (counts.removed, "removed, because another one represents their cluster"),
        (counts.rejected, of_rejects),
    ];
    lines.into_iter().map(|(number, line)| format!("{:>12} {line}\n", print::count(number))).collect()
}

/// The line for the files that were written to the folder `to`.
pub(in crate::cli) fn written(outcome: &Outcome, to: &str) -> String {
    if outcome.already_finished {
        return format!("{to} is finished already; nothing was written\n");
    }
    let files: usize = outcome.manifest.files.iter().map(|file| file.written.len()).sum();
    let reused = match outcome.files_reused {
        0 => String::new(),
        files => format!("; an earlier run had done {} of the source", print::counted(files, "file")),
    };
    format!("{} in {to}{reused}\n", print::counted(files as u64, "file"))
}
