//! The job file: its sections and keys as they are written, with their defaults.
//!
//! [`resolve()`](super::resolve()) checks what the values mean together. Sections that need no resolving are those of the
//! [`Job`](super::Job).

mod limit;
mod passages;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

pub use self::limit::Limit;
pub use self::passages::{PassageUnit, Passages};
use super::document::Document;
use super::{
    Alarms, BucketHash, Candidates, ClusterMethod, DuplicateIds, NewPairs, OnError, Output, References,
    SameId, Score, ShingleHash, Short, Unit, Words,
};
use crate::error::Result;

/// The share of pairs at the threshold that the bands must find, where `[lsh]` sets neither bands nor a rule.
pub const DEFAULT_TARGET_RECALL: f64 = 0.99;

/// Reads the job file `text`, with the overrides of `sets` (each `KEY=VALUE`) put over it.
///
/// KEY is dotted (`score.threshold`); VALUE is TOML, or else a plain string. `path` only names the file in messages.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the file, the line (or the override), the key, and what is allowed there.
pub fn read(text: &str, path: &str, sets: &[String]) -> Result<File> {
    Document::parse(text, path, sets)?.read()
}

/// A job file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The run's name in logs and in the manifest. Default: the job file's name without its ending.
    pub name: Option<String>,
    /// `[source]`: where the documents are. Required.
    pub source: Source,
    /// `[shingle]`: how a text becomes a set of shingles. The source format `output` brings its own.
    pub shingle: Option<Shingle>,
    /// `[minhash]`: how a set of shingles becomes a signature. The source format `output` brings its own.
    pub minhash: Option<Minhash>,
    /// `[lsh]`: how a signature becomes buckets.
    #[serde(default)]
    pub lsh: Lsh,
    /// `[candidates]`: how candidates are found.
    #[serde(default)]
    pub candidates: Candidates,
    /// `[against]`: the reference documents, which those of the source are compared with.
    pub against: Option<Against>,
    /// `[score]`: what makes a candidate a pair.
    #[serde(default)]
    pub score: Score,
    /// `[clusters]`: what a cluster is, and which of its documents represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// `[passages]`: which passages are found that repeat inside documents.
    pub passages: Option<Passages>,
    /// `[alarms]`: bounds that a person should check before duplicates are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// `[output]`: where the tables go. Required.
    pub output: Output,
    /// `[engine]`: what runs the job; nothing here changes a row.
    #[serde(default)]
    pub engine: Engine,
}

impl File {
    /// A job that reads `urls` and writes to `output`, with the default of every other key.
    pub(crate) fn new(format: Format, urls: Vec<String>, output: &str) -> Self {
        Self {
            name: None,
            source: Source {
                format: Some(format),
                url: Names::Many(urls),
                id: None,
                encoding: None,
                id_separator: Source::id_separator(),
                text: None,
                columns: None,
                group: None,
                condition: None,
                limit: None,
                seed: None,
                duplicate_ids: Source::duplicate_ids(),
                on_error: OnError::default(),
                max_text: Source::max_text(),
                references: None,
                delimiter: Source::delimiter(),
                header: Source::header(),
                quote: None,
                escape: None,
            },
            shingle: None,
            minhash: None,
            lsh: Lsh::default(),
            candidates: Candidates::default(),
            against: None,
            score: Score::default(),
            clusters: Clusters::default(),
            passages: None,
            alarms: Alarms::default(),
            output: Output::at(output),
            engine: Engine::default(),
        }
    }
}

