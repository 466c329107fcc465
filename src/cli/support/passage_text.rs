//! A passage that repeats inside documents, as text.

use arrow::array::RecordBatch;

use super::{print, side_by_side};
use crate::error::Result;
use crate::error::visible::visible;
use crate::lookup::passage::{PLACE, Passage};
use crate::lookup::rows;

/// The passage with its counts, a sample, and a table of its places.
///
/// # Errors
/// When Arrow cannot format a type.
pub(in crate::cli) fn passage_text(passage: &Passage) -> Result<String> {
    let Passage { id, words, occurrences, documents, sample, places, all } = passage;
    let (words, documents) = (print::counted(*words, "word"), print::counted(*documents, "document"));
    let mut text = format!("passage {id}: {words}, occurs {} in {documents}", print::counted(*all, "time"));
    if occurrences > all {
        text += &format!("; the most frequent window in it occurs {}", print::counted(*occurrences, "time"));
    }
    text.push_str("\n\n");
    sample.lines().for_each(|line| text += &format!("    {}\n", visible(line)));
    text += &format!("\n{}", print::table(&PLACE, &rows::cells(places)?));
    let shown: usize = places.iter().map(RecordBatch::num_rows).sum();
    Ok(text + &side_by_side::left_out(*all, shown, "place", "--top"))
}
