//! The job: what is read, how it is cut, hashed, banded and scored, and where the tables go.
//!
//! [`mod@file`] is the TOML file and nothing else; [`resolve()`] makes of it a [`Job`] that cannot be invalid.
//! Stages take the section that bears their name.

pub mod choose;
mod coefficients;
pub mod curve;
mod document;
mod draft;
mod encoding;
pub mod file;
mod fingerprint;
mod normalize;
mod preference;
mod prime;
mod resolve;
mod setting_file;
mod size;
pub(crate) mod stop_words;

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::coefficients::Coefficients;
pub use self::draft::Draft;
pub use self::encoding::Encoding;
pub use self::fingerprint::{FORMAT_VERSION, fingerprint};
pub use self::preference::{Prefer, Preference};
pub use self::prime::is_prime;
pub(crate) use self::prime::next_prime;
#[cfg(test)]
pub(crate) use self::resolve::DOCUMENTS_COLUMNS;
pub use self::resolve::resolve;
pub(crate) use self::resolve::{MAX_PERMUTATIONS, MAX_SHINGLE_SIZE, MAX_THREADS};
pub(crate) use self::size::parse_size;
use crate::error::{Error, Result};

/// A resolved job: every default filled in, every rule checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What the run calls itself in logs and in the manifest.
    pub name: String,
    /// Where the documents are.
    pub source: Source,
    /// The finished output whose sketches are used again: its job read `source`, cut and hashed as this one says. None where
    /// the texts are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// The finished outputs that are merged into one, in the order in which they were made. None where documents are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Vec<String>>,
    /// How a text becomes a set of shingles.
    pub shingle: Shingle,
    /// How a set of shingles becomes a signature.
    pub minhash: Minhash,
    /// How a signature becomes buckets.
    pub lsh: Lsh,
    /// How candidates are found.
    pub candidates: Candidates,
    /// The documents that are known already, which those of the source are compared with; none where they are compared with
    /// each other alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// What makes a candidate a pair.
    pub score: Score,
    /// Which document of a cluster represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// What somebody should look at before copies are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// Where the tables go.
    pub output: Output,
    /// What runs it. Nothing here changes a row of the result.
    pub engine: Engine,
}

impl Job {
    /// Which documents are paired, where some are known already.
    pub(crate) fn new_pairs(&self) -> Option<NewPairs> {
        self.against.as_ref().map(|against| against.pairs)
    }

    /// What becomes of a document whose id is known, where some are known from earlier runs.
    pub(crate) fn same_id(&self) -> Option<SameId> {
        self.against.as_ref().filter(|against| against.source.is_none()).map(|against| against.same_id)
    }

    /// The second source, whose documents are known, where there is one.
    pub(crate) fn known_source(&self) -> Option<&Source> {
        self.against.as_ref()?.source.as_ref()
    }

    /// The columns that the tables have.
    pub(crate) fn columns(&self) -> Columns {
        let Output { keep, passages, .. } = self.output;
        Columns { keep, passages, groups: self.has_groups() }
    }

    /// Whether documents are of groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.source.group.is_some() || self.known_source().is_some_and(|known| known.group.is_some())
    }

    /// Whether the run goes on from earlier ones.
    pub(crate) fn goes_on(&self) -> bool {
        self.against.as_ref().is_some_and(|against| against.source.is_none())
    }

    /// The job that would read the second source `known` alone, and cut its texts as this one does.
    pub(crate) fn of_known_source(&self, known: &Source) -> Job {
        Job { source: known.clone(), against: None, ..self.clone() }
    }

    /// The job that merges `outputs`, of which the last one was made by `last`, into the one at `url`.
    pub fn of_merge(outputs: Vec<String>, last: &Job, url: &str) -> Job {
        // No text is read for a merge.
        let output = Output { url: url.to_owned(), passages: false, ..last.output.clone() };
        Job { name: "merge".into(), reuse: None, merge: Some(outputs), against: None, output, ..last.clone() }
    }
}

/// A finished output whose sketches are used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Its folder or URL prefix.
    pub output: String,
    /// Whether it keeps shingles, so that no text is read again.
    pub keeps_shingles: bool,
}

