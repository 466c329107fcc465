//! The rows and files that `source.where` and `source.limit` leave out, and the short texts, in words.

use crate::cli::support::print;
use crate::job::Shingle;
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

/// A shingle in words, as `5 words in a row`.
pub(in crate::cli) fn shingle(shingle: &Shingle) -> String {
    match shingle.size {
        1 => format!("one {}", shingle.unit.noun()),
        size => format!("{} {} in a row", print::count(size as u64), shingle.unit.plural()),
    }
}

/// The number of texts that are no longer than a shingle, with the words after it; `None` if it is 0.
pub(in crate::cli) fn short(counts: &Counts, shingle: &Shingle) -> Option<(u64, String)> {
    let n = counts.single_shingle_documents.filter(|n| *n > 0)?;
    let has = if n == 1 { "has" } else { "have" };
    let (size, units) = (shingle.size, shingle.unit.plural());
    let rule = "texts of fewer match only equal ones";
    Some((n, format!("{} {has} {size} {units} or fewer: {rule}", print::plural(n, "text"))))
}
