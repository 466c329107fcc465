//! A passage that repeats inside documents, as text.

use arrow::array::RecordBatch;

use super::{print, side_by_side};
use crate::error::Result;
use crate::error::visible::visible;
use crate::lookup::passage::{Passage, Places};
use crate::lookup::rows;

/// The passage with its counts, a sample, and a table of its places, and another of those in reference documents.
///
/// # Errors
/// When Arrow cannot format a type.
pub(in crate::cli) fn passage_text(passage: &Passage) -> Result<String> {
    let Passage { id, words, occurrences, documents, sample, places, reference } = passage;
    let all = &places.all;
    let (words, documents) = (print::counted(*words, "word"), print::counted(*documents, "document"));
    let mut text = format!("passage {id}: {words}, occurs {} in {documents}", print::counted(*all, "time"));
    if occurrences > all {
        text += &format!("; the most frequent window in it occurs {}", print::counted(*occurrences, "time"));
    }
    text.push_str("\n\n");
    sample.lines().for_each(|line| text += &format!("    {}\n", visible(line)));
    text += &table(passage.columns(), places)?;
    if let Some(found) = reference.as_ref().filter(|found| found.all > 0) {
        text += &format!("\nin reference documents it occurs {}\n", print::counted(found.all, "time"));
        text += &table(passage.columns(), found)?;
    }
    Ok(text)
}

/// A table of places, and how many are left out.
fn table(columns: &[&str], places: &Places) -> Result<String> {
    let shown: usize = places.first.iter().map(RecordBatch::num_rows).sum();
    let table = print::table(columns, &rows::cells(&places.first)?);
    Ok(format!("\n{table}{}", side_by_side::left_out(places.all, shown, "place", "--top")))
}
