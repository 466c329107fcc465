//! A job file becomes a job that cannot be invalid.

use super::file::{self, Choose, File, Names};
use super::{
    Candidates, Choice, Cluster, Coefficients, Csv, Encoding, Engine, Family, Format, Id, Job, Lsh, Measure,
    Method, Minhash, Modulus, Normalize, Output, Score, ScoreBy, Shingle, ShingleHash, Short, Source, Unit,
    choose, coefficients, is_prime, parse_size,
};
use crate::address;
use crate::error::{Error, Result};

/// The most permutations: the column `shared_bands` counts up to this many bands.
pub(crate) const MAX_PERMUTATIONS: usize = u16::MAX as usize;
/// The most words or characters in a shingle: a text with fewer has no shingle at all.
pub(crate) const MAX_SHINGLE_SIZE: usize = 1_000_000;
/// The most threads. Each step makes that many partitions, and a shuffle a queue for every two of them.
pub(crate) const MAX_THREADS: usize = 1_024;
/// The longest that a cluster can be waited for: a year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

impl Job {
    /// Holds a job that was read back, as from the manifest of an output, against the rules for job files: anybody may have
    /// written it. What was read and where it went is not looked at.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
    pub fn check(&self) -> Result<()> {
        checked(self).map_err(|Wrong { key, said }| Error::job(format!("`{key}` {said}")))
    }
}

/// Writes the sections as a job file would have them, and resolves them again.
fn checked(job: &Job) -> Checked<()> {
    let Job { name: _, source: _, reuse: _, shingle, minhash, lsh, candidates, score, output: _, engine: _ } =
        job;
    shingle_of(file::Shingle {
        normalize: shingle.normalize.iter().map(Normalize::to_string).collect(),
        unit: shingle.unit,
        words: shingle.words,
        size: Some(shingle.size),
        separator: shingle.separator.clone(),
        hash: shingle.hash,
        min_words: shingle.min_words,
        short: shingle.short,
    })?;
    let (family, modulus) = match minhash.family {
        Family::MultiplyShift => (file::Family::MultiplyShift, None),
        Family::OnePermutation => (file::Family::OnePermutation, None),
        Family::Linear(modulus) => {
            let modulus = match modulus {
                Modulus::Is(MERSENNE_31) => file::Modulus::Name("2^31-1".into()),
                Modulus::Is(ONES_32) => file::Modulus::Name("2^32-1".into()),
                Modulus::Is(number) => file::Modulus::Number(i64::try_from(number).unwrap_or(i64::MAX)),
                Modulus::NextPrime => file::Modulus::Name("next-prime".into()),
            };
            (file::Family::Linear, Some(modulus))
        }
    };
    let Minhash { permutations, seed, ref coefficients, .. } = *minhash;
    // The coefficients were read when the job was resolved, and are looked at as they are.
    let resolved =
        minhash_of(file::Minhash { permutations, seed, family, modulus, coefficients: None }, shingle.hash)?;
    coefficients_of(coefficients.as_deref(), permutations, resolved.family)?;
    let Score { threshold, measure, by, prefilter } = *score;
    score_of(&file::Score { threshold, measure, by, prefilter }, candidates.method)?;
    short_of(shingle, score)?;
    let lsh = file::Lsh {
        bands: Some(lsh.bands),
        rows: Some(lsh.rows),
        choose: None,
        target_recall: None,
        bucket_hash: lsh.bucket_hash,
        table_size: lsh.table_size,
        hot_bucket: Some(lsh.hot_bucket),
    };
    lsh_of(&lsh, permutations, score.threshold, candidates.method)?;
    Ok(())
}

/// The job that `file` describes: defaults filled in, every rule checked, bands and rows chosen.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
pub fn resolve(file: File) -> Result<Job> {
    job(file, None).map_err(|Wrong { key, said }| Error::job(format!("`{key}` {said}")))
}

/// A rule that the value of a key breaks. What is said follows the key's name.
pub(super) struct Wrong {
    pub(super) key: &'static str,
    pub(super) said: String,
}

pub(super) type Checked<T> = std::result::Result<T, Wrong>;

fn wrong<T>(key: &'static str, said: impl Into<String>) -> Checked<T> {
    Err(Wrong { key, said: said.into() })
}

