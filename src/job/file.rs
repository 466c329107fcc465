//! The job file: its sections and keys as they are written, and nothing else.
//!
//! The defaults live here and only here. What the values mean together is checked by [`resolve()`](super::resolve()).

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use super::document::Document;
use super::{
    BucketHash, ClusterMethod, Compare, DuplicateIds, Expand, Keep, Measure, Method, NewPairs, OnError, Per,
    References, SameId, ScoreBy, ShingleHash, Short, Tables, Unit, Words,
};
use crate::error::Result;

/// The share of pairs at the threshold that the bands must find, where `[lsh]` says nothing.
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
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What the run calls itself in logs and in the manifest. Default: the job file's name without its ending.
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
    /// `[against]`: documents that are known already, which those of the source are compared with.
    pub against: Option<Against>,
    /// `[score]`: what makes a candidate a pair.
    #[serde(default)]
    pub score: Score,
    /// `[clusters]`: what a cluster is, and which of its documents represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// `[alarms]`: what somebody should look at before copies are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// `[output]`: where the tables go. Required.
    pub output: Output,
    /// `[engine]`: what runs the job; nothing here changes a row.
    #[serde(default)]
    pub engine: Engine,
}

/// `[source]`: where the documents are and which columns are theirs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// `reuters`, `csv`, `parquet`, `delta`, `jsonl` or `text`, or `output`: the documents are those of a finished output, whose
    /// sketches are used again. Required.
    pub format: Format,
    /// File, folder, glob or URL, or a list of them; of the format `delta` folders of tables, of `output` one folder or URL
    /// prefix. Required.
    pub url: Names,
    /// Column, or list of columns, that identifies a document; or one of the words `"row_number"` and `"path"`. A
    /// column that bears one of those names is written as a list: `["path"]`.
    /// Default: `oldid` for reuters, `path` for text, `row_number` for the others.
    pub id: Option<Names>,
    /// How the bytes of the files stand for characters: `utf-8` (what is not valid is an error or a rejected document; of
    /// Reuters stories it is read as Latin-1), `utf-8-lossy` (it becomes U+FFFD), `latin-1` (ISO 8859-1 as Python has it:
    /// every byte is a character) or a label of the Encoding Standard, such as `windows-1252`, which it also calls `latin1`
    /// and `iso-8859-1`. Not for parquet and delta, whose texts are UTF-8. Default: `utf-8`.
    pub encoding: Option<String>,
    /// What stands between the parts of an id of several columns.
    #[serde(default = "Source::id_separator")]
    pub id_separator: String,
    /// Column, or list of columns, that holds the text. Default: `body` for reuters; no column for text, whose files
    /// are the documents; required for the others.
    pub text: Option<Names>,
    /// Column, or list of columns, that the table `documents` carries beside what the run computes, under their own names and
    /// after its own columns. Parquet columns keep their types, of all other formats they are text. Default: none.
    pub columns: Option<Names>,
    /// Column that says which group a document is of, such as the crawl or the shop that it is from. The table `documents` carries it
    /// too. No value is a group of its own. Default: none.
    pub group: Option<String>,
    /// What happens when an id comes twice: `error` ends the run, `reject` keeps the first that can be compared.
    #[serde(default = "Source::duplicate_ids")]
    pub duplicate_ids: DuplicateIds,
    /// What happens to a row of a CSV or JSON lines file that cannot be read: `error` ends the run and names the line,
    /// `reject` puts the row into the table `rejects`.
    #[serde(default)]
    pub on_error: OnError,
    /// Reuters: `decode` makes of character references such as `&lt;` the characters that they stand for, `keep` leaves them.
    /// Default: `decode`.
    pub references: Option<References>,
    /// CSV: the character between fields.
    #[serde(default = "Source::delimiter")]
    pub delimiter: String,
    /// CSV: whether the first line names the columns; without it they are `column_1`, `column_2`, ...
    #[serde(default = "Source::header")]
    pub header: bool,
    /// CSV: the character around fields that hold delimiters, quotes or newlines.
    #[serde(default = "Source::quote")]
    pub quote: String,
}

/// What a source can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// See [`Format::Reuters`](super::Format::Reuters).
    Reuters,
    /// See [`Format::Csv`](super::Format::Csv).
    Csv,
    /// See [`Format::Parquet`](super::Format::Parquet).
    Parquet,
    /// See [`Format::Delta`](super::Format::Delta).
    Delta,
    /// See [`Format::Jsonl`](super::Format::Jsonl).
    Jsonl,
    /// See [`Format::Text`](super::Format::Text).
    Text,
    /// A finished output, whose sketches are used again: see [`Job::reuse`](super::Job::reuse).
    Output,
}

impl Format {
    /// The format of the files that are read; none where an output takes their place.
    pub fn of_files(self) -> Option<super::Format> {
        match self {
            Format::Reuters => Some(super::Format::Reuters),
            Format::Csv => Some(super::Format::Csv),
            Format::Parquet => Some(super::Format::Parquet),
            Format::Delta => Some(super::Format::Delta),
            Format::Jsonl => Some(super::Format::Jsonl),
            Format::Text => Some(super::Format::Text),
            Format::Output => None,
        }
    }
}

