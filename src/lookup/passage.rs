//! Looks up a repeated passage and its occurrences. No table contains the occurrences in reference documents, or the occurrences inside
//! longer passages, so the texts of these documents are read again.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_string_array;
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::prelude::{DataFrame, Expr, col, lit};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::finished::{id_column, ids};
use super::reread::{self, Need, Reread};
use super::{Finished, Id, rows};
use crate::error::{Error, Result};
use crate::frames::{self, utf8};
use crate::job::{Job, Passages, TextUnit};
use crate::kernel::text::written_words::{WrittenWords, units};
use crate::output::results::AppliedOutput;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// Occurrences of a passage.
#[derive(Debug, Default)]
pub struct PassagePlaces {
    /// The first occurrences, with the columns of [`Passage::columns`].
    pub first: Vec<RecordBatch>,
    /// The number of all occurrences.
    pub all: u64,
}

/// A passage in a finished output.
#[derive(Debug, Deserialize)]
pub struct Passage {
    /// The id.
    #[serde(rename = "passage_id")]
    pub id: String,
    /// The number of words.
    pub words: u64,
    /// The number of occurrences.
    pub occurrences: u64,
    /// The number of documents that contain the passage.
    pub documents: u64,
    reference_documents: u64,
    /// The beginning of the passage in one document.
    pub sample: String,
    /// Occurrences in the new documents of the output. Kept occurrences come first.
    #[serde(skip)]
    pub places: PassagePlaces,
    /// Occurrences in reference documents. Kept occurrences come first. `None` if the job has no reference documents.
    #[serde(skip)]
    pub reference: Option<PassagePlaces>,
}

impl Passage {
    /// Returns the columns of occurrences. The column `reference` exists only if the job has reference documents.
    pub fn columns(&self) -> &'static [&'static str] {
        const COLUMNS: [&str; 6] = ["id", "source", "char_start", "char_end", "kept", "reference"];
        if self.reference.is_some() { &COLUMNS } else { &COLUMNS[..5] }
    }

    /// Returns the occurrences. Occurrences in reference documents come last.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.places
            .first
            .iter()
            .chain(self.reference.iter().flat_map(|reference| &reference.first))
            .cloned()
            .collect()
    }
}

/// Returns the passage with an id that begins with `id`. Lists at most `most` occurrences in new documents, and at most `most` occurrences
/// in reference documents. The texts of reference documents are read only if a reference document contains the passage. The texts of new
/// documents are read only if longer passages can contain the passage.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no passage or several passages have such an id. [`Kind::Input`](crate::error::Kind::Input) if
/// the output has no passages, or if the sources of required texts are missing or have changed.
pub async fn passage(finished: &Finished, id: &str, most: usize) -> Result<Passage> {
    if finished.job().passages.is_none() {
        return Err(Error::input(
            "this output has no passages: add the section [passages] to its job, and run it again",
        ));
    }
    let named = finished.table(Table::Passages)?.filter(starts_with(col("passage_id"), lit(id)))?;
    let found: Vec<Passage> = rows::read(named.limit(0, Some(2))?).await?;
    let [mut passage] = <[Passage; 1]>::try_from(found).map_err(|found| {
        Error::job(match found.as_slice() {
            [] => format!(
                "no passage has the id {id:?}: the column passage_id of the tables spans and passages has the ids"
            ),
            _ => format!("several passages have ids that begin with {id:?}: give more digits"),
        })
    })?;
    passage.reference = finished.job().against.is_some().then(PassagePlaces::default);
    let places = finished.table(Table::Spans)?.filter(col("passage_id").eq(lit(passage.id.as_str())))?;
    let all = places.clone().count().await? as u64;
    let order = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let kept_in = |reference: bool| places.clone().filter(col("kept_reference").eq(lit(reference)));
    let columns: Vec<Expr> = passage
        .columns()
        .iter()
        .map(|&name| match name {
            "reference" => lit(false).alias(name),
            _ => col(name),
        })
        .collect();
    let first = places.clone().sort(order)?.limit(0, Some(most))?.select(columns)?.collect().await?;
    passage.places = PassagePlaces { first, all };
    let length = finished.job().passages.and_then(Passages::words).map(|(length, _)| length as u64);
    if passage.occurrences > all && length.is_some_and(|length| length <= passage.words) {
        let kept = kept_at(kept_in(false)?).await?;
        let texts = own_texts(finished).await?;
        (passage.places, passage.documents) = searched(finished, &passage, texts, &kept, most, false).await?;
    }
    if passage.reference_documents > 0 {
        let kept = kept_at(kept_in(true)?).await?;
        let texts = reference_texts(finished).await?;
        passage.reference = Some(searched(finished, &passage, texts, &kept, most, true).await?.0);
    }
    Ok(passage)
}