/// The job that `file` describes. Where its source is a finished output, `made` is the job that made that one.
pub(super) fn job(file: File, made: Option<&Job>) -> Checked<Job> {
    let File { name, source, shingle, minhash, lsh, candidates, score, output, engine } = file;
    let reuse = reuse_of(&source, shingle.is_some(), minhash.is_some())?;
    let (source, shingle, minhash) = match (&reuse, made) {
        (None, _) => {
            let shingle = shingle_of(shingle.unwrap_or_default())?;
            let minhash = minhash_of(minhash.unwrap_or_default(), shingle.hash)?;
            (source_of(source)?, shingle, minhash)
        }
        (Some(_), Some(made)) => (made.source.clone(), made.shingle.clone(), made.minhash.clone()),
        (Some(_), None) => {
            return wrong(
                "source.format",
                "is \"output\", which `resemblance run` and `check` alone can read: expected the format of the files that hold \
                 the texts",
            );
        }
    };
    let score = score_of(&score, candidates.method)?;
    short_of(&shingle, &score)?;
    let candidates = Candidates { method: candidates.method };
    let lsh = lsh_of(&lsh, minhash.permutations, score.threshold, candidates.method)?;
    let output = output_of(output, &source)?;
    let engine = engine_of(engine)?;
    let name = name.unwrap_or_else(|| "unnamed".into());
    Ok(Job { name, source, reuse, shingle, minhash, lsh, candidates, score, output, engine })
}

/// The finished output that the source of `file` is; none where files are.
pub(super) fn reuse(file: &File) -> Checked<Option<String>> {
    reuse_of(&file.source, file.shingle.is_some(), file.minhash.is_some())
}

/// An output brings what it was made by.
fn reuse_of(source: &file::Source, shingle: bool, minhash: bool) -> Checked<Option<String>> {
    if source.format != file::Format::Output {
        return Ok(None);
    }
    let own = [
        ("shingle", shingle),
        ("minhash", minhash),
        ("source.id", source.id.is_some()),
        ("source.text", source.text.is_some()),
        ("source.columns", source.columns.is_some()),
        ("source.encoding", source.encoding.is_some()),
        ("source.references", source.references.is_some()),
    ];
    if let Some((key, _)) = own.into_iter().find(|(_, given)| *given) {
        return wrong(
            key,
            "is set, and the source is an output, which keeps what it was made by: leave it out",
        );
    }
    let urls = filled("source.url", source.url.clone(), "folder or URL prefix of an output")?;
    match <[String; 1]>::try_from(urls) {
        Ok([url]) => {
            address::check(&url).or_else(|said| wrong("source.url", said))?;
            Ok(Some(url))
        }
        Err(urls) => wrong("source.url", format!("names {} outputs: expected one", urls.len())),
    }
}

fn source_of(source: file::Source) -> Checked<Source> {
    let Some(format) = source.format.of_files() else {
        return wrong("source.format", "is \"output\", which has no files");
    };
    let urls = filled("source.url", source.url, "file, folder, glob or URL")?;
    for url in &urls {
        address::check(url).or_else(|said| wrong("source.url", said))?;
    }
    let encoding = encoding_of(format, source.encoding.as_deref())?;
    let id = match source.id {
        Some(Names::One(word)) if word == "row_number" => Id::RowNumber,
        Some(Names::One(word)) if word == "path" && format == Format::Text => Id::Path,
        Some(Names::One(word)) if word == "path" => {
            return wrong(
                "source.id",
                "is \"path\", which only works with the format text: expected a column, a list of columns ([\"path\"] \
                 is the column of that name), or \"row_number\"",
            );
        }
        Some(_) if format == Format::Text => {
            return wrong(
                "source.id",
                "names a column, but text files have none: expected \"path\" or \"row_number\"",
            );
        }
        Some(columns) => Id::Columns(filled("source.id", columns, "column")?),
        None => match format {
            Format::Reuters => Id::Columns(vec!["oldid".into()]),
            Format::Text => Id::Path,
            Format::Csv | Format::Parquet | Format::Jsonl => Id::RowNumber,
        },
    };
    let text = match (format, source.text) {
        // The one column of this format, whose rows are whole files.
        (Format::Text, text) => match text.map(Names::into_vec) {
            Some(columns) if columns != ["text"] => {
                return wrong("source.text", "names a column, but text files have none: remove the key");
            }
            _ => vec!["text".into()],
        },
        (_, Some(columns)) => filled("source.text", columns, "column")?,
        (Format::Reuters, None) => vec!["body".into()],
        (Format::Csv | Format::Parquet | Format::Jsonl, None) => {
            return wrong(
                "source.text",
                "is required but missing: the column, or the list of columns, that holds the text",
            );
        }
    };
    let columns = columns_of(format, source.columns)?;
    let csv = Csv {
        delimiter: ascii("source.delimiter", &source.delimiter)?,
        header: source.header,
        quote: ascii("source.quote", &source.quote)?,
    };
    let references = match source.references {
        Some(_) if format != Format::Reuters => {
            return wrong(
                "source.references",
                "is set, but only the format reuters has references: remove the key",
            );
        }
        references => references.unwrap_or_default(),
    };
    if csv.delimiter == csv.quote {
        return wrong("source.quote", "is the same character as `source.delimiter`");
    }
    Ok(Source {
        format,
        encoding,
        urls,
        id,
        id_separator: source.id_separator,
        text,
        columns,
        duplicate_ids: source.duplicate_ids,
        on_error: source.on_error,
        csv,
        references,
    })
}

