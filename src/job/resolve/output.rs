//! `[output]`: where the tables go.

use super::super::{Method, Output, Source};
use super::wrong::{Checked, wrong};
use crate::address;

pub(super) fn check_output(output: &Output, source: &Source) -> Checked<()> {
    let url = &output.url;
    if url.trim().is_empty() {
        return wrong("output.url", "is empty: expected a folder or a URL prefix, as in \"out/books/\"");
    }
    address::check(url).or_else(|fault| wrong("output.url", fault))?;
    // These formats read whole folders, so the next run would read the output of this one.
    let walks = source.format.rules().takes_in_outputs;
    let inside = |folder: &str| {
        url.strip_prefix(folder.trim_end_matches('/'))
            .is_some_and(|rest| rest.trim_end_matches('/').is_empty() || walks && rest.starts_with('/'))
    };
    if let Some(folder) = source.urls.iter().find(|folder| inside(folder)) {
        return wrong(
            "output.url",
            format!("is {url:?}, inside the source {folder:?}: expected a folder outside of it"),
        );
    }
    if output.max_pairs == 0 {
        return wrong(
            "output.max_pairs",
            "is 0: expected 1 or more: it is the largest number of pairs that a run may write",
        );
    }
    Ok(())
}

/// Checks that a job whose output has the table `buckets` makes the signatures by which neighbors are found, and keeps them.
pub(super) fn check_buckets(output: &Output, method: Method) -> Checked<()> {
    if !output.buckets {
        return Ok(());
    }
    if method == Method::None {
        return wrong(
            "output.buckets",
            "is true with candidates.method = \"none\", and no document gets a signature then: leave the key out, or expected \
             another method",
        );
    }
    if !output.keep.signatures() {
        return wrong(
            "output.buckets",
            "is true with output.keep = \"none\", and the documents of a bucket are compared by their signatures: leave the key \
             out, or expected output.keep = \"signatures\" or \"shingles\"",
        );
    }
    Ok(())
}