/// `[source]`: where the documents are and which columns are theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The format of the files.
    pub format: Format,
    /// How the bytes of the files stand for characters; Parquet has its own answer.
    #[serde(default)]
    pub encoding: Encoding,
    /// Files, folders, globs or URLs; at least one.
    pub urls: Vec<String>,
    /// What identifies a document.
    pub id: Id,
    /// What stands between the parts of an id of several columns.
    pub id_separator: String,
    /// The columns that hold the text, joined by a newline; at least one.
    pub text: Vec<String>,
    /// The columns that go into the table `documents` as they are.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The one of these that says which group a document is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What happens when an id comes twice.
    pub duplicate_ids: DuplicateIds,
    /// What happens to a row of a CSV or JSON lines file that cannot be read.
    #[serde(default)]
    pub on_error: OnError,
    /// How CSV files are written; other formats pass it over.
    pub csv: Csv,
    /// What becomes of the character references of Reuters stories; other formats have none.
    #[serde(default)]
    pub references: References,
}

/// What becomes of the character references in SGML, such as `&lt;`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum References {
    /// Each becomes the character that it stands for.
    #[default]
    Decode,
    /// They stay as they are written.
    Keep,
}

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The Reuters-21578 collection's SGML.
    Reuters,
    /// Delimited text, also compressed by gzip or zstd.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// One JSON object a line, also compressed by gzip or zstd.
    Jsonl,
    /// One document per file.
    Text,
}

/// What identifies a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Id {
    /// The values of these columns, joined by `id_separator`. One Parquet column of integers gives ids that are numbers.
    Columns(Vec<String>),
    /// The row's number in its file, counted from 0; with several files `path:row`.
    RowNumber,
    /// The file's path relative to the source's folder. Only for [`Format::Text`].
    Path,
}

/// What happens when an id comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DuplicateIds {
    /// The run ends with an error that names them.
    Error,
    /// The first in order of (file, row) that can be compared stays, the others go to `rejects`.
    Reject,
}

/// What happens to a row of a CSV or JSON lines file that cannot be read: a record with other fields than the others, a line
/// that is not a JSON object, an id of another type, bytes that are not UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The run ends with an error that names the file and the line.
    #[default]
    Error,
    /// The row goes to `rejects`.
    Reject,
}

/// How CSV files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Csv {
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether the first line names the columns; without it they are `column_1`, `column_2`, ...
    pub header: bool,
    /// The byte around fields that hold delimiters, quotes or newlines.
    pub quote: u8,
}

/// `[shingle]`: how a text becomes a set of shingles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shingle {
    /// The steps that the text goes through first, in this order.
    pub normalize: Vec<Normalize>,
    /// What a shingle is made of.
    pub unit: Unit,
    /// What a word is.
    pub words: Words,
    /// Units in a shingle, at least 1.
    pub size: usize,
    /// What stands between the words of a shingle when its bytes are hashed.
    pub separator: String,
    /// What turns a shingle into a number.
    pub hash: ShingleHash,
    /// Documents of fewer words than this are rejected; 0 rejects none.
    pub min_words: usize,
    /// What becomes of a document of fewer units than `size`.
    #[serde(default)]
    pub short: Short,
}

/// What becomes of a document of fewer units than one shingle has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// It goes to `rejects` as `too_short`.
    #[default]
    Reject,
    /// All of its text is its one shingle.
    Whole,
    /// It has no shingle, and every value of its signature is 2^32 - 1: by their signatures all such documents are alike, also
    /// those of which normalisation leaves nothing. Only where pairs are kept by their signatures.
    Empty,
}

/// A step of text normalisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Normalize {
    /// Unicode lower case.
    Lowercase,
    /// Every run of characters that are not alphabetic becomes one space.
    LettersOnly,
    /// Characters that are neither alphabetic nor white space leave, and nothing comes in their place: "don't" becomes "dont".
    RemoveNonLetters,
    /// The characters that end lines, `\n` and `\r`, leave, and nothing comes in their place.
    RemoveNewlines,
    /// Every run of white space becomes one space, none at the ends.
    CollapseWhitespace,
    /// Every run of white space becomes one space, also at the ends.
    CollapseWhitespaceKeepEnds,
    /// Every run of spaces (U+0020) becomes one space, also at the ends; other white space stays.
    CollapseSpaces,
    /// Words made of digits alone leave.
    DigitsOut,
    /// The stop words of a list that has a name leave: of a language (ISO 639-1 code), or `scikit-learn-en`.
    StopWords(String),
    /// These stop words leave: lower-cased, sorted and each once, with a space between every two.
    StopWordList(String),
    /// Every white-space character becomes an underscore.
    SpacesToUnderscores,
    /// Every space (U+0020) becomes an underscore; other white space stays.
    OnlySpacesToUnderscores,
    /// Unicode compatibility composition (NFKC).
    Nfkc,
}