fn encoding_of(format: Format, encoding: Option<&str>) -> Checked<Encoding> {
    const KEY: &str = "source.encoding";
    match encoding {
        None => Ok(Encoding::Utf8),
        Some(_) if format == Format::Parquet => {
            wrong(KEY, "is set, but texts in Parquet files are always UTF-8: remove the key")
        }
        Some(name) => name.parse().or_else(|e| wrong(KEY, format!("is {e}"))),
    }
}

/// The columns that `documents` carries: none bears the name of one of its own or comes twice, also not in other letters'
/// cases, which many engines do not tell apart.
fn columns_of(format: Format, columns: Option<Names>) -> Checked<Vec<String>> {
    const KEY: &str = "source.columns";
    let Some(columns) = columns else { return Ok(Vec::new()) };
    let columns = filled(KEY, columns, "column")?;
    if format == Format::Text {
        return wrong(KEY, "names a column, but text files have none: remove the key");
    }
    for (at, name) in columns.iter().enumerate() {
        let same = |other: &str| other.to_lowercase() == name.to_lowercase();
        if DOCUMENTS_COLUMNS.into_iter().any(same) {
            return wrong(
                KEY,
                format!("names `{name}`, but the table documents already has a column with this name"),
            );
        }
        if columns[..at].iter().any(|other| same(other)) {
            return wrong(
                KEY,
                format!(
                    "names `{name}` twice: expected each column once, whether its letters are large or small"
                ),
            );
        }
    }
    Ok(columns)
}

/// The columns that the table documents has of its own: those of `schemas/documents.toml`.
pub(crate) const DOCUMENTS_COLUMNS: [&str; 9] =
    ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature", "shingles"];

/// The strings of `names`, if there is one at least and none is empty.
fn filled(key: &'static str, names: Names, noun: &str) -> Checked<Vec<String>> {
    let names = names.into_vec();
    if names.is_empty() || names.iter().any(|name| name.trim().is_empty()) {
        return wrong(key, format!("is empty: expected a {noun}, or a list of them"));
    }
    Ok(names)
}

/// The byte of a string of one ASCII character that does not end a line.
fn ascii(key: &'static str, text: &str) -> Checked<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => wrong(key, format!("is {text:?}: expected one ASCII character, as in \",\" or \"\\t\"")),
    }
}

fn shingle_of(shingle: file::Shingle) -> Checked<Shingle> {
    let mut normalize = Vec::with_capacity(shingle.normalize.len());
    for name in &shingle.normalize {
        match Normalize::read(name) {
            Ok(step) => normalize.push(step),
            Err(e) => return wrong("shingle.normalize", e.one_line()),
        }
    }
    let size = shingle.size.unwrap_or(match shingle.unit {
        Unit::Word => file::Shingle::SIZE_WORDS,
        Unit::Char => file::Shingle::SIZE_CHARS,
    });
    if !(1..=MAX_SHINGLE_SIZE).contains(&size) {
        return wrong(
            "shingle.size",
            format!("is {size}: expected 1 or more, and at most {MAX_SHINGLE_SIZE}"),
        );
    }
    let file::Shingle { unit, words, separator, hash, min_words, short, .. } = shingle;
    Ok(Shingle { normalize, unit, words, size, separator, hash, min_words, short })
}