/// `[source]`: where the documents are and which columns are theirs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// `reuters`, `csv`, `parquet`, `delta`, `jsonl` or `text`, or `output`: the documents are those of a finished output, whose
    /// sketches are used again. Default: what the ending of `url` says, such as `.parquet`, `.csv.gz` or `.jsonl`; required where
    /// it has none of a format.
    pub format: Option<Format>,
    /// File, folder, glob or URL, or a list of them; of the format `delta` folders of tables, of `output` one folder or URL
    /// prefix. Required.
    pub url: Names,
    /// Column, or list of columns, that identifies a document; or one of the words `"row_number"` and `"path"`. A
    /// column with one of those names is written as a list: `["path"]`. A row number is `FILE:ROW`: the path of the file below
    /// `url`, or the whole path if two folders have files of one name, and the row in the file, counted from 0.
    /// Default: `oldid` for reuters, `path` for text, `row_number` for the others. Required with `against.output` for those others.
    pub id: Option<Names>,
    /// The encoding of the files: `utf-8` (invalid bytes are an error or a rejected document; in Reuters stories they are read as
    /// Latin-1), `utf-8-lossy` (invalid bytes become U+FFFD), `latin-1` (ISO 8859-1 as in Python: every byte is a character) or a
    /// label of the Encoding Standard, such as `windows-1252`, for which it also has the labels `latin1` and `iso-8859-1`. Not for
    /// parquet and delta, whose texts are UTF-8. Default: `utf-8`.
    pub encoding: Option<String>,
    /// The separator between the parts of an id of several columns.
    #[serde(default = "Source::id_separator")]
    pub id_separator: String,
    /// Column, or list of columns, that holds the text. Default: `body` for reuters; no column for text, whose files
    /// are the documents; required for the others.
    pub text: Option<Names>,
    /// Column, or list of columns, that the table `documents` carries after its own columns, under their own names. Parquet columns
    /// keep their types; those of all other formats are text. Default: none.
    pub columns: Option<Names>,
    /// Column of a document's group, such as the crawl or the shop that it is from. The table `documents` carries it too. Documents
    /// without a value are together a group. Default: none.
    pub group: Option<String>,
    /// SQL condition over the columns; rows that do not meet it are no documents, and are counted. Only functions of DataFusion
    /// that give the same value in every run. Default: all rows are documents.
    #[serde(rename = "where")]
    pub condition: Option<String>,
    /// Number of documents, or a share of them as in `"1%"`: a random sample of the documents that `where` leaves, the same in
    /// every run. Default: all documents.
    pub limit: Option<Limit>,
    /// The number that chooses the sample of `limit`: another number chooses another sample. Default: 0.
    pub seed: Option<u64>,
    /// What happens when an id is repeated: `error` ends the run, `reject` keeps the first that can be compared.
    #[serde(default = "Source::duplicate_ids")]
    pub duplicate_ids: DuplicateIds,
    /// What happens to a row of a CSV or JSON lines file that cannot be read: `error` ends the run and names the line, `reject`
    /// puts the row into the table `rejects`.
    #[serde(default)]
    pub on_error: OnError,
    /// The most bytes of a JSON line, which goes to the table `rejects` as `too_long` if it has more, and of a CSV record, which ends
    /// the run.
    #[serde(default = "Source::max_text")]
    pub max_text: String,
    /// Reuters: `decode` replaces character references such as `&lt;` by their characters, `keep` leaves them.
    /// Default: `decode`.
    pub references: Option<References>,
    /// CSV: the character between fields.
    #[serde(default = "Source::delimiter")]
    pub delimiter: String,
    /// CSV: whether the first line names the columns; without it they are `column_1`, `column_2`, ...
    #[serde(default = "Source::header")]
    pub header: bool,
    /// CSV: the character around fields that hold delimiters, quotes or newlines; `""` if quotes are characters. Default: `"`; where
    /// the delimiter is a tab only in lines that close each quote, in others quotes are characters.
    pub quote: Option<String>,
    /// CSV: the character that takes the meaning of the next one, as the backslash does in `\"`. Default: none.
    pub escape: Option<String>,
}

/// What a source can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Files.
    Files(super::Format),
    /// `output`: a finished output, whose sketches are used again. See [`Input::Reuse`](super::Input::Reuse).
    Output,
}

/// The name of [`Format::Output`].
const OUTPUT: &str = "output";

impl From<super::Format> for Format {
    fn from(format: super::Format) -> Self {
        Format::Files(format)
    }
}

impl Format {
    /// The format of the files that are read; none if an output is read instead.
    pub fn of_files(self) -> Option<super::Format> {
        match self {
            Format::Files(format) => Some(format),
            Format::Output => None,
        }
    }