/// Returns the distinct kept occurrences of the passages in `spans`, as (document, index of the first character).
async fn kept_at(spans: DataFrame) -> Result<Vec<(Id, u64)>> {
    #[derive(Deserialize)]
    struct Kept {
        kept_id: Id,
        kept_char_start: u64,
    }
    let kept: Vec<Kept> =
        rows::read(spans.select_columns(&["kept_id", "kept_char_start"])?.distinct()?).await?;
    Ok(kept.into_iter().map(|kept| (kept.kept_id, kept.kept_char_start)).collect())
}

struct PassageSearch {
    words: WrittenWords,
    /// The unit of passages. `None` if passages are sequences of words.
    unit: Option<TextUnit>,
    hash: u128,
    length: usize,
}

impl PassageSearch {
    /// Creates a search for the passage `id`, which has `length` words, with the settings of `job`.
    fn new(job: &Job, id: &str, length: usize) -> Result<Self> {
        let hash =
            u128::from_str_radix(id, 16).map_err(|_| Error::input(format!("{id:?} is no passage_id")))?;
        let words = WrittenWords::new(&job.shingle.normalize, job.shingle.words)?;
        let unit = job.passages.and_then(Passages::units).map(|(unit, _)| unit);
        Ok(Self { words, unit, hash, length })
    }

    /// Returns the ranges of characters at which the passage occurs in `text`.
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
                found.push(places.locate(run).chars);
            }
        }
        found
    }
}

/// Reads the texts of the new documents with passages. Fails with `Kind::Input` if the source is missing or has changed.
async fn own_texts(finished: &Finished) -> Result<Vec<DataFrame>> {
    let documents = finished.table(Table::Spans)?.select_columns(&["source", "position"])?.distinct()?;
    let documents = documents.with_column("origin_number", lit(0_u64))?;
    Reread::open(finished, Need::Texts).await?.documents(documents, None).await
}

/// Searches texts (id, source, text, ..) for a passage, also inside longer passages. Returns the occurrences, of which at most `most` are
/// listed, and the number of documents that contain the passage. Kept occurrences, which `kept` contains as (id, first character), come
/// first. Otherwise occurrences are in the order of ids. One batch and the listed occurrences are in memory.
async fn searched(
    finished: &Finished,
    passage: &Passage,
    texts: Vec<DataFrame>,
    kept: &[(Id, u64)],
    most: usize,
    reference: bool,
) -> Result<(PassagePlaces, u64)> {
    let mut search = PassageSearch::new(finished.job(), &passage.id, passage.words as usize)?;
    let kind = finished.manifest().source.id;
    let (mut first, mut all, mut documents) = (BTreeMap::new(), 0, 0);
    for texts in texts {
        let columns = vec![id_column("id", kind), utf8("source"), utf8("text")];
        let mut rows = texts.filter(col("id").is_not_null())?.select(columns)?.execute_stream().await?;
        while let Some(batch) = rows.try_next().await? {
            let (sources, texts) = (as_string_array(batch.column(1))?, as_string_array(batch.column(2))?);
            for ((id, source), text) in ids(batch.column(0))?.into_iter().zip(sources).zip(texts) {
                let places = text.map(|text| search.places(text)).unwrap_or_default();
                documents += u64::from(!places.is_empty());
                for place in places {
                    all += 1;
                    let start = (id.clone(), place.start as u64);
                    let source = source.unwrap_or_default().to_owned();
                    first.insert((!kept.contains(&start), start), (source, place.end as u64));
                    if first.len() > most {
                        first.pop_last();
                    }
                }
            }
        }
    }
    let places = first.into_iter().map(|((is_cut, (id, char_start)), (source, char_end))| PassageRow {
        kept: !is_cut,
        id,
        source,
        char_start,
        char_end,
        reference,
    });
    let columns = [
        ("id", kind.arrow()),
        ("source", DataType::Utf8),
        ("char_start", DataType::UInt64),
        ("char_end", DataType::UInt64),
        ("kept", DataType::Boolean),
        ("reference", DataType::Boolean),
    ];
    let places: Vec<PassageRow> = places.collect();
    let first = vec![rows::batch(&places, &columns[..passage.columns().len()])?];
    Ok((PassagePlaces { first, all }, documents))
}

