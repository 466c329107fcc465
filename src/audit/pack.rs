//! A pack of pairs to judge, as Parquet, CSV and a page.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::common::cast::as_string_array;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::draw::Draw;
use super::population::{Candidate, Population, Scores};
use super::settings::Settings;
use crate::address::masked;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::Shingle;
use crate::kernel::document_key::document_key;
use crate::lookup::rows::{Csv, Field, csv_of};
use crate::lookup::show::{Member, Texts, similarity};
use crate::lookup::{Finished, Id};

/// Pairs to judge.
#[derive(Debug, Clone)]
pub struct Pack {
    /// The name of the job.
    pub name: String,
    /// The same for the same pairs of the same output.
    pub id: String,
    /// The strata that have pairs.
    pub strata: Vec<StratumOfPack>,
    /// The pairs in a random order.
    pub rows: Vec<Row>,
    /// What the texts were cut into, by which common passages are marked.
    pub(super) shingle: Shingle,
}

/// A stratum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StratumOfPack {
    /// Its name.
    pub name: String,
    /// What is in it, as a phrase.
    pub what: String,
    /// The pairs that the output has of it.
    pub pairs: u64,
    /// Those that were drawn.
    pub drawn: u64,
    /// `pairs / drawn`.
    pub weight: f64,
}

/// A pair to judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number in the pack, from 1.
    pub pair: u64,
    /// Its name in a file of labels.
    pub key: String,
    /// The name of its stratum.
    pub stratum: String,
    /// The pairs of the stratum that it represents.
    pub weight: f64,
    /// A document of the output's own source.
    pub id_a: Id,
    /// The other one.
    pub id_b: Id,
    /// Whether that is a reference document.
    pub reference_b: bool,
    /// The file of a.
    pub source_a: Option<String>,
    /// The file of b; `None` for a reference document.
    pub source_b: Option<String>,
    /// The Jaccard similarity of their shingle sets.
    pub jaccard: f64,
    /// The share of the shingles of a that b has.
    pub containment_a: f64,
    /// The share of the shingles of b that a has.
    pub containment_b: f64,
    /// The text of a.
    pub text_a: String,
    /// The text of b.
    pub text_b: String,
}

/// The columns of a pack.
const COLUMNS: [&str; 15] = [
    "pair",
    "key",
    "label",
    "stratum",
    "weight",
    "id_a",
    "id_b",
    "reference_b",
    "source_a",
    "source_b",
    "jaccard",
    "containment_a",
    "containment_b",
    "text_a",
    "text_b",
];

/// The drawn pairs with their sources and texts.
///
/// # Errors
/// When a table or the source cannot be read.
pub(super) async fn pack(
    finished: &Finished,
    population: &Population<'_>,
    Draw { drawn, sizes }: Draw,
    settings: &Settings,
) -> Result<Pack> {
    let mut numbers = vec![0_u64; sizes.len()];
    drawn.iter().for_each(|candidate| numbers[candidate.stratum] += 1);
    let weight = |stratum: usize| sizes[stratum] as f64 / numbers[stratum] as f64;
    let strata = (0..sizes.len()).filter(|at| sizes[*at] > 0).map(|at| StratumOfPack {
        name: population.strata[at].clone(),
        what: population.describe(at),
        pairs: sizes[at],
        drawn: numbers[at],
        weight: weight(at),
    });
    let member = |id: &str, is_reference: bool| -> Result<Member> {
        let id = finished.id(id).ok_or_else(|| Error::bug(format!("the id {id} is not a number")))?;
        Ok(Member { id, is_reference })
    };
    let mut documents = Vec::with_capacity(drawn.len());
    for Candidate { ends, .. } in &drawn {
        documents.push([member(&ends.id_a, false)?, member(&ends.id_b, ends.reference_b)?]);
    }
    let texts = Texts::open(finished, documents.iter().flatten().cloned()).await?;
    let sources = sources(finished, documents.iter().flatten().filter(|of| !of.is_reference)).await?;
    let source = |of: &Member| if of.is_reference { None } else { sources.get(&of.id.to_string()).cloned() };
    let mut rows = Vec::with_capacity(drawn.len());
    for ((candidate, [a, b]), pair) in drawn.into_iter().zip(documents).zip(1..) {
        let both = [texts.of(&a)?, texts.of(&b)?];
        let Scores { jaccard, containment_a, containment_b } = match candidate.scores {
            Some(scores) => scores,
            None => {
                let found = similarity([&a, &b], both, finished.job())?;
                Scores {
                    jaccard: found.jaccard,
                    containment_a: found.containment_a,
                    containment_b: found.containment_b,
                }
            }
        };
        rows.push(Row {
            pair,
            key: candidate.ends.key(),
            stratum: population.strata[candidate.stratum].clone(),
            weight: weight(candidate.stratum),
            reference_b: b.is_reference,
            source_a: source(&a),
            source_b: source(&b),
            id_a: a.id,
            id_b: b.id,
            jaccard,
            containment_a,
            containment_b,
            text_a: both[0].to_owned(),
            text_b: both[1].to_owned(),
        });
    }
    let fingerprint = &finished.manifest().fingerprint;
    let id = xxh3_64_with_seed(format!("{fingerprint} {}", settings.pairs).as_bytes(), settings.seed);
    Ok(Pack {
        name: finished.manifest().name.clone(),
        id: format!("{id:016x}"),
        strata: strata.collect(),
        rows,
        shingle: finished.job().shingle.clone(),
    })
}