// The section has required keys, so it has no default of its own; these are the defaults of its other keys.
impl Source {
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
    fn quote() -> String {
        "\"".into()
    }
}

/// `[shingle]`: how a text becomes a set of shingles.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shingle {
    /// Steps that the text goes through first, in this order: `lowercase`, `letters-only`, `remove-non-letters`,
    /// `remove-newlines`, `collapse-whitespace`, `collapse-whitespace:keep-ends`, `collapse-whitespace:spaces-only`,
    /// `digits-out`, `stop-words:LANGUAGE` (ISO 639-1 code, or `scikit-learn-en`), `stop-words:list=WORDS` (spaces between
    /// them), `stop-words:file=PATH` (UTF-8, one word a line; read when the job is), `spaces-to-underscores`,
    /// `spaces-to-underscores:spaces-only` and `nfkc`. See [`Normalize`](super::Normalize).
    pub normalize: Vec<String>,
    /// `word` or `char`.
    pub unit: Unit,
    /// What a word is, for shingles and for the steps that take words out: `unicode`, `word-characters` or `spaces`.
    pub words: Words,
    /// Units in a shingle. Default: [`Shingle::SIZE_WORDS`] for words, [`Shingle::SIZE_CHARS`] for characters.
    pub size: Option<usize>,
    /// What stands between the words of a shingle when its bytes are hashed; `xxh3` needs none.
    pub separator: String,
    /// What turns a shingle into a number: `xxh3` (64 bits), `crc32`, `sha256-31` or `dictionary`.
    pub hash: ShingleHash,
    /// Documents of fewer words than this are rejected; 0 rejects none.
    pub min_words: usize,
    /// What becomes of a document of fewer words, or characters, than `size`: `reject` puts it into the table `rejects`,
    /// `whole` makes all of it one shingle, and `empty` lets it have none, so that by their signatures all such documents are
    /// alike. The last needs `score.by = "signature"`, and goes with neither `min_words` nor the hash `dictionary`.
    pub short: Short,
}

impl Shingle {
    /// The default size for words: five in a row rarely agree by chance in prose.
    pub const SIZE_WORDS: usize = 5;
    /// The default size for characters: nine suit documents as large as a paper (Leskovec, Rajaraman, Ullman,
    /// *Mining of Massive Datasets*, section 3.2.2).
    pub const SIZE_CHARS: usize = 9;
}

impl Default for Shingle {
    fn default() -> Self {
        Self {
            normalize: vec!["lowercase".into(), "collapse-whitespace".into()],
            unit: Unit::Word,
            words: Words::Unicode,
            size: None,
            separator: " ".into(),
            hash: ShingleHash::Xxh3,
            min_words: 0,
            short: Short::Reject,
        }
    }
}

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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
    /// `linear`: a CSV file of this machine with the a and b of each permutation, a line `a,b` each, instead of those that
    /// are drawn from `seed`; it is read when the job is. So signatures can be those of another program.
    pub coefficients: Option<String>,
}

impl Default for Minhash {
    fn default() -> Self {
        Self { permutations: 128, seed: 42, family: Family::MultiplyShift, modulus: None, coefficients: None }
    }
}

/// How a permutation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Says what is allowed where an untagged enum would name no key.
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
    /// What turns a band into a bucket: `xxh3` or `crc32`.
    pub bucket_hash: BucketHash,
    /// Buckets of one table that all bands share; without it each band has buckets of its own, without number.
    pub table_size: Option<u64>,
    /// Documents in a bucket, at most, for every two of them to be candidates. Default: [`Lsh::HOT_BUCKET`].
    pub hot_bucket: Option<u64>,
}

impl Lsh {
    /// Half a bucket's documents against one: from here on, the detour by the prefixes is shorter.
    pub const HOT_BUCKET: u64 = 256;
}

/// A rule that finds bands and rows for the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

/// `[candidates]`: how candidates are found.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Candidates {
    /// `lsh`, `prefix` or `all`.
    pub method: Method,
    /// Which documents are compared, by `source.group`: `all`, those of one group (`within`) or of two groups (`across`).
    pub compare: Compare,
}

impl Default for Candidates {
    fn default() -> Self {
        Self { method: Method::Lsh, compare: Compare::All }
    }
}

/// `[against]`: documents that are known already, which those of the source are compared with: of finished outputs, or of a
/// second source.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Folder or URL prefix of a finished output, or a list of them in the order in which they were made: their documents are
    /// known. They were made with the same `[shingle]` and `[minhash]`. Either this or `source` is required.
    pub output: Option<Names>,
    /// `[against.source]`, with the keys of `[source]` but for `columns`: a second dataset, whose documents are known. An id may be
    /// in both.
    pub source: Option<Source>,
    /// Which documents are paired: `new-old+new-new`, or `new-old` alone. Two known documents never are.
    #[serde(default)]
    pub pairs: NewPairs,
    /// What becomes of a document whose id is known already: `error` ends the run, `replace` lets it take the known document's
    /// place, `skip` puts it into `rejects`. Only with `output`. Default: `error`.
    pub same_id: Option<SameId>,
}