#[derive(Serialize)]
struct PassageRow {
    id: Id,
    source: String,
    char_start: u64,
    char_end: u64,
    kept: bool,
    reference: bool,
}

/// Returns frames with the texts (id, source, text, ..) of the reference documents in which the run searched passages. Passages that a
/// result of `apply` cut out are removed, so character positions refer to the texts in this result. Fails with `Kind::Input` if the sources
/// of reference documents are missing or have changed.
async fn reference_texts(finished: &Finished) -> Result<Vec<DataFrame>> {
    if finished.job().second_source().is_some() {
        return Ok(vec![second_source_texts(finished).await?]);
    }
    let keys =
        |of: &Finished| -> Result<DataFrame> { Ok(of.table(Table::Documents)?.select(vec![col("doc")])?) };
    let own = lit(ScalarValue::UInt64(None));
    let (mut compared, mut rejects) = (vec![keys(finished)], vec![rejects_of(finished, Table::Rejects, own)]);
    let (mut outputs, mut origins) = (Vec::new(), 0);
    for output in &finished.manifest().reference_outputs {
        let of = finished.reference(output).await?;
        let applied = AppliedOutput::recorded(finished.session(), output).await?;
        compared.push(keys(&of));
        if applied.as_ref().is_none_or(AppliedOutput::keeps_rejects) {
            rejects.push(rejects_of(&of, Table::Rejects, col("origin_number") + lit(origins)));
        }
        let first = origins;
        origins += of.origin_count();
        outputs.push((of, applied, first));
    }
    let both = frames::union(rejects)?.zip(frames::union(compared)?);
    let (rejects, compared) = both.ok_or_else(|| Error::bug("an output has no documents"))?;
    let uncompared = frames::passages::uncompared(rejects, compared)?;
    let place = |origin: Expr| vec![col("source"), col("position"), origin.alias("origin_number")];
    let (mut later, mut texts) = (keys(finished)?, Vec::new());
    // Reads the last output first, because earlier outputs still contain documents that later outputs replaced.
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
                    frames::passages::without_cuts(read, cuts.clone())?
                }
                None => read,
            });
        }
        later = later.union(keys(of)?)?;
    }
    Ok(texts)
}

/// Returns the texts (source, id, text, ..) of the second source in which the run searched passages.
async fn second_source_texts(finished: &Finished) -> Result<DataFrame> {
    let rejects = || rejects_of(finished, Table::ReferenceRejects, lit(0_u64));
    let key = document_key(col("id")).alias("doc");
    let all = reread::all_of_second_source(finished).await?;
    let compared = reread::compared_documents(finished, all.clone())?.select(vec![key])?;
    let searched = frames::passages::uncompared(rejects()?, compared)?;
    let left_out = frames::passages::without_rows(rejects()?, searched)?;
    frames::passages::without_rows(all, left_out)
}

/// Returns the rejects (source, position, doc, reason, origin) with an id in a table of an output.
fn rejects_of(of: &Finished, table: Table, origin: Expr) -> Result<DataFrame> {
    let mut columns = vec![utf8("source"), col("position"), col("reason")];
    columns.extend([document_key(col("id")).alias("doc"), origin.alias("origin")]);
    Ok(of.table(table)?.filter(col("id").is_not_null())?.select(columns)?)
}