    /// The names, as a job file has them.
    fn names() -> impl Iterator<Item = &'static str> {
        super::Format::ALL.iter().map(|format| format.name()).chain([OUTPUT])
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == OUTPUT {
            return Ok(Format::Output);
        }
        let format = super::Format::ALL.iter().find(|format| format.name() == name);
        format.map(|&format| Format::Files(format)).ok_or_else(|| {
            let names: Vec<_> = Format::names().map(|name| format!("`{name}`")).collect();
            de::Error::custom(format!("unknown variant `{name}`, expected one of {}", names.join(", ")))
        })
    }
}

impl JsonSchema for Format {
    fn schema_name() -> Cow<'static, str> {
        "Format".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Format::names().collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

// The section has required keys, so it has no default of its own; these are the defaults of its other keys.
impl Source {
    /// The default of `max_text`, in bytes.
    pub const MAX_TEXT: u64 = 128 << 20;

    fn max_text() -> String {
        format!("{}MiB", Self::MAX_TEXT >> 20)
    }
    fn id_separator() -> String {
        ":".into()
    }
    fn duplicate_ids() -> DuplicateIds {
        DuplicateIds::Error
    }
    fn delimiter() -> String {
        ",".into()
    }
    fn header() -> bool {
        true
    }
}

/// `[shingle]`: how a text becomes a set of shingles.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shingle {
    /// Steps that the text goes through first, in this order: `lowercase`, `letters-only`, `remove-non-letters`,
    /// `remove-newlines`, `collapse-whitespace`, `collapse-whitespace:keep-ends`, `collapse-whitespace:spaces-only`,
    /// `collapse-whitespace:tabs-and-newlines`, `digits-out`, `stop-words:LANGUAGE` (ISO 639-1 code, or `scikit-learn-en`), `stop-words:list=WORDS` (spaces between
    /// them), `stop-words:file=PATH` (UTF-8, one word a line; read when the job is), `spaces-to-underscores`,
    /// `spaces-to-underscores:spaces-only` and `nfkc`. See [`Normalize`](super::Normalize).
    pub normalize: Vec<String>,
    /// `word` or `char`.
    pub unit: Unit,
    /// What a word is, for shingles and for the steps that take words out: `auto`, `unicode`, `word-characters` or `spaces`.
    pub words: Words,
    /// Units in a shingle. Default: [`Shingle::SIZE_WORDS`] for words, [`Shingle::SIZE_CHARS`] for characters.
    pub size: Option<usize>,
    /// The separator between the words of a shingle when its bytes are hashed; `xxh3` needs none.
    pub separator: String,
    /// What turns a shingle into a number: `xxh3` (64 bits), `crc32`, `sha256-31` or `dictionary`.
    pub hash: ShingleHash,
    /// Documents of fewer words than this are rejected; 0 rejects none.
    pub min_words: usize,
    /// What happens to a document of fewer words, or characters, than `size`: `whole` makes all of it one shingle, `reject` puts
    /// it into the table `rejects`, and `empty` gives it none, so that all such documents have the same signature. The last needs
    /// `score.by = "signature"`, and does not work with `min_words` or the hash `dictionary`.
    pub short: Short,
    /// Shingles in more than this share of the documents are left out of all sets, since they are from a template: navigation,
    /// licences, signatures of letters. With `source.group`, the share of the documents of any group. Those in 10 documents or
    /// fewer always count. A document without other shingles is rejected as `only_template`. Over 0 and under 1, such as 0.001.
    /// Default: all shingles count.
    pub max_frequency: Option<f64>,
}

impl Shingle {
    /// The default size for words: five in a row rarely agree by chance in prose.
    pub const SIZE_WORDS: usize = 5;
    /// The default size for characters: nine suit documents as large as a paper (Leskovec, Rajaraman, Ullman,
    /// *Mining of Massive Datasets*, section 3.2.2).
    pub const SIZE_CHARS: usize = 9;

    /// The default size for a unit.
    pub(crate) const fn size_of(unit: Unit) -> usize {
        match unit {
            Unit::Word => Self::SIZE_WORDS,
            Unit::Char => Self::SIZE_CHARS,
        }
    }
}

