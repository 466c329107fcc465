//! Formats pairs of texts in two columns, and repeated passages.

use std::fmt::Write;

use arrow::array::RecordBatch;

use crate::cli::screen::print;
use crate::error::Result;
use crate::error::visible::visible;
use crate::job::Shingle;
use crate::lookup::passage::{Passage, PassagePlaces};
use crate::lookup::rows;
use crate::lookup::show::{MemberTexts, PairRow};
use crate::page::passages::MAX_UNITS;
use crate::page::side_by_side::{PassageMark, View, side_by_side};

/// The maximum number of lines that are shown of two texts, unless the user asks for whole texts.
pub(crate) const FIRST_LINES: usize = 200;

/// Formats pairs like [`two`], each with its similarity.
pub(crate) fn pairs(
    pairs: &[PairRow],
    texts: &MemberTexts,
    shingle: &Shingle,
    most: usize,
) -> Result<String> {
    let mut shown = String::new();
    for pair in pairs {
        let names = [pair.id_a.to_string(), pair.id_b.to_string()];
        let [a, b] = pair.documents();
        let texts = [texts.text(&a)?, texts.text(&b)?];
        shown += &two(pair.jaccard, names, texts, shingle, most)?;
    }
    Ok(shown)
}

/// Formats a pair: the similarity, and at most `most` lines of the two texts in two columns under their names.
pub(crate) fn two(
    jaccard: f64,
    names: [String; 2],
    texts: [&str; 2],
    shingle: &Shingle,
    most: usize,
) -> Result<String> {
    let mark = if print::colour() { PassageMark::Colour } else { PassageMark::Brackets };
    let names = names.each_ref().map(String::as_str);
    let layout = side_by_side(names, texts, View { width: print::width(), mark, shingle })?;
    let mut shown = format!("\njaccard {jaccard:.6}\n");
    for line in layout.lines.iter().take(most) {
        let _ = writeln!(shown, "{line}");
    }
    if layout.lines.len() > most {
        let left_out = print::count((layout.lines.len() - most) as u64);
        let _ = writeln!(shown, "({left_out} more lines are left out)");
    }
    if !layout.is_complete {
        let units = print::counted(MAX_UNITS as u64, shingle.unit.noun());
        let _ = writeln!(shown, "(passages are marked only in the first {units} of each text)");
    }
    Ok(shown)
}

/// Returns a sentence with the number of items that are not shown, and the `option` that shows them. Empty if all items are shown.
pub(crate) fn left_out(all: u64, shown: usize, noun: &str, option: &str) -> String {
    match all.saturating_sub(shown as u64) {
        0 => String::new(),
        n => format!(
            "\n{} more {} {} not shown; {option} {all} shows all\n",
            print::count(n),
            print::plural(n, noun),
            print::either(n, "is", "are")
        ),
    }
}

/// Formats a passage: its counts, a sample, and its places in documents and in reference documents.
pub(crate) fn passage(passage: &Passage) -> Result<String> {
    let Passage { id, words, occurrences, documents, sample, places, reference, .. } = passage;
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

/// Returns a table of places, and the number of places that are not in it.
fn table(columns: &[&str], places: &PassagePlaces) -> Result<String> {
    let shown: usize = places.first.iter().map(RecordBatch::num_rows).sum();
    let table = print::table(columns, &rows::cells(&places.first)?);
    Ok(format!("\n{table}{}", left_out(places.all, shown, "place", "--top")))
}
