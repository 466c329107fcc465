//! A pack of pairs to judge, as Parquet, CSV and a page.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::population::{Candidate, PairDraw, PairScores, Population};
use crate::address::masked;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::Shingle;
use crate::kernel::hash::document_key;
use crate::lookup::rows::{self, CsvStyle};
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::lookup::{Finished, Id};

/// The size, the seed and the source of a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// How many pairs; all if there are no more.
    pub pairs: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// The new places of a source that was moved, one for each of its URLs; none if it was not moved.
    pub places: Vec<String>,
}

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
    pub rows: Vec<AuditedPair>,
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditedPair {
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

/// The drawn pairs with their sources and texts.
///
/// # Errors
/// When a table or the source cannot be read.
pub(super) async fn pack(
    finished: &Finished,
    population: &Population<'_>,
    PairDraw { drawn, sizes }: PairDraw,
    settings: &AuditSettings,
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
    let texts = MemberTexts::open(finished, documents.iter().flatten().cloned()).await?;
    let sources = sources(finished, documents.iter().flatten().filter(|of| !of.is_reference)).await?;
    let source = |of: &Member| if of.is_reference { None } else { sources.get(&of.id.to_string()).cloned() };
    let mut rows = Vec::with_capacity(drawn.len());
    for ((candidate, [a, b]), pair) in drawn.into_iter().zip(documents).zip(1..) {
        let both = [texts.text(&a)?, texts.text(&b)?];
        let PairScores { jaccard, containment_a, containment_b } = match candidate.scores {
            Some(scores) => scores,
            None => {
                let found = similarity([&a, &b], both, finished.job())?;
                PairScores {
                    jaccard: found.jaccard,
                    containment_a: found.containment_a,
                    containment_b: found.containment_b,
                }
            }
        };
        rows.push(AuditedPair {
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
    #[derive(Deserialize)]
    struct Place {
        id: String,
        source: String,
    }
    let places: Vec<Place> = rows::read(documents).await?;
    Ok(places.into_iter().map(|Place { id, source }| (id, masked(&source))).collect())
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
        let batch = self.batch()?;
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        rows::csv(&names, &[batch], CsvStyle::Spreadsheet)
    }

    /// The rows, with an empty column for labels.
    fn batch(&self) -> Result<RecordBatch> {
        use DataType::{Boolean, Float64, Int64, Utf8};
        let id = self.rows.first().map_or(Utf8, |row| row.id_a.data_type());
        let columns = [
            ("pair", Int64),
            ("key", Utf8),
            ("label", Utf8),
            ("stratum", Utf8),
            ("weight", Float64),
            ("id_a", id.clone()),
            ("id_b", id),
            ("reference_b", Boolean),
            ("source_a", Utf8),
            ("source_b", Utf8),
            ("jaccard", Float64),
            ("containment_a", Float64),
            ("containment_b", Float64),
            ("text_a", Utf8),
            ("text_b", Utf8),
        ];
        rows::batch(&self.rows, &columns)
    }
}
