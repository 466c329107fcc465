//! Similar pairs with their texts side by side.

use std::fmt::Write;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::cast::{as_float64_array, as_string_array};

use super::print;
use super::work::Work;
use crate::engine::session;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::query::side_by_side::{Mark, View, side_by_side};
use crate::query::texts::texts;

/// Lines of a pair that are printed.
const MAX_LINES: usize = 200;

/// A pair by its ids, and its similarity.
type Pair = (String, String, f64);

/// The first `most` of `pairs` (id_a, id_b, jaccard, ..), with the texts that the job's source has under their ids.
pub(super) fn shown(job: &Job, pairs: &[RecordBatch], most: usize) -> Result<String> {
    let all: usize = pairs.iter().map(RecordBatch::num_rows).sum();
    let pairs = first(pairs, most)?;
    if pairs.is_empty() {
        return Ok(String::new());
    }
    let ids: Vec<&str> = pairs.iter().flat_map(|(a, b, _)| [a.as_str(), b.as_str()]).collect();
    let texts = Work::begin(&job.engine)?.run(async {
        let session = session::session(&job.engine)?;
        texts(&session, &job.source, &ids).await
    })?;
    let text = |id: &String| texts.get(id).ok_or_else(|| Error::input(format!("{id} is not there any more")));
    let mark = if print::colour() { Mark::Colour } else { Mark::Brackets };
    let view = View { width: print::width(), mark, shingle: &job.shingle };
    let mut shown = String::new();
    for (a, b, jaccard) in &pairs {
        let layout = side_by_side([a, b], [text(a)?, text(b)?], view);
        let _ = writeln!(shown, "\njaccard {jaccard:.6}");
        for line in layout.lines.iter().take(MAX_LINES) {
            let _ = writeln!(shown, "{line}");
        }
        let left_out = layout.lines.len().saturating_sub(MAX_LINES);
        if left_out > 0 {
            let more = if layout.whole { "more lines" } else { "more lines and what follows them" };
            let _ = writeln!(shown, "({} {more} are left out)", print::count(left_out as u64));
        }
    }
    match all - pairs.len() {
        0 => {}
        1 => shown.push_str("\n1 more pair is not shown\n"),
        n => {
            let _ = writeln!(
                shown,
                "\n{} more pairs are not shown; --show {all} shows all",
                print::count(n as u64)
            );
        }
    }
    Ok(shown)
}

fn first(batches: &[RecordBatch], most: usize) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for batch in batches {
        let (a, b) = (cast(batch.column(0), &DataType::Utf8)?, cast(batch.column(1), &DataType::Utf8)?);
        let ids = as_string_array(&a)?.iter().flatten().zip(as_string_array(&b)?.iter().flatten());
        let jaccard = as_float64_array(batch.column(2))?.values();
        pairs.extend(ids.zip(jaccard).map(|((a, b), jaccard)| (a.to_owned(), b.to_owned(), *jaccard)));
        if pairs.len() >= most {
            break;
        }
    }
    pairs.truncate(most);
    Ok(pairs)
}
