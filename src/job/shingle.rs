//! `[shingle]`: the settings for cutting a text into a set of shingles.

use schemars::JsonSchema;
use serde::Deserialize;

use super::score::{Score, ScoreBy};
use super::values::{Checked, read_setting, require, wrong};
use crate::error::{Error, Result};
use crate::kernel::shingle::{MAX_SHINGLE_SIZE, Normalize, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::normalize::stop_words::{FILE, STEP, list};

/// The maximum size of a list of stop words, in bytes. Every task of a run receives the list.
const MAX_BYTES: u64 = 1 << 20;

/// `[shingle]`: the settings for cutting a text into a set of shingles.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShingleSection {
    /// Steps that normalise the text first, in this order: `lowercase`, `letters-only`, `remove-non-letters`, `remove-newlines`,
    /// `collapse-whitespace`, `collapse-whitespace:keep-ends`, `collapse-whitespace:spaces-only`, `collapse-whitespace:tabs-and-newlines`,
    /// `digits-out`, `stop-words:LANGUAGE` (ISO 639-1 code, or `scikit-learn-en`), `stop-words:list=WORDS` (separated by spaces),
    /// `stop-words:file=PATH` (UTF-8, one word per line; read together with the job), `spaces-to-underscores`,
    /// `spaces-to-underscores:spaces-only` and `nfkc`. See [`Normalize`](crate::kernel::shingle::Normalize).
    pub normalize: Vec<String>,
    /// `word` or `char`.
    pub unit: Unit,
    /// The definition of a word, for shingles and for stop words: `auto`, `unicode`, `word-characters` or `spaces`.
    pub words: Words,
    /// The number of units in a shingle. Default: [`ShingleSection::SIZE_WORDS`] for words, [`ShingleSection::SIZE_CHARS`] for characters.
    pub size: Option<usize>,
    /// The separator between the words of a shingle when its bytes are hashed; `xxh3` needs none.
    pub separator: String,
    /// The hash that maps a shingle to a number: `xxh3` (64 bits), `crc32`, `sha256-31` or `dictionary`.
    pub hash: ShingleHash,
    /// The minimum number of words in a document. Documents with fewer words are rejected; 0 rejects none.
    pub min_words: usize,
    /// The treatment of a document that has fewer words, or characters, than `size`. `whole` makes the document one shingle, `reject` puts
    /// it into the table `rejects`, and `empty` gives it no shingle. With `empty`, all such documents have the same signature. `empty`
    /// needs `score.by = "signature"`, and cannot be combined with `min_words` or the hash `dictionary`.
    pub short: Short,
    /// Shingles that occur in more than this share of the documents are removed from all sets. They come from a template, such as
    /// navigation, licences or mail signatures. With `source.group`, the share in any group counts. Shingles in at most 10 documents always
    /// count. A document without other shingles is rejected as `only_template`. The share is greater than 0 and less than 1, such as 0.001.
    /// Default: all shingles count.
    pub max_frequency: Option<f64>,
}

impl ShingleSection {
    /// The default size for words. In prose, five consecutive words rarely agree by chance.
    pub const SIZE_WORDS: usize = 5;
    /// The default size for characters. Nine characters suit documents as long as a paper (Leskovec, Rajaraman, Ullman, *Mining of Massive
    /// Datasets*, section 3.2.2).
    pub const SIZE_CHARS: usize = 9;

    /// Returns the default size for a unit.
    pub(crate) const fn size_of(unit: Unit) -> usize {
        match unit {
            Unit::Word => Self::SIZE_WORDS,
            Unit::Char => Self::SIZE_CHARS,
        }
    }

    pub(super) fn resolved(self) -> Checked<Shingle> {
        let steps = self.normalize.iter().map(|name| normalize_step(name)).collect::<Result<_>>();
        let normalize = steps.or_else(|e| wrong("shingle.normalize", e.one_line()))?;
        let size = self.size.unwrap_or(Self::size_of(self.unit));
        let Self { unit, words, separator, hash, min_words, short, .. } = self;
        Ok(Shingle { normalize, unit, words, size, separator, hash, min_words, short })
    }
}

