//! The places of a passage in reference documents. No table has them, so the texts are read again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::common::JoinType;
use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col};
use futures::TryStreamExt;

use super::places::Places;
use super::reread::{self, Need, Reread};
use super::{Finished, Id, id};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Job, Passages, TextUnit};
use crate::kernel::text::units::units;
use crate::kernel::text::written_words::WrittenWords;
use crate::schema::{IdType, Table};

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
/// has those where it stays, by id and first character. Reads all reference documents; holds a batch and the places.
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

/// The texts (id, source, text, ..) of the reference documents that the run compared, in several frames.
async fn reference_texts(finished: &Finished) -> Result<Vec<DataFrame>> {
    if finished.job().second_source().is_some() {
        return Ok(vec![reread::second_source(finished).await?]);
    }
    let keys = |documents: DataFrame| documents.select(vec![col("doc").alias("later_doc")]);
    let mut later = keys(finished.table(Table::Documents)?)?;
    let mut texts = Vec::new();
    // The last output first: documents that it replaced are still in the earlier ones.
    for output in finished.manifest().reference_outputs.iter().rev() {
        let earlier = finished.reference(output).await?;
        let documents = earlier.table(Table::Documents)?;
        let live =
            later.clone().join(documents.clone(), JoinType::RightAnti, &["later_doc"], &["doc"], None)?;
        let again = Reread::open(&earlier, Need::Texts).await?;
        texts.extend(again.documents(live, None).await?);
        later = later.union(keys(documents)?)?;
    }
    Ok(texts)
}