/// Whether documents without shingles can be compared as the rest of the job says.
fn short_of(shingle: &Shingle, score: &Score) -> Checked<()> {
    const KEY: &str = "shingle.short";
    if shingle.short != Short::Empty {
        return Ok(());
    }
    if score.by != ScoreBy::Signature {
        return wrong(
            KEY,
            "is \"empty\", but documents without shingles can only be compared by their signatures: set score.by = \
             \"signature\"",
        );
    }
    if shingle.min_words > 0 {
        return wrong(
            KEY,
            "is \"empty\", which keeps short documents, but `shingle.min_words` rejects them: remove one of the two",
        );
    }
    if shingle.hash == ShingleHash::Dictionary {
        return wrong(
            KEY,
            "is \"empty\", which does not work with shingle.hash = \"dictionary\": expected another hash, or \
             \"reject\" or \"whole\"",
        );
    }
    Ok(())
}

fn minhash_of(minhash: file::Minhash, hash: ShingleHash) -> Checked<Minhash> {
    let permutations = minhash.permutations;
    if !(1..=MAX_PERMUTATIONS).contains(&permutations) {
        return wrong("minhash.permutations", format!("is {permutations}: expected 1 to {MAX_PERMUTATIONS}"));
    }
    let family = match (minhash.family, minhash.modulus) {
        (file::Family::MultiplyShift, None) => Family::MultiplyShift,
        (file::Family::OnePermutation, None) => Family::OnePermutation,
        (file::Family::MultiplyShift | file::Family::OnePermutation, Some(_)) => {
            return wrong(
                "minhash.modulus",
                "is set without `minhash.family = \"linear\"`, the only family that has one",
            );
        }
        (file::Family::Linear, None) => Family::Linear(Modulus::Is(MERSENNE_31)),
        (file::Family::Linear, Some(modulus)) => Family::Linear(modulus_of(&modulus, hash)?),
    };
    if let Family::Linear(Modulus::Is(modulus)) = family
        && (permutations as u64) >= modulus
    {
        return wrong(
            "minhash.modulus",
            format!(
                "is {modulus}: expected more than {permutations}, the number of `minhash.permutations`, since their \
                 factors are drawn below it"
            ),
        );
    }
    let coefficients = match minhash.coefficients {
        None => None,
        Some(path) => match coefficients::read(&path) {
            Ok(read) => Some(read),
            Err(e) => return wrong("minhash.coefficients", e.one_line()),
        },
    };
    coefficients_of(coefficients.as_deref(), permutations, family)?;
    Ok(Minhash { permutations, seed: minhash.seed, family, coefficients })
}

/// Whether these coefficients fit the permutations and the family.
fn coefficients_of(of: Option<&[Coefficients]>, permutations: usize, family: Family) -> Checked<()> {
    const KEY: &str = "minhash.coefficients";
    let Some(of) = of else { return Ok(()) };
    let modulus = match family {
        Family::Linear(Modulus::Is(modulus)) => Some(modulus),
        Family::Linear(Modulus::NextPrime) => None,
        Family::MultiplyShift | Family::OnePermutation => {
            return wrong(KEY, "is set without `minhash.family = \"linear\"`, the only family that has them");
        }
    };
    coefficients::fault(of, permutations, modulus).map_or(Ok(()), |fault| wrong(KEY, fault))
}

const MERSENNE_31: u64 = (1 << 31) - 1;
const ONES_32: u64 = (1 << 32) - 1;

fn modulus_of(modulus: &file::Modulus, hash: ShingleHash) -> Checked<Modulus> {
    const KEY: &str = "minhash.modulus";
    const ALLOWED: &str = "expected \"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32";
    match modulus {
        file::Modulus::Name(name) => match name.as_str() {
            "2^31-1" => Ok(Modulus::Is(MERSENNE_31)),
            "2^32-1" => Ok(Modulus::Is(ONES_32)),
            "next-prime" if hash == ShingleHash::Dictionary => Ok(Modulus::NextPrime),
            "next-prime" => wrong(
                KEY,
                "is \"next-prime\", the first prime above the number of distinct shingles: set `shingle.hash = \
                 \"dictionary\"`, which numbers the shingles",
            ),
            other => wrong(KEY, format!("is {other:?}: {ALLOWED}")),
        },
        file::Modulus::Number(number) => match u64::try_from(*number) {
            Ok(prime) if prime < 1 << 32 && is_prime(prime) => Ok(Modulus::Is(prime)),
            Ok(large) if is_prime(large) => wrong(
                KEY,
                format!(
                    "is {number}, which is too large for a modulus: \
                {ALLOWED}"
                ),
            ),
            _ => wrong(KEY, format!("is {number}, which is not a prime: {ALLOWED}")),
        },
    }
}

