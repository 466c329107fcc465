//! A pack of pairs to judge, as Parquet, CSV and an HTML page.
//!
//! The page is used with the keyboard, and saves its labels as a file. It makes no requests. Its policy contains the hash of its script, so
//! that no other script can run.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::population::{Candidate, PairDraw, Population};
use crate::address::masked;
use crate::error::Result;
use crate::frames::utf8;
use crate::job::Shingle;
use crate::kernel::hash::document_key;
use crate::lookup::rows::{self, CsvStyle};
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::lookup::{Finished, Id};
use crate::page::{self, PageWords, Side, sides};

/// The settings of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The number of pairs to draw. If the output has fewer pairs, all pairs are drawn.
    pub pairs: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// The new locations of a source that was moved, one for each of its URLs; empty if it was not moved.
    pub places: Vec<String>,
}

/// Pairs to judge.
#[derive(Debug, Clone)]
pub struct Pack {
    /// The name of the job.
    pub name: String,
    /// The id of the pack. The same pairs from the same output give the same id.
    pub id: String,
    /// The strata that contain pairs.
    pub strata: Vec<StratumOfPack>,
    /// The pairs in a random order.
    pub rows: Vec<AuditedPair>,
    /// The shingles of the job, by which common passages are marked.
    shingle: Shingle,
}

/// A stratum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StratumOfPack {
    /// The name.
    pub name: String,
    /// The contents of the stratum, as a phrase.
    pub what: String,
    /// The number of the output's pairs in this stratum.
    pub pairs: u64,
    /// The number of drawn pairs.
    pub drawn: u64,
    /// `pairs / drawn`.
    pub weight: f64,
}

/// A pair to judge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditedPair {
    /// The number in the pack, from 1.
    pub pair: u64,
    /// The name in a file of labels.
    pub key: String,
    /// The name of the stratum.
    pub stratum: String,
    /// The number of pairs in the stratum that this pair represents.
    pub weight: f64,
    /// A document in the output's own source.
    pub id_a: Id,
    /// The other document.
    pub id_b: Id,
    /// Whether the other document is a reference document.
    pub reference_b: bool,
    /// The file of a.
    pub source_a: Option<String>,
    /// The file of b; `None` for a reference document.
    pub source_b: Option<String>,
    /// The Jaccard similarity of the shingle sets.
    pub jaccard: f64,
    /// The share of a's shingles that b contains.
    pub containment_a: f64,
    /// The share of b's shingles that a contains.
    pub containment_b: f64,
    /// The text of a.
    pub text_a: String,
    /// The text of b.
    pub text_b: String,
}

/// Reads the sources and texts of the drawn pairs.
///
/// # Errors
/// Fails if a table or the source cannot be read.
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
    let mut documents = Vec::with_capacity(drawn.len());
    for Candidate { ends, .. } in &drawn {
        let a = Member::parse(finished, &ends.id_a, false)?;
        documents.push([a, Member::parse(finished, &ends.id_b, ends.reference_b)?]);
    }
    let texts = MemberTexts::open(finished, documents.iter().flatten().cloned()).await?;
    let own = documents.iter().flatten().filter(|member| !member.is_reference);
    let sources = sources(finished, own).await?;
    let source =
        |member: &Member| sources.get(&member.id.to_string()).filter(|_| !member.is_reference).cloned();
    let mut rows = Vec::with_capacity(drawn.len());
    for ((Candidate { ends, scores, stratum }, [a, b]), pair) in drawn.into_iter().zip(documents).zip(1..) {
        let both = [texts.text(&a)?, texts.text(&b)?];
        let [jaccard, containment_a, containment_b] = match scores {
            Some(scores) => scores,
            None => {
                let found = similarity([&a, &b], both, finished.job())?;
                [found.jaccard, found.containment_a, found.containment_b]
            }
        };
        rows.push(AuditedPair {
            pair,
            key: ends.key(),
            stratum: population.strata[stratum].clone(),
            weight: weight(stratum),
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

/// Returns the files of documents in the output's own source, by their ids as text.
async fn sources(
    finished: &Finished,
    documents: impl Iterator<Item = &Member>,
) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct DocumentSource {
        id: String,
        source: String,
    }
    let keys = documents.map(|member| document_key(&member.id.to_string()));
    let documents = finished.documents_of(keys).await?.select(vec![utf8("id"), utf8("source")])?;
    let sources: Vec<DocumentSource> = rows::read(documents).await?;
    Ok(sources.into_iter().map(|document| (document.id, masked(&document.source))).collect())
}

impl Pack {
    /// Returns the pack as a Parquet file with complete texts.
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

    /// Returns the pack as CSV for a spreadsheet. A `'` precedes texts that look like formulas, and texts longer than a cell are cut.
    ///
    /// # Errors
    /// Only if there is a bug.
    pub fn csv(&self) -> Result<String> {
        let batch = self.batch()?;
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        rows::csv(&names, &[batch], CsvStyle::Spreadsheet)
    }

    /// Renders the pack as an HTML page that needs no other file.
    ///
    /// # Errors
    /// Only if there is a bug.
    pub fn html(&self) -> Result<String> {
        let pairs = self.rows.iter().map(|row| {
            let stratum = self.strata.iter().find(|stratum| stratum.name == row.stratum);
            let ids = [row.id_a.to_string(), row.id_b.to_string()];
            let [a, b] = sides(ids, [&row.text_a, &row.text_b], &self.shingle);
            PairOnPage {
                row,
                what: stratum.map_or("", |stratum| stratum.what.as_str()),
                sides: [(a, row.source_a.as_deref()), (b, row.source_b.as_deref())],
            }
        });
        page::html(&AuditPage {
            pack: self,
            pairs: pairs.collect(),
            script: SCRIPT,
            script_hash: STANDARD.encode(Sha256::digest(SCRIPT)),
        })
    }

    /// Returns the rows with an empty column for labels.
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

const SCRIPT: &str = include_str!("audit.js");

/// The data of the template.
#[derive(Template)]
#[template(path = "audit.html", config = "src/page/askama.toml")]
struct AuditPage<'a> {
    pack: &'a Pack,
    pairs: Vec<PairOnPage<'a>>,
    script: &'static str,
    script_hash: String,
}

/// A pair with its texts in parts, each with its file.
struct PairOnPage<'a> {
    row: &'a AuditedPair,
    what: &'a str,
    sides: [(Side, Option<&'a str>); 2],
}

impl PageWords for AuditPage<'_> {}