/// What a shingle is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Words, as [`Words`] has them.
    Word,
    /// Unicode scalar values.
    Char,
}

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// What stands between Unicode word boundaries and holds a letter or a number (UAX #29): "can't" is one word.
    Unicode,
    /// As [`Words::Unicode`], but runs of Chinese, Japanese, Thai, Lao, Khmer and Burmese are divided by dictionaries, since
    /// they are written without spaces between words.
    Dictionary,
    /// A run of letters, numbers and underscores, as the regular expression `\b\w+\b` finds it: "can't" is two words.
    WordCharacters,
    /// A run of whatever is not white space: "can't," is one word, with its comma.
    Spaces,
}

/// What turns a shingle into a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShingleHash {
    /// XXH3, 64 bits: see [`crate::udf::expr_fn::shingles`].
    Xxh3,
    /// CRC-32 (IEEE) of the shingle's UTF-8 bytes, words joined by the separator.
    Crc32,
    /// SHA-256 of the same bytes, as a big-endian number modulo 2^31 - 1.
    #[serde(rename = "sha256-31")]
    Sha256Mod31,
    /// The shingle's number among all distinct shingles of the collection, from 1: no two share one.
    Dictionary,
}

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minhash {
    /// Permutations, which is the signature's length; at least 1.
    pub permutations: usize,
    /// What the permutations are drawn from.
    pub seed: u64,
    /// How a permutation is computed.
    pub family: Family,
    /// The a and b of each permutation of the linear family, instead of those that are drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<Vec<Coefficients>>,
}

impl Minhash {
    /// The modulus of the linear family and the number up to which its factors are drawn, for a collection of
    /// `dictionary` distinct shingles; none for another family.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where the modulus depends on the dictionary, and that has fewer entries
    /// than there are permutations, or so many that their next prime is not under 2^32.
    pub fn linear(&self, dictionary: Option<u64>) -> Result<Option<(u64, u64)>> {
        let shingles = match self.family {
            Family::MultiplyShift | Family::OnePermutation => return Ok(None),
            Family::Linear(Modulus::Is(modulus)) => return Ok(Some((modulus, modulus - 1))),
            Family::Linear(Modulus::NextPrime) => dictionary.unwrap_or(0),
        };
        // In this order: the search for a prime above numbers that are far too large would take for ever.
        let modulus = if shingles < 1 << 32 { next_prime(shingles) } else { shingles };
        if shingles < self.permutations as u64 || modulus >= 1 << 32 {
            return Err(Error::job(format!(
                "`minhash.modulus` is \"next-prime\" and the collection has {shingles} distinct shingles: expected at \
                 least {}, as `minhash.permutations` says, and fewer than 2^32; \"2^31-1\" suits collections of any \
                 size",
                self.permutations
            )));
        }
        // Other moduli are known when the job is resolved.
        let fault = |of: &Vec<Coefficients>| coefficients::fault(of, self.permutations, Some(modulus));
        if let Some(fault) = self.coefficients.as_ref().and_then(fault) {
            return Err(Error::job(format!("`minhash.coefficients` {fault}; the modulus is {modulus}")));
        }
        Ok(Some((modulus, shingles)))
    }
}

/// How a permutation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `(a * x + b) mod 2^32`, a odd: see [`crate::udf::expr_fn::minhash`].
    MultiplyShift,
    /// `(a * x + b) mod c`: see [`crate::udf::expr_fn::minhash`].
    Linear(Modulus),
    /// One hash of each shingle for all permutations, which become bins: see [`crate::udf::expr_fn::one_permutation`].
    OnePermutation,
}

