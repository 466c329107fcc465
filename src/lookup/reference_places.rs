//! The places of a passage in reference documents. No table has them, so the texts are read again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, Expr, col, lit};
use futures::TryStreamExt;

use super::places::Places;
use super::reread::{self, Need, Reread};
use super::{Finished, Id, id};
use crate::error::{Error, Result};
use crate::frames::{self, utf8};
use crate::job::{Job, Passages, TextUnit};
use crate::kernel::text::units::units;
use crate::kernel::text::written_words::WrittenWords;
use crate::output::applied::AppliedOutput;
use crate::schema::{IdType, Table};
use crate::udf::expr_fn::document_key;

/// Finds a passage in texts.
struct Search {
    words: WrittenWords,
    /// The unit of passages; `None` for runs of words.
    unit: Option<TextUnit>,
    hash: u128,
    /// The number of its words.
    length: usize,
}

impl Search {
    /// A search for the passage `id` of `length` words, cut as `job` cuts texts.
    fn new(job: &Job, id: &str, length: usize) -> Result<Self> {
        let hash =
            u128::from_str_radix(id, 16).map_err(|_| Error::input(format!("{id:?} is no passage_id")))?;
        let words = WrittenWords::new(&job.shingle.normalize, job.shingle.words)?;
        let unit = match job.passages {
            Some(Passages::Units { unit, .. }) => Some(unit),
            Some(Passages::Words { .. }) | None => None,
        };
        Ok(Self { words, unit, hash, length })
    }

    /// Where the passage is in `text`, in characters.
    fn places(&mut self, text: &str) -> Vec<Range<usize>> {
        let Self { words, unit, hash, length } = self;
        let mut found = Vec::new();
        if let Some(unit) = unit {
            units(text, *unit, *length, words, |part| {
                found.extend((part.hash == *hash).then_some(part.chars))
            });
            return found;
        }
        words.cut(text);
        let mut places = words.places(text);
        for at in 0..(words.len() + 1).saturating_sub(*length) {
            let run = at..at + *length;
            if words.hash(run.clone()) == *hash {
                found.push(places.of(run).chars);
            }
        }
        found
    }
}

/// The first `most` places of a passage in the reference documents that the run compared, by id, and the number of all. `kept`
/// has those where it stays, by id and first character. Reads all reference documents; holds a batch and the places. Where a result
/// of `apply` was the reference, they are places in the texts that it wrote.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if their sources are gone or have changed.
pub(super) async fn reference_places(
    finished: &Finished,
    (id, words): (&str, u64),
    kept: &[(Id, u64)],
    most: usize,
) -> Result<Places> {
    let mut search = Search::new(finished.job(), id, words as usize)?;
    let kind = finished.manifest().source.id;
    let (mut first, mut all) = (BTreeMap::new(), 0);
    for texts in reference_texts(finished).await? {
        let columns = vec![id::column(kind), utf8("source"), utf8("text")];
        let mut rows = texts.filter(col("id").is_not_null())?.select(columns)?.execute_stream().await?;
        while let Some(batch) = rows.try_next().await? {
            let (sources, texts) = (as_string_array(batch.column(1))?, as_string_array(batch.column(2))?);
            for ((id, source), text) in id::ids(batch.column(0))?.into_iter().zip(sources).zip(texts) {
                for place in text.map(|text| search.places(text)).unwrap_or_default() {
                    all += 1;
                    let source = source.unwrap_or_default().to_owned();
                    first.insert((id.clone(), place.start as u64), (source, place.end as u64));
                    if first.len() > most {
                        first.pop_last();
                    }
                }
            }
        }
    }
    let places = first.into_iter().map(|((id, start), (source, end))| {
        let stays = kept.contains(&(id.clone(), start));
        (id, source, start, end, stays)
    });
    Ok(Places { first: vec![rows_of(places.collect(), kind)?], all })
}