impl Default for Shingle {
    fn default() -> Self {
        Self {
            normalize: ["nfkc", "lowercase", "collapse-whitespace"].map(String::from).to_vec(),
            unit: Unit::Word,
            words: Words::Auto,
            size: None,
            separator: " ".into(),
            hash: ShingleHash::Xxh3,
            min_words: 0,
            short: Short::Whole,
            max_frequency: None,
        }
    }
}

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Minhash {
    /// Permutations, which is the signature's length.
    pub permutations: usize,
    /// What the permutations are drawn from.
    pub seed: u64,
    /// How a permutation is computed: `multiply-shift`, `linear` or `one-permutation`.
    pub family: Family,
    /// `linear`: what `a * x + b` is taken modulo: `"2^31-1"`, `"2^32-1"`, `"next-prime"` (the first prime above the
    /// number of distinct shingles, for the hash `dictionary`), or a prime under 2^32. Default: `"2^31-1"`.
    pub modulus: Option<Modulus>,
    /// `linear`: a CSV file of this machine with the a and b of each permutation, a line `a,b` each, instead of those that are
    /// drawn from `seed`, so that signatures are those of another program. It is read when the job is.
    pub coefficients: Option<String>,
    /// The bits that are kept of each value of a signature, 16 or 32. Default: 16; 32 for the family `linear`, with
    /// `lsh.bucket_hash` or `lsh.table_size`, and for fewer than 3 rows in a band.
    pub bits: Option<u32>,
}

impl Default for Minhash {
    fn default() -> Self {
        Self {
            permutations: 128,
            seed: 42,
            family: Family::MultiplyShift,
            modulus: None,
            coefficients: None,
            bits: None,
        }
    }
}

/// How a permutation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// See [`Family::MultiplyShift`](super::Family::MultiplyShift).
    MultiplyShift,
    /// See [`Family::Linear`](super::Family::Linear).
    Linear,
    /// See [`Family::OnePermutation`](super::Family::OnePermutation).
    OnePermutation,
}

/// A modulus as it is written: by name, or as a number.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Modulus {
    /// `"2^31-1"`
    Name(String),
    /// `4294967291`
    Number(i64),
}

impl<'de> Deserialize<'de> for Modulus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(ModulusVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct ModulusVisitor;

impl de::Visitor<'_> for ModulusVisitor {
    type Value = Modulus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> std::result::Result<Modulus, E> {
        Ok(Modulus::Name(name.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Modulus, E> {
        Ok(Modulus::Number(number))
    }
}

/// `[lsh]`: how a signature becomes buckets: `bands` and `rows`, or `choose`, or `target_recall`, or nothing, which is
/// `target_recall =` [`DEFAULT_TARGET_RECALL`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lsh {
    /// Bands, b.
    pub bands: Option<usize>,
    /// Rows in a band, r.
    pub rows: Option<usize>,
    /// A rule that finds both for the threshold: `nearest`, `balanced`, `recall` or `precision`.
    pub choose: Option<Choose>,
    /// The share of pairs at the threshold that the bands must find, in (0, 1).
    pub target_recall: Option<f64>,
    /// What turns a band into a bucket: `xxh3`, `crc32` or `crc32-tuple`.
    pub bucket_hash: BucketHash,
    /// Buckets of one table that all bands share; without it each band has buckets of its own, without number.
    pub table_size: Option<u64>,
    /// The most documents in a bucket for every two of them to be candidates. Default: [`Lsh::HOT_BUCKET`].
    pub hot_bucket: Option<u64>,
}

impl Lsh {
    /// In larger buckets, joining documents by their prefixes compares fewer of them.
    pub const HOT_BUCKET: u64 = 256;
}

/// A rule that finds bands and rows for the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// See [`Choice::Nearest`](super::Choice::Nearest).
    Nearest,
    /// See [`Choice::Balanced`](super::Choice::Balanced).
    Balanced,
    /// See [`Choice::Recall`](super::Choice::Recall).
    Recall,
    /// See [`Choice::Precision`](super::Choice::Precision).
    Precision,
}

/// `[against]`: the reference documents, which those of the source are compared with: of finished outputs, or of a second source.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Folder or URL prefix of the finished output that holds the reference documents, or a list of them in the order in which they
    /// were made. They were made with the same `[shingle]` and `[minhash]`. Either this or `source` is required.
    pub output: Option<Names>,
    /// `[against.source]`, with the keys of `[source]` except `columns`: a second dataset, whose documents are the reference
    /// documents. An id may be in both.
    pub source: Option<Source>,
    /// Which documents are paired: `new-old+new-new`, or `new-old` alone. Two reference documents never are.
    #[serde(default)]
    pub pairs: NewPairs,
    /// What happens to a new document that has the id of a reference document: `error` ends the run, with `replace` it replaces the
    /// reference document, `skip` puts it into `rejects`. Only with `output`. Default: `error`.
    pub same_id: Option<SameId>,
}