impl Default for ShingleSection {
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

/// Checks the section, and `max_frequency`, the maximum share of documents that may contain a shingle.
pub(super) fn check_shingle(shingle: &Shingle, max_frequency: Option<f64>) -> Checked<()> {
    let size = shingle.size;
    let fault = format!("is {size}: expected 1 or more, and at most {MAX_SHINGLE_SIZE}");
    require((1..=MAX_SHINGLE_SIZE).contains(&size), "shingle.size", fault)?;
    let Some(share) = max_frequency else { return Ok(()) };
    const KEY: &str = "shingle.max_frequency";
    // The comparison also fails for NaN.
    let fault = format!("is {share}: expected a number over 0 and under 1, such as 0.001");
    require(share > 0.0 && share < 1.0, KEY, fault)?;
    require(
        shingle.hash != ShingleHash::Dictionary,
        KEY,
        "is set, and does not work with shingle.hash = \"dictionary\", which numbers all shingles: expected another hash",
    )?;
    require(
        shingle.short != Short::Empty,
        KEY,
        "is set, and rejects documents without other shingles, but shingle.short = \"empty\" keeps all documents: expected \
         \"reject\" or \"whole\"",
    )
}

/// Refuses the value `empty` of `shingle.short` if the job cannot compare documents without shingles.
pub(super) fn check_short(shingle: &Shingle, score: &Score) -> Checked<()> {
    const KEY: &str = "shingle.short";
    if shingle.short != Short::Empty {
        return Ok(());
    }
    require(
        score.by == ScoreBy::Signature,
        KEY,
        "is \"empty\", but documents without shingles can only be compared by their signatures: set score.by = \
         \"signature\"",
    )?;
    require(
        shingle.min_words == 0,
        KEY,
        "is \"empty\", which keeps short documents, but `shingle.min_words` rejects them: remove one of the two",
    )?;
    require(
        shingle.hash != ShingleHash::Dictionary,
        KEY,
        "is \"empty\", which does not work with shingle.hash = \"dictionary\": expected another hash, or \
         \"reject\" or \"whole\"",
    )
}

/// Parses a step, and reads the file of stop words that it names. Fails with `Kind::Job` if the step is unknown or the file is invalid.
fn normalize_step(name: &str) -> Result<Normalize> {
    match name.strip_prefix(STEP).and_then(|list| list.strip_prefix(FILE)) {
        Some(path) => read(path).map(Normalize::StopWordList),
        None => name.parse().map_err(|e| Error::job(format!("has a wrong step: {e}"))),
    }
}

/// Reads a list of words from a local UTF-8 file with one word per line. Ignores empty lines. Fails with `Kind::Job`.
fn read(path: &str) -> Result<String> {
    const WHAT: &str = "a file of stop words that";
    let wrong = |fault: &str| Error::job(format!("names {path:?}, {WHAT} {fault}"));
    if path.is_empty() {
        return Err(Error::job(format!("names no file: expected a path behind {STEP}{FILE}")));
    }
    let text = read_setting(path, WHAT, MAX_BYTES, "convert it")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut of_line = line.split_whitespace();
        words.extend(of_line.next());
        if of_line.next().is_some() {
            return Err(wrong(&format!("has several words in line {number}: expected one per line")));
        }
    }
    list(words.into_iter()).map_err(|e| wrong(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only job files can name files. Other parsers of steps can run on machines without the file.
    #[test]
    fn only_job_files_read_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "the\na\n").unwrap();
        let name = format!("stop-words:file={}", file.path().display());
        assert_eq!(normalize_step(&name).unwrap(), Normalize::StopWordList("a the".into()));
        let error = name.parse::<Normalize>().unwrap_err().to_string();
        assert!(error.contains("shingle.normalize") && error.contains("stop-words:list="), "{error}");
    }

    #[test]
    fn a_file_has_one_word_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_string_lossy().into_owned()
        };
        assert_eq!(read(&file("good", b"\xEF\xBB\xBFthe\r\n\n An \nthe\n")).unwrap(), "an the");
        for (path, fault) in [
            (file("empty", b"\n \n"), "holds no words"),
            (file("latin", b"caf\xE9\n"), "is not UTF-8"),
            (file("two", b"the\nof the\n"), "line 2"),
            (file("comma", b"the\na,b\n"), "comma"),
            (file("large", &vec![b'a'; 1 + MAX_BYTES as usize]), "larger than"),
            (folder.path().join("missing").to_string_lossy().into_owned(), "cannot be read"),
        ] {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("{path:?}")) && error.contains(fault), "{error}");
        }
        assert!(read("").unwrap_err().to_string().contains("stop-words:file="));
    }
}