/// The rows (id, source, char_start, char_end, kept, reference) of places.
fn rows_of(places: Vec<(Id, String, u64, u64, bool)>, kind: IdType) -> Result<RecordBatch> {
    let ids = places.iter().map(|place| &place.0);
    let ids: ArrayRef = match kind {
        IdType::Int64 => {
            let number = |id: &Id| match id {
                Id::Number(number) => Some(*number),
                Id::Text(_) => None,
            };
            Arc::new(ids.map(number).collect::<Int64Array>())
        }
        IdType::Utf8 => Arc::new(StringArray::from_iter_values(ids.map(Id::to_string))),
    };
    let columns: [(&str, ArrayRef); 6] = [
        ("id", ids),
        ("source", Arc::new(StringArray::from_iter_values(places.iter().map(|place| &place.1)))),
        ("char_start", Arc::new(UInt64Array::from_iter_values(places.iter().map(|place| place.2)))),
        ("char_end", Arc::new(UInt64Array::from_iter_values(places.iter().map(|place| place.3)))),
        ("kept", Arc::new(BooleanArray::from_iter(places.iter().map(|place| Some(place.4))))),
        ("reference", Arc::new(BooleanArray::from_iter(places.iter().map(|_| Some(true))))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The texts (id, source, text, ..) of the reference documents in which the run searched passages, in several frames. Passages that
/// `apply` cut out of them are left out.
async fn reference_texts(finished: &Finished) -> Result<Vec<DataFrame>> {
    if finished.job().second_source().is_some() {
        return Ok(vec![reread::second_source(finished).await?]);
    }
    let keys =
        |of: &Finished| -> Result<DataFrame> { Ok(of.table(Table::Documents)?.select(vec![col("doc")])?) };
    let own = lit(ScalarValue::UInt64(None));
    let (mut compared, mut rejects) = (vec![keys(finished)], vec![rejects_of(finished, own)]);
    let (mut outputs, mut origins) = (Vec::new(), 0);
    for output in &finished.manifest().reference_outputs {
        let of = finished.reference(output).await?;
        let applied = AppliedOutput::recorded(finished.session(), output).await?;
        compared.push(keys(&of));
        if applied.as_ref().is_none_or(AppliedOutput::keeps_rejects) {
            rejects.push(rejects_of(&of, col("origin_number") + lit(origins)));
        }
        let first = origins;
        origins += of.origin_count();
        outputs.push((of, applied, first));
    }
    let both = frames::union(rejects)?.zip(frames::union(compared)?);
    let (rejects, compared) = both.ok_or_else(|| Error::bug("an output has no documents"))?;
    let uncompared = frames::spans::uncompared(rejects, compared)?;
    let place = |origin: Expr| vec![col("source"), col("position"), origin.alias("origin_number")];
    let (mut later, mut texts) = (keys(finished)?, Vec::new());
    // The last output first: documents that it replaced are still in the earlier ones.
    for (of, applied, first) in outputs.iter().rev() {
        let live = frames::reference::without(of.table(Table::Documents)?, later.clone())?;
        let last = lit(first + of.origin_count() - 1);
        let others = uncompared.clone().filter(col("origin").between(lit(*first), last))?;
        let others = others.select(place(col("origin") - lit(*first)))?;
        let places = live.select(place(col("origin_number")))?.union(others)?;
        let cuts = applied.as_ref().map(AppliedOutput::cuts).transpose()?.flatten();
        for read in Reread::open(of, Need::Texts).await?.documents(places, None).await? {
            texts.push(match &cuts {
                Some(cuts) => {
                    let read = read.with_column("doc", document_key(col("id")))?;
                    frames::spans::without_cuts(read, cuts.clone())?
                }
                None => read,
            });
        }
        later = later.union(keys(of)?)?;
    }
    Ok(texts)
}

/// The rejects (source, position, doc, reason, origin) of an output.
fn rejects_of(of: &Finished, origin: Expr) -> Result<DataFrame> {
    let mut columns = ["source", "position", "reason"].map(col).to_vec();
    columns.extend([document_key(col("id")).alias("doc"), origin.alias("origin")]);
    Ok(of.table(Table::Rejects)?.filter(col("id").is_not_null())?.select(columns)?)
}