/// The c of `(a * x + b) mod c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modulus {
    /// This number, in [2, 2^32); a and b are drawn from 1 to c - 1.
    Is(u64),
    /// The first prime above the number N of distinct shingles of the collection; a and b are drawn from 1 to N.
    NextPrime,
}

/// `[lsh]`: how a signature becomes buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lsh {
    /// Bands, b; `bands * rows <= permutations`.
    pub bands: usize,
    /// Rows in a band, r.
    pub rows: usize,
    /// How b and r came about.
    pub choice: Choice,
    /// What turns a band into a bucket.
    pub bucket_hash: BucketHash,
    /// Buckets of the one table that all bands share, at least 1; `None` if each band has buckets of its own.
    pub table_size: Option<u64>,
    /// Documents in a bucket, at most, for every two of them to be candidates; those of larger buckets are joined as by
    /// [`Method::Prefix`], which makes candidates of all of them that are similar enough; of those in groups that are larger
    /// than [`Output::max_expand`], with a leader.
    pub hot_bucket: u64,
}

/// What turns a band's values into a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BucketHash {
    /// XXH3, 64 bits, seeded by the band's number.
    #[default]
    Xxh3,
    /// CRC-32 (IEEE) of the values in decimal, joined by `_`.
    Crc32,
}

/// How b and r came about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Given in the job.
    Given,
    /// `b * r = permutations`, (1/b)^(1/r) nearest the threshold.
    Nearest,
    /// The least area of false positives and false negatives under the S-curve.
    Balanced,
    /// `b * r = permutations`, (1/b)^(1/r) at or just under the threshold.
    Recall,
    /// `b * r = permutations`, (1/b)^(1/r) at or just over the threshold.
    Precision,
    /// The largest r, then the fewest b, whose recall at the threshold reaches this share.
    TargetRecall(f64),
}

/// `[candidates]`: how candidates are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidates {
    /// The method.
    pub method: Method,
    /// Which documents are compared, by their groups.
    #[serde(default)]
    pub compare: Compare,
}

/// Which documents are compared, by their groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Every two.
    #[default]
    All,
    /// Two of one group.
    Within,
    /// Two of two groups.
    Across,
}

/// How candidates are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two documents that share a bucket.
    Lsh,
    /// Every two documents: exact, and quadratic.
    All,
    /// Two documents that share one of their rarest shingles, which all similar ones do: exact.
    Prefix,
}

/// `[against]`: the documents that are known already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The finished outputs that hold them, in the order in which they were made; none where a second source holds them.
    pub outputs: Vec<String>,
    /// The second source that holds them, if outputs do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Which documents are paired.
    pub pairs: NewPairs,
    /// What becomes of a document whose id is known already.
    pub same_id: SameId,
}

/// Which documents are paired where some are known already. Two known documents never are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewPairs {
    /// A new one with a known one, and two new ones.
    #[default]
    #[serde(rename = "new-old+new-new")]
    WithEachOther,
    /// A new one with a known one.
    #[serde(rename = "new-old")]
    WithKnown,
}

/// What becomes of a document whose id is known already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameId {
    /// The run ends with an error that names it.
    #[default]
    Error,
    /// It takes the place of the known document.
    Replace,
    /// It goes to `rejects` as `known_id`.
    Skip,
}

/// `[score]`: what makes a candidate a pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The least similarity of a pair, in (0, 1].
    pub threshold: f64,
    /// Whether it is a Jaccard similarity or a containment.
    #[serde(default)]
    pub measure: Measure,
    /// Which similarity the threshold is for.
    pub by: ScoreBy,
    /// Whether a candidate whose estimate is under the threshold is dropped before the exact score.
    pub prefilter: bool,
}

/// How two shingle sets are measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// By what they share of all shingles of both: the Jaccard similarity.
    #[default]
    Jaccard,
    /// By the share of the smaller set that the larger one holds: 1 for a passage beside the document that it is from.
    Containment,
}

impl Measure {
    /// What is measured, as a sentence names it.
    pub fn noun(self) -> &'static str {
        match self {
            Measure::Jaccard => "similarity",
            Measure::Containment => "containment",
        }
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Measure::Jaccard => "jaccard",
            Measure::Containment => "containment",
        })
    }
}