fn score_of(score: &file::Score, method: Method) -> Checked<Score> {
    let threshold = score.threshold;
    // Written so that NaN fails too.
    if !(threshold > 0.0 && threshold <= 1.0) {
        return wrong("score.threshold", format!("is {threshold}: expected a number over 0 and at most 1"));
    }
    if score.measure == Measure::Containment {
        let by_signature =
            "and signatures tell the Jaccard similarity of two sets, not how much of one the other holds";
        if score.by == ScoreBy::Signature {
            return wrong(
                "score.by",
                format!(
                    "is \"signature\" beside score.measure = \"containment\", {by_signature}: expected \"shingles\""
                ),
            );
        }
        if score.prefilter {
            return wrong(
                "score.prefilter",
                format!("is true beside score.measure = \"containment\", {by_signature}: leave the key out"),
            );
        }
        if method == Method::Lsh {
            return wrong(
                "candidates.method",
                "is \"lsh\" beside score.measure = \"containment\", and bands find sets of a high Jaccard similarity, which a \
                 short document and a long one that holds it do not have: expected \"prefix\", or \"all\"",
            );
        }
    }
    let file::Score { measure, by, prefilter, .. } = *score;
    Ok(Score { threshold, measure, by, prefilter })
}

fn lsh_of(lsh: &file::Lsh, permutations: usize, threshold: f64, method: Method) -> Checked<Lsh> {
    const EITHER: &str = "expected bands and rows, or choose, or target_recall, or none of them";
    let choice = match (lsh.bands, lsh.rows, lsh.choose, lsh.target_recall) {
        (Some(_), Some(_), None, None) => Choice::Given,
        (Some(_), None, _, _) => return wrong("lsh.bands", format!("is set without `lsh.rows`: {EITHER}")),
        (None, Some(_), _, _) => return wrong("lsh.rows", format!("is set without `lsh.bands`: {EITHER}")),
        (Some(_), Some(_), Some(_), _) => {
            return wrong("lsh.choose", format!("is set together with `lsh.bands` and `lsh.rows`: {EITHER}"));
        }
        (Some(_), Some(_), None, Some(_)) => {
            return wrong(
                "lsh.target_recall",
                format!("is set together with `lsh.bands` and `lsh.rows`: {EITHER}"),
            );
        }
        (None, None, Some(_), Some(_)) => {
            return wrong("lsh.target_recall", format!("is set together with `lsh.choose`: {EITHER}"));
        }
        (None, None, Some(Choose::Nearest), None) => Choice::Nearest,
        (None, None, Some(Choose::Balanced), None) => Choice::Balanced,
        (None, None, Some(Choose::Recall), None) => Choice::Recall,
        (None, None, Some(Choose::Precision), None) => Choice::Precision,
        (None, None, None, target) => {
            let target = target.unwrap_or(file::DEFAULT_TARGET_RECALL);
            if !(target > 0.0 && target < 1.0) {
                return wrong(
                    "lsh.target_recall",
                    format!("is {target}: expected a number over 0 and under 1"),
                );
            }
            Choice::TargetRecall(target)
        }
    };
    let found = match choose::by(choice, permutations, threshold, method) {
        Ok(Some(found)) => found,
        Ok(None) => given(lsh.bands.unwrap_or(0), lsh.rows.unwrap_or(0), permutations)?,
        Err(e) => return wrong("lsh.target_recall", format!("cannot be reached: {e}")),
    };
    if lsh.table_size == Some(0) {
        return wrong(
            "lsh.table_size",
            "is 0: expected 1 or more, or no key for an unlimited number of buckets",
        );
    }
    let hot_bucket = lsh.hot_bucket.unwrap_or(file::Lsh::HOT_BUCKET);
    if hot_bucket < 2 {
        return wrong(
            "lsh.hot_bucket",
            format!(
                "is {hot_bucket}: expected 2 or more: in larger buckets, not every two documents are compared"
            ),
        );
    }
    let (bucket_hash, table_size) = (lsh.bucket_hash, lsh.table_size);
    Ok(Lsh { bands: found.bands, rows: found.rows, choice, bucket_hash, table_size, hot_bucket })
}

fn given(bands: usize, rows: usize, permutations: usize) -> Checked<choose::Bands> {
    if bands == 0 {
        return wrong("lsh.bands", "is 0: expected 1 or more");
    }
    if rows == 0 {
        return wrong("lsh.rows", "is 0: expected 1 or more");
    }
    if bands.checked_mul(rows).is_none_or(|used| used > permutations) {
        return wrong(
            "lsh.bands",
            format!(
                "times `lsh.rows` is {bands} * {rows}: expected at most {permutations}, the number of \
                 `minhash.permutations`"
            ),
        );
    }
    Ok(choose::Bands { bands, rows })
}

