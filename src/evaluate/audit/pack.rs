//! A pack of pairs to label, as a Parquet file, a CSV file and an HTML page.
//!
//! Users label pairs on the page with the keyboard, and save the labels as a file. The page makes no requests. Its security policy contains
//! the hash of its script, so that no other script can run.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::population::{Candidate, PairDraw, Population};
use crate::address::masked;
use crate::error::Result;
use crate::frames::utf8;
use crate::job::Shingle;
use crate::kernel::hash::document_key;
use crate::lookup::rows;
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::lookup::spreadsheets::{self, CsvStyle};
use crate::lookup::{Finished, Id};
use crate::page::{self, EXCERPT, PageWords, Side, sides};

/// The settings of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The number of pairs to draw. If the output has fewer pairs, all pairs are drawn.
    pub pairs: usize,
    /// The seed with which pairs are drawn.
    pub seed: u64,
    /// The new location of each URL of a source that was moved since the run, or nothing.
    pub places: Vec<String>,
}

/// A pack of pairs to label.
#[derive(Debug, Clone)]
pub struct Pack {
    /// The name of the job.
    pub name: String,
    /// A hash of the output's fingerprint and the settings of the draw, by which the page recognises its saved labels.
    pub id: String,
    /// The strata that contain pairs.
    pub strata: Vec<StratumOfPack>,
    /// The pairs in a random order.
    pub rows: Vec<AuditedPair>,
    /// The settings of shingles. The page marks common passages that are at least as long as a shingle.
    shingle: Shingle,
}

/// A stratum in a pack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StratumOfPack {
    /// The name.
    pub name: String,
    /// A phrase that describes the pairs in this stratum.
    pub what: String,
    /// The number of the output's pairs in this stratum.
    pub pairs: u64,
    /// The number of drawn pairs.
    pub drawn: u64,
    /// `pairs / drawn`.
    pub weight: f64,
}

/// A pair to label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditedPair {
    /// The number of the pair in the pack, from 1.
    pub pair: u64,
    /// The key that identifies the pair in a file of labels.
    pub key: String,
    /// The name of the stratum.
    pub stratum: String,
    /// How many pairs in the stratum this pair represents.
    pub weight: f64,
    /// The id of the first document, which is in the source of the job.
    pub id_a: Id,
    /// The id of the second document.
    pub id_b: Id,
    /// Whether the second document is a reference document.
    pub reference_b: bool,
    /// The file that contains the first document.
    pub source_a: Option<String>,
    /// The file that contains the second document; `None` for a reference document.
    pub source_b: Option<String>,
    /// The Jaccard similarity of the shingle sets.
    pub jaccard: f64,
    /// The share of the first document's shingles that the second document contains.
    pub containment_a: f64,
    /// The share of the second document's shingles that the first document contains.
    pub containment_b: f64,
    /// The text of the first document.
    pub text_a: String,
    /// The text of the second document.
    pub text_b: String,
}

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

/// Returns the file of each document in the source of the job, by the document's id as text.
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
    /// Fails only if there is a bug.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        let batch = self.batch()?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?)
    }

    /// Returns the pack as CSV for a spreadsheet. Puts a `'` before texts that look like formulas. Cuts off texts that are too long for a
    /// cell.
    ///
    /// # Errors
    /// Fails only if there is a bug.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let batch = self.batch()?;
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let style = CsvStyle::SPREADSHEET;
        spreadsheets::csv(&names, &[batch], style).map(|text| style.encoded(&text))
    }

    /// Renders the pack as an HTML page, which needs no other file.
    ///
    /// # Errors
    /// Fails only if there is a bug.
    pub fn html(&self) -> Result<String> {
        let pairs = self.rows.iter().map(|row| {
            let stratum = self.strata.iter().find(|stratum| stratum.name == row.stratum);
            let ids = [row.id_a.to_string(), row.id_b.to_string()];
            let [a, b] = sides(ids, [&row.text_a, &row.text_b], EXCERPT, &self.shingle)?;
            Ok(PairOnPage {
                row,
                what: stratum.map_or("", |stratum| stratum.what.as_str()),
                sides: [(a, row.source_a.as_deref()), (b, row.source_b.as_deref())],
            })
        });
        page::html(&AuditPage {
            pack: self,
            pairs: pairs.collect::<Result<_>>()?,
            script: SCRIPT,
            script_hash: STANDARD.encode(Sha256::digest(SCRIPT)),
        })
    }

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

#[derive(Template)]
#[template(path = "audit.html", config = "src/page/askama.toml")]
struct AuditPage<'a> {
    pack: &'a Pack,
    pairs: Vec<PairOnPage<'a>>,
    script: &'static str,
    script_hash: String,
}

/// A pair on the page. `sides` contains the parts of each text, and the file of the document.
struct PairOnPage<'a> {
    row: &'a AuditedPair,
    what: &'a str,
    sides: [(Side, Option<&'a str>); 2],
}

impl PageWords for AuditPage<'_> {}

impl AuditPage<'_> {
    /// Encodes an id like a component of a URL, from which the script restores every character.
    fn encoded(&self, id: &Id) -> String {
        utf8_percent_encode(&id.to_string(), NON_ALPHANUMERIC).to_string()
    }
}