/// Which similarity the threshold is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreBy {
    /// The exact Jaccard similarity of the shingle sets.
    Shingles,
    /// The share of equal values in the two signatures.
    Signature,
}

/// `[output]`: where the tables go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The folder or URL prefix of the tables.
    pub url: String,
    /// How groups of identical documents are written.
    pub expand: Expand,
    /// Under [`Expand::All`], groups of more identical documents than this are written as stars; and where more documents
    /// than this share one of their rarest shingles, each is paired with a leader instead of all others. 0 is no limit.
    pub max_expand: u64,
    /// What `documents` keeps of each sketch.
    pub keep: Keep,
    /// A run that would write more pairs than this ends before it does.
    #[serde(default = "file::Output::max_pairs")]
    pub max_pairs: u64,
    /// Whether `pairs` has the longest common passages.
    #[serde(default)]
    pub passages: bool,
    /// What the tables are besides Parquet files.
    #[serde(default)]
    pub tables: Tables,
}

impl Output {
    /// Documents of a group, at most, for all of its pairs to be written; none for any number.
    pub fn most_expanded(&self) -> Option<u64> {
        (self.max_expand > 0).then_some(self.max_expand)
    }
}

/// Which columns the tables of an output have, beside those that all outputs have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns {
    /// What `documents` keeps of the sketches.
    pub keep: Keep,
    /// Whether `pairs` has passages.
    pub passages: bool,
    /// Whether `pairs` and `clusters` tell of groups.
    pub groups: bool,
}

/// What the table `documents` keeps of the sketches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Signatures, by which neighbors are found. Shingles, if needed, are cut from the source again.
    #[default]
    Signatures,
    /// Signatures and shingles. A run then reads the texts once.
    Shingles,
    /// Neither.
    None,
}

impl Keep {
    /// Whether signatures are kept.
    pub fn signatures(self) -> bool {
        self != Keep::None
    }

    /// Whether shingles are kept.
    pub fn shingles(self) -> bool {
        self == Keep::Shingles
    }
}

/// Which document of a cluster represents it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    /// What decides it, the first that tells two documents apart; by default, that it has the most shingles. In the end the smallest
    /// id decides.
    pub keep: Vec<Preference>,
}

/// What somebody should look at before copies are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Alarms {
    /// The largest share of the documents that may go, in \[0, 1\]; none is any.
    pub removed_share: Option<f64>,
    /// The largest number of documents of a cluster; none is any.
    pub largest_cluster: Option<u64>,
    /// What the bounds hold for; none is all documents together.
    pub per: Option<Per>,
    /// Whether a run or `apply` that passes a bound ends with exit code 6.
    pub fail: bool,
}

/// What the bounds of alarms hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each group by itself.
    Group,
}

/// What the folders of the tables are. The Parquet files are the same either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tables {
    /// Folders of Parquet files, which the manifest names.
    #[default]
    Parquet,
    /// Delta tables too: each folder has a log that names the same files.
    Delta,
}

/// How groups of documents with the same shingle set are written to `pairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expand {
    /// Every pair of the group.
    All,
    /// The smallest id with each of the others.
    Star,
}

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Bytes that the stages may hold at once; past it they spill.
    pub memory: u64,
    /// Threads, at most `MAX_THREADS`; 0 is one for each core.
    pub threads: usize,
    /// Where spills go; none is the system's folder for temporary files.
    pub spill: Option<String>,
    /// The cluster that runs the stages; none is this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

impl Engine {
    /// This process, with `memory` bytes and a thread for each core.
    pub fn local(memory: u64) -> Self {
        Self { memory, threads: 0, spill: None, cluster: None }
    }
}

/// A cluster, and how long to be patient with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The scheduler's `host:port`.
    pub scheduler: String,
    /// Seconds that a step may stand still before it is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Seconds that one attempt of a step may take; 0 is any number.
    pub deadline_seconds: u64,
    /// Attempts of a step, at least 1.
    pub attempts: u32,
    /// Seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
}

/// One file of the input, as it was when the run listed it. Part of the run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// The file's URL or path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// What its object store calls its content; none for files on disks, where a copy of a file would have another.
    pub e_tag: Option<String>,
}