fn output_of(output: file::Output, source: &Source) -> Checked<Output> {
    let url = output.url.clone();
    if url.trim().is_empty() {
        return wrong("output.url", "is empty: expected a folder or a URL prefix, as in \"out/books/\"");
    }
    address::check(&url).or_else(|said| wrong("output.url", said))?;
    // These formats walk whole folders, so the next run would read what this one wrote.
    let walks = matches!(source.format, Format::Parquet | Format::Text);
    let inside = |folder: &str| {
        url.strip_prefix(folder.trim_end_matches('/'))
            .is_some_and(|rest| rest.trim_end_matches('/').is_empty() || walks && rest.starts_with('/'))
    };
    if let Some(folder) = source.urls.iter().find(|folder| inside(folder)) {
        return wrong(
            "output.url",
            format!("is {url:?}, inside the source {folder:?}: expected a folder outside of it"),
        );
    }
    if output.max_pairs == 0 {
        return wrong(
            "output.max_pairs",
            "is 0: expected 1 or more: it is the largest number of pairs that a run may \
            write",
        );
    }
    let file::Output { url: _, expand, max_expand, max_pairs, keep } = output;
    Ok(Output { url, expand, max_expand, max_pairs, keep })
}

fn engine_of(engine: file::Engine) -> Checked<Engine> {
    let cluster = cluster_of(&engine)?;
    let memory = match parse_size(&engine.memory) {
        Ok(memory) => memory,
        Err(e) => return wrong("engine.memory", format!("cannot be read: {e}")),
    };
    if engine.spill.as_ref().is_some_and(|folder| folder.trim().is_empty()) {
        return wrong(
            "engine.spill",
            "is empty: expected a folder, or no key for the system's temporary folder",
        );
    }
    if engine.threads > MAX_THREADS {
        return wrong(
            "engine.threads",
            format!("is {}: expected at most {MAX_THREADS}, or 0 for one thread per core", engine.threads),
        );
    }
    Ok(Engine { memory, threads: engine.threads, spill: engine.spill, cluster })
}

fn cluster_of(engine: &file::Engine) -> Checked<Option<Cluster>> {
    let scheduler = match (engine.mode, &engine.scheduler) {
        (file::Mode::Local, None) => return Ok(None),
        (file::Mode::Local, Some(_)) => {
            return wrong("engine.scheduler", "is set in mode \"local\": set engine.mode = \"cluster\"");
        }
        (file::Mode::Cluster, None) => {
            return wrong(
                "engine.scheduler",
                "is missing: mode \"cluster\" needs it, such as df://host:50050",
            );
        }
        (file::Mode::Cluster, Some(scheduler)) => match scheduler_of(scheduler) {
            Some(scheduler) => scheduler,
            None if scheduler.contains('@') => {
                return wrong(
                    "engine.scheduler",
                    "holds `@` (not shown here, since what stands before it may be a secret): expected df://host:port",
                );
            }
            None => return wrong("engine.scheduler", format!("is {scheduler:?}: expected df://host:port")),
        },
    };
    for (key, value) in [
        ("engine.stall_seconds", engine.stall_seconds),
        ("engine.attempts", u64::from(engine.attempts)),
        ("engine.wait_seconds", engine.wait_seconds),
    ] {
        if value == 0 {
            return wrong(key, "is 0: expected 1 or more");
        }
    }
    for (key, value) in [
        ("engine.stall_seconds", engine.stall_seconds),
        ("engine.deadline_seconds", engine.deadline_seconds),
        ("engine.wait_seconds", engine.wait_seconds),
    ] {
        if value > MAX_SECONDS {
            return wrong(key, format!("is {value}: expected at most {MAX_SECONDS}, which is a year"));
        }
    }
    Ok(Some(Cluster {
        scheduler,
        stall_seconds: engine.stall_seconds,
        deadline_seconds: engine.deadline_seconds,
        attempts: engine.attempts,
        wait_seconds: engine.wait_seconds,
    }))
}

/// `df://host:port`, or `host:port` -> `host:port`.
fn scheduler_of(url: &str) -> Option<String> {
    let place = url.strip_prefix("df://").unwrap_or(url);
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = place.rsplit_once(':')?;
    let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#']) && !host.contains("://");
    (plain && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| place.to_owned())
}
