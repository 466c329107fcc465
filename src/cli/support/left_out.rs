//! The rows and files that `source.where` and `source.limit` leave out, in words.

use crate::cli::support::print;
use crate::output::counts::Counts;

/// The numbers of rows and files that a run leaves out, each with the words after it; none that is 0.
pub(in crate::cli) fn numbers(counts: &Counts) -> Vec<(u64, String)> {
    let all = [
        (counts.files_left_out, "file", "by source.where"),
        (counts.rows_left_out_by_where, "row", "by source.where"),
        (counts.rows_left_out_by_limit, "row", "by source.limit"),
        (counts.reference_files_left_out, "file", "of the second source"),
        (counts.reference_rows_left_out, "row", "of the second source"),
    ];
    let words = |(n, noun, rest): (Option<u64>, &str, &str)| {
        let n = n.filter(|n| *n > 0)?;
        Some((n, format!("{} left out {rest}", print::plural(n, noun))))
    };
    all.into_iter().filter_map(words).collect()
}
