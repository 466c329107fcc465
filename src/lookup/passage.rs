//! A passage that repeats inside documents, and its places.
//!
//! No table has the places in reference documents, so their texts are read again.

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

use super::reread::{self, Need, Reread};
use super::{Finished, Id, id, rows};
use crate::error::{Error, Result};
use crate::frames::{self, utf8};
use crate::job::{Job, Passages, TextUnit};
use crate::kernel::text::units::units;
use crate::kernel::text::written_words::WrittenWords;
use crate::output::results::AppliedOutput;
use crate::schema::{IdType, Table};
use crate::udf::expr_fn::document_key;

/// Some places of a passage.
#[derive(Debug, Default)]
pub struct PassagePlaces {
    /// The first of them, with the columns of [`Passage::columns`].
    pub first: Vec<RecordBatch>,
    /// The number of all.
    pub all: u64,
}

/// A passage of a finished output.
#[derive(Debug)]
pub struct Passage {
    /// Its id.
    pub id: String,
    /// Its words.
    pub words: u64,
    /// How often it occurs.
    pub occurrences: u64,
    /// The documents in which it occurs.
    pub documents: u64,
    /// Its beginning, as it is written in one place.
    pub sample: String,
    /// Its places in the documents of the output, the one that stays before the others.
    pub places: PassagePlaces,
    /// Its places in reference documents, by id; `None` if the output has none.
    pub reference: Option<PassagePlaces>,
}

impl Passage {
    /// The columns of its places: whether the document is a reference document is among them if the output has any.
    pub fn columns(&self) -> &'static [&'static str] {
        const COLUMNS: [&str; 6] = ["id", "source", "char_start", "char_end", "kept", "reference"];
        if self.reference.is_some() { &COLUMNS } else { &COLUMNS[..5] }
    }

    /// The rows of its places, those in reference documents last.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.places
            .first
            .iter()
            .chain(self.reference.iter().flat_map(|reference| &reference.first))
            .cloned()
            .collect()
    }
}

/// The passage whose id begins with `id`, and `most` of its places, in the output's own documents and in reference documents. The
/// texts of those are read if one of them has the passage.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no passage has such an id, or several have;
/// [`Kind::Input`](crate::error::Kind::Input) if the output has no passages, or the sources of reference documents are gone or have
/// changed.
pub async fn passage(finished: &Finished, id: &str, most: usize) -> Result<Passage> {
    if finished.job().passages.is_none() {
        return Err(Error::input(
            "this output has no passages: add the section [passages] to its job, and run it again",
        ));
    }
    #[derive(Deserialize)]
    struct Found {
        passage_id: String,
        sample: String,
        words: u64,
        occurrences: u64,
        documents: u64,
        reference_documents: u64,
    }
    let named = finished.table(Table::Passages)?.filter(starts_with(col("passage_id"), lit(id)))?;
    let found: Vec<Found> = rows::read(named.limit(0, Some(2))?).await?;
    let [found] = <[Found; 1]>::try_from(found).map_err(|found| {
        Error::job(match found.as_slice() {
            [] => format!(
                "no passage has the id {id:?}: the column passage_id of the tables spans and passages has the ids"
            ),
            _ => format!("several passages have ids that begin with {id:?}: give more digits"),
        })
    })?;
    let reference = found.reference_documents;
    let mut passage = Passage {
        id: found.passage_id,
        words: found.words,
        occurrences: found.occurrences,
        documents: found.documents,
        sample: found.sample,
        places: PassagePlaces::default(),
        reference: finished.job().against.is_some().then(PassagePlaces::default),
    };
    let places = finished.table(Table::Spans)?.filter(col("passage_id").eq(lit(passage.id.as_str())))?;
    let all = places.clone().count().await? as u64;
    let order = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let stays = places.clone().filter(col("kept_reference"))?;
    let columns: Vec<Expr> = passage
        .columns()
        .iter()
        .map(|&name| match name {
            "reference" => lit(false).alias(name),
            _ => col(name),
        })
        .collect();
    let first = places.sort(order)?.limit(0, Some(most))?.select(columns)?.collect().await?;
    passage.places = PassagePlaces { first, all };
    if reference > 0 {
        let kept = kept_at(stays).await?;
        passage.reference =
            Some(reference_places(finished, (&passage.id, passage.words), &kept, most).await?);
    }
    Ok(passage)
}

/// The reference documents in which passages stay that spans have, and the first characters there.
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

/// Finds a passage in texts.
struct PassageSearch {
    words: WrittenWords,
    /// The unit of passages; `None` for runs of words.
    unit: Option<TextUnit>,
    hash: u128,
    /// The number of its words.
    length: usize,
}

impl PassageSearch {
    /// A search for the passage `id` of `length` words, cut as `job` cuts texts.
    fn new(job: &Job, id: &str, length: usize) -> Result<Self> {
        let hash =
            u128::from_str_radix(id, 16).map_err(|_| Error::input(format!("{id:?} is no passage_id")))?;
        let words = WrittenWords::new(&job.shingle.normalize, job.shingle.words)?;
        let unit = job.passages.and_then(Passages::units).map(|(unit, _)| unit);
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
                found.push(places.locate(run).chars);
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
async fn reference_places(
    finished: &Finished,
    (id, words): (&str, u64),
    kept: &[(Id, u64)],
    most: usize,
) -> Result<PassagePlaces> {
    let mut search = PassageSearch::new(finished.job(), id, words as usize)?;
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
    let row = |((id, char_start), (source, char_end)): ((Id, u64), (String, u64))| PassageRow {
        kept: kept.contains(&(id.clone(), char_start)),
        id,
        source,
        char_start,
        char_end,
        reference: true,
    };
    let id = match kind {
        IdType::Int64 => DataType::Int64,
        IdType::Utf8 => DataType::Utf8,
    };
    let columns = [
        ("id", id),
        ("source", DataType::Utf8),
        ("char_start", DataType::UInt64),
        ("char_end", DataType::UInt64),
        ("kept", DataType::Boolean),
        ("reference", DataType::Boolean),
    ];
    let places: Vec<PassageRow> = first.into_iter().map(row).collect();
    Ok(PassagePlaces { first: vec![rows::batch(&places, &columns)?], all })
}

/// A place in a reference document.
#[derive(Serialize)]
struct PassageRow {
    id: Id,
    source: String,
    char_start: u64,
    char_end: u64,
    kept: bool,
    reference: bool,
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
    let uncompared = frames::passages::uncompared(rejects, compared)?;
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
                    frames::passages::without_cuts(read, cuts.clone())?
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