/// `[clusters]`: what a cluster is, and which of its documents represents it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clusters {
    /// What makes documents a cluster. `representative` (default): each is paired with the document that represents them.
    /// Documents are taken in the order of `keep`: each joins the first representative that it is paired with, or becomes one.
    /// `components`: pairs connect them, so that a chain of pairs may join documents which are not similar.
    pub method: ClusterMethod,
    /// The order in which documents represent clusters, by the first of these that differs between two documents: `"COLUMN"` or
    /// `"COLUMN asc"` (the smallest value first), `"COLUMN desc"`, or `"COLUMN in (A, B)"` (A before B before all others). A
    /// column is one of `source.columns`, or `length()` (the number of shingles), `group()`, `source()` (the file), `position()`
    /// (the row in the file) or `id()`, whose brackets may be left out if the data have no such column. `"longest"` is short for
    /// `"length() desc"`, `"first"` for `"source()", "position()"`, and `"last"` for both in descending order. Texts that are all
    /// numbers are compared as numbers. Missing values come last, and at last the smallest id decides. `"reference"` says where it
    /// counts that a document is a reference document; if no entry says it, it counts first. Default: `["reference", "length desc"]`.
    pub keep: Vec<String>,
    /// Similarities for which the table `cluster_levels` has clusters too: those of the pairs that are at least so similar. Each is
    /// at least `score.threshold`. Default: none.
    pub thresholds: Vec<f64>,
    /// The least share of its shingles, over 0 and at most 1, that the representative of a removed document must have. A document
    /// that is not paired with the representative, or has a smaller share there, stays and is in the table `spared`. Default:
    /// every document but the representative is removed.
    pub contained: Option<f64>,
}

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Engine {
    /// Where the stages run: `local` or `cluster`.
    pub mode: Mode,
    /// The cluster's scheduler, as `df://host:50050`. Required for mode `cluster`.
    pub scheduler: Option<String>,
    /// Cluster: seconds in which no task of a stage ends or advances before the stage is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Cluster: seconds that one attempt of a stage may take; 0 is any number.
    pub deadline_seconds: u64,
    /// Cluster: attempts of a stage before the run gives up.
    pub attempts: u32,
    /// Cluster: seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
    /// The memory of the stages, as `4GiB`, `4G`, `500MB`, or a share of what the machine or its container has, as `50%`; beyond it
    /// they spill to disk.
    pub memory: String,
    /// Threads, at most `MAX_THREADS`; 0 is one for each core.
    pub threads: usize,
    /// Folder for spills. Default: the system's folder for temporary files.
    pub spill: Option<String>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            mode: Mode::Local,
            scheduler: None,
            stall_seconds: 120,
            deadline_seconds: 0,
            attempts: 5,
            wait_seconds: 120,
            memory: "50%".into(),
            threads: 0,
            spill: None,
        }
    }
}

/// Where the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In this process.
    Local,
    /// On the executors of a scheduler.
    Cluster,
}

/// One string, or a list of strings. Which of the two was written is kept, because it matters for `source.id`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Names {
    /// `"a"`
    One(String),
    /// `["a", "b"]`
    Many(Vec<String>),
}

impl Names {
    /// The strings, in their order.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Names::One(name) => vec![name],
            Names::Many(names) => names,
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct NamesVisitor;

impl<'de> de::Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<Names, E> {
        Ok(Names::One(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Names::Many(names))
    }
}