/// The files of documents of the output's own source, by their ids as text.
async fn sources(
    finished: &Finished,
    documents: impl Iterator<Item = &Member>,
) -> Result<BTreeMap<String, String>> {
    let keys = documents.map(|of| document_key(&of.id.to_string()));
    let documents = finished.documents_of(keys).await?.select(vec![utf8("id"), utf8("source")])?;
    let mut batches = documents.execute_stream().await?;
    let mut found = BTreeMap::new();
    while let Some(batch) = batches.try_next().await? {
        let (ids, sources) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let pairs = ids.iter().flatten().zip(sources.iter().flatten());
        found.extend(pairs.map(|(id, source)| (id.to_owned(), masked(source))));
    }
    Ok(found)
}

impl Pack {
    /// The pack as a Parquet file, with all texts whole.
    ///
    /// # Errors
    /// Only if there is a bug.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        let batch = self.batch()?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?)
    }

    /// The pack as CSV for a spreadsheet: texts that look like formulas begin with `'`, and those longer than a cell are cut.
    ///
    /// # Errors
    /// Only if there is a bug.
    pub fn csv(&self) -> Result<String> {
        let text = |text: &str| Field::Text(text.to_owned());
        let number = |number: f64| Field::Number(number.to_string());
        let row = |row: &Row| {
            vec![
                Field::Number(row.pair.to_string()),
                text(&row.key),
                text(""),
                text(&row.stratum),
                number(row.weight),
                field_of(&row.id_a),
                field_of(&row.id_b),
                Field::Number(row.reference_b.to_string()),
                text(row.source_a.as_deref().unwrap_or_default()),
                text(row.source_b.as_deref().unwrap_or_default()),
                number(row.jaccard),
                number(row.containment_a),
                number(row.containment_b),
                text(&row.text_a),
                text(&row.text_b),
            ]
        };
        csv_of(&COLUMNS, &self.rows.iter().map(row).collect::<Vec<_>>(), Csv::Spreadsheet)
    }

    fn batch(&self) -> Result<RecordBatch> {
        fn column<'a, T>(rows: &'a [Row], of: impl Fn(&'a Row) -> T) -> impl Iterator<Item = T> {
            rows.iter().map(of)
        }
        let rows = self.rows.as_slice();
        let texts =
            |of: fn(&Row) -> &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(column(rows, of))) };
        let options = |of: fn(&Row) -> Option<&str>| -> ArrayRef {
            Arc::new(column(rows, of).collect::<StringArray>())
        };
        let shares =
            |of: fn(&Row) -> f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values(column(rows, of))) };
        let columns: [ArrayRef; 15] = [
            Arc::new(Int64Array::from_iter_values(column(rows, |row| row.pair.cast_signed()))),
            texts(|row| &row.key),
            options(|_| None),
            texts(|row| &row.stratum),
            shares(|row| row.weight),
            ids(rows, |row| &row.id_a),
            ids(rows, |row| &row.id_b),
            Arc::new(column(rows, |row| Some(row.reference_b)).collect::<BooleanArray>()),
            options(|row| row.source_a.as_deref()),
            options(|row| row.source_b.as_deref()),
            shares(|row| row.jaccard),
            shares(|row| row.containment_a),
            shares(|row| row.containment_b),
            texts(|row| &row.text_a),
            texts(|row| &row.text_b),
        ];
        let columns = COLUMNS.into_iter().zip(columns);
        Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?)
    }
}

fn field_of(id: &Id) -> Field {
    match id {
        Id::Number(number) => Field::Number(number.to_string()),
        Id::Text(text) => Field::Text(text.clone()),
    }
}

/// A column of ids, of numbers if all are numbers.
fn ids(rows: &[Row], of: fn(&Row) -> &Id) -> ArrayRef {
    let number = |row| if let Id::Number(number) = of(row) { Some(*number) } else { None };
    match rows.iter().map(number).collect::<Option<Vec<i64>>>() {
        Some(numbers) => Arc::new(Int64Array::from(numbers)),
        None => Arc::new(StringArray::from_iter_values(rows.iter().map(|row| of(row).to_string()))),
    }
}