/// `[score]`: what makes a candidate a pair.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Score {
    /// The least similarity of a pair, in (0, 1].
    pub threshold: f64,
    /// How two shingle sets are measured: `jaccard` (shared shingles over all shingles of both) or `containment` (shared shingles
    /// over those of the smaller set), which needs a method that finds all pairs: `prefix` or `all`.
    pub measure: Measure,
    /// Which similarity the threshold is for: `shingles` (exact) or `signature` (estimate).
    pub by: ScoreBy,
    /// Whether a candidate whose estimate is under the threshold is dropped before the exact score.
    pub prefilter: bool,
}

impl Default for Score {
    fn default() -> Self {
        Self { threshold: 0.8, measure: Measure::Jaccard, by: ScoreBy::Shingles, prefilter: false }
    }
}

/// `[clusters]`: what a cluster is, and which of its documents represents it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clusters {
    /// What makes documents a cluster. `components` (default): pairs connect them, so that a chain of pairs may join documents which
    /// are not alike. `representative`: each is paired with the document that represents them. These are chosen one after the other
    /// in the order of `keep`: a document that is paired with one before it goes to the first such, and any other stays.
    pub method: ClusterMethod,
    /// What decides which document represents a cluster, the first that tells two documents apart: `"COLUMN"` or `"COLUMN asc"` (the smallest value first), `"COLUMN
    /// desc"`, or `"COLUMN in (A, B)"` (A before B before all others). A column is one of `source.columns`, or `length` (the number
    /// of shingles), `group`, `source` (the file) or `id`. No value comes last, and the smallest id decides in the end. Default:
    /// `["length desc"]`.
    pub keep: Vec<String>,
}

/// `[alarms]`: what somebody should look at before copies are removed. Nothing here changes a row.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alarms {
    /// The largest share of the documents that may go, in \[0, 1\]: all of a cluster but the one that represents it. Default: any.
    pub removed_share: Option<f64>,
    /// The largest number of documents of a cluster. Default: any.
    pub largest_cluster: Option<u64>,
    /// `group`: the bounds hold for each group by itself. Default: for all documents together.
    pub per: Option<Per>,
    /// Whether a run or `apply` that passes a bound ends with exit code 6, and not with a warning: `apply` before it writes anything.
    pub fail: bool,
}

/// `[output]`: where the tables go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Folder or URL prefix of the tables. Required.
    pub url: String,
    /// How groups of identical documents are written: `all` pairs, or `star`, the smallest id with each other one.
    #[serde(default = "Output::expand")]
    pub expand: Expand,
    /// Under `all`, groups of more identical documents than this are written as stars. And under `expand = "all"` and
    /// `"star"` alike: where more documents than this share one of their rarest shingles, as pages that are nearly all
    /// header do, each is paired with a leader instead of all others. 0: all pairs are written, however many.
    #[serde(default = "Output::max_expand")]
    pub max_expand: u64,
    /// What the table documents keeps of each sketch: `signatures`, `shingles` (and signatures), or `none`.
    #[serde(default)]
    pub keep: Keep,
    /// A run that would write more pairs than this ends with exit code 4 before it does, and says what to do.
    #[serde(default = "Output::max_pairs")]
    pub max_pairs: u64,
    /// Whether `pairs` gets the longest passage that the two texts have in common, as it stands in each: the columns `passage_a` and
    /// `passage_b`. The texts of pairs are read again for it.
    #[serde(default)]
    pub passages: bool,
    /// What the folders of the tables are: `parquet` files, or `delta` tables of the same files.
    #[serde(default)]
    pub tables: Tables,
}

// As for the source: `url` is required, so the defaults stand one by one.
impl Output {
    fn expand() -> Expand {
        Expand::All
    }
    fn max_expand() -> u64 {
        1000
    }
    /// The default, which a job read from an older output has too.
    pub(super) fn max_pairs() -> u64 {
        1_000_000_000
    }
}

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Engine {
    /// Where the stages run: `local` or `cluster`.
    pub mode: Mode,
    /// The cluster's scheduler, as `df://host:50050`. Required for mode `cluster`.
    pub scheduler: Option<String>,
    /// Cluster: seconds in which no task of a step ends or advances before the step is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Cluster: seconds that one attempt of a step may take; 0 is any number.
    pub deadline_seconds: u64,
    /// Cluster: attempts of a step before the run gives up.
    pub attempts: u32,
    /// Cluster: seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
    /// What the stages may hold in memory at once, as `4GiB` or `500MB`; past it they spill to disk.
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
            memory: "4GiB".into(),
            threads: 0,
            spill: None,
        }
    }
}

/// Where the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In this process.
    Local,
    /// On the executors of a scheduler.
    Cluster,
}

/// One string, or a list of strings. Which of the two was written is kept, because it matters for `source.id`.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Says "a string or a list of strings" where an untagged enum would say that no variant fits.
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
