//! Jobs that replace other systems, compared with those systems' own rules, written here as plain loops.

mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use resemblance::job::{Encoding, Job, Keep};
use sha2::{Digest, Sha256};
use tempfile::tempdir;
use xxhash_rust::xxh3::xxh3_64;

use crate::support::*;

/// CRC-32 by its polynomial, bit by bit.
fn crc32(bytes: &[u8]) -> u64 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    u64::from(!crc)
}

/// SHA-256 modulo 2^31 - 1, byte by byte.
fn sha256_31(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes).iter().fold(0, |rest, &byte| (rest * 256 + u64::from(byte)) % 2_147_483_647)
}

/// The factors of linear hash functions: drawn from 1 to `draws` without replacement.
fn factors(count: usize, seed: u64, draws: u64) -> Vec<(u64, u64)> {
    let mut random = Random(seed);
    let mut drawn: [Vec<u64>; 2] = Default::default();
    let mut draw = |list: &mut Vec<u64>| loop {
        let number = 1 + ((u128::from(random.next()) * u128::from(draws)) >> 64) as u64;
        if !list.contains(&number) {
            list.push(number);
            return number;
        }
    };
    let [a, b] = &mut drawn;
    (0..count).map(|_| (draw(a), draw(b))).collect()
}

fn signature(set: &BTreeSet<u64>, factors: &[(u64, u64)], modulus: u64) -> Vec<u32> {
    let least = |&(a, b): &(u64, u64)| set.iter().map(|x| (a * (x % modulus) + b) % modulus).min().unwrap();
    factors.iter().map(least).map(|least| least as u32).collect()
}

/// The values of a band in decimal, joined by `_`.
fn joined(band: &[u32]) -> String {
    band.iter().map(u32::to_string).collect::<Vec<_>>().join("_")
}

fn jaccard(a: &BTreeSet<u64>, b: &BTreeSet<u64>) -> f64 {
    let shared = a.intersection(b).count();
    shared as f64 / (a.len() + b.len() - shared) as f64
}

fn agreement(a: &[u32], b: &[u32]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len() as f64
}

/// The bucket of band `number`, by the rule of a system.
type Bucket = fn(number: usize, band: &[u32]) -> (usize, u64);

/// The answer of a system for its documents.
struct System {
    sets: BTreeMap<String, BTreeSet<u64>>,
    signatures: BTreeMap<String, Vec<u32>>,
    candidates: BTreeSet<(String, String)>,
}

impl System {
    fn new(
        sets: BTreeMap<String, BTreeSet<u64>>,
        factors: &[(u64, u64)],
        modulus: u64,
        (bands, rows): (usize, usize),
        bucket: Bucket,
    ) -> Self {
        let signatures: BTreeMap<String, Vec<u32>> =
            sets.iter().map(|(id, set)| (id.clone(), signature(set, factors, modulus))).collect();
        let mut table: BTreeMap<(usize, u64), BTreeSet<&String>> = BTreeMap::new();
        for (id, signature) in &signatures {
            for (number, band) in signature.chunks_exact(rows).take(bands).enumerate() {
                table.entry(bucket(number, band)).or_default().insert(id);
            }
        }
        let mut candidates = BTreeSet::new();
        for ids in table.values() {
            let ids: Vec<&String> = ids.iter().copied().collect();
            for (at, a) in ids.iter().enumerate() {
                candidates.extend(ids[at + 1..].iter().map(|b| (a.to_string(), b.to_string())));
            }
        }
        Self { sets, signatures, candidates }
    }

    /// The candidates that `keep`s (estimate, jaccard), with both.
    fn pairs(&self, keep: impl Fn(f64, f64) -> bool) -> BTreeMap<(String, String), (f64, f64)> {
        let both = |(a, b): &(String, String)| {
            (agreement(&self.signatures[a], &self.signatures[b]), jaccard(&self.sets[a], &self.sets[b]))
        };
        let scored = self.candidates.iter().map(|pair| (pair.clone(), both(pair)));
        scored.filter(|(_, (estimate, jaccard))| keep(*estimate, *jaccard)).collect()
    }

    /// Candidates among different shingle sets: of documents with one set, the run compares one.
    fn different(&self) -> u64 {
        let number: BTreeMap<_, _> = self.sets.values().zip(0..).collect();
        let of = |id: &String| number[&self.sets[id]];
        let pairs = self.candidates.iter().map(|(a, b)| (of(a).min(of(b)), of(a).max(of(b))));
        pairs.filter(|(a, b)| a != b).collect::<BTreeSet<(i32, i32)>>().len() as u64
    }
}

/// Runs a job and holds its documents, signatures, candidates and pairs against the system.
fn assert_stands_in(job: &Job, output: &Path, system: &System, keep: impl Fn(f64, f64) -> bool) {
    let mut job = job.clone();
    job.output.keep = Keep::Shingles;
    let outcome = run(&job).unwrap();
    let documents = table(output, "documents");
    let ids = strings(&documents, "id");
    let signatures: BTreeMap<String, Vec<u32>> = ids.iter().cloned().zip(signatures_of(&documents)).collect();
    assert_eq!(signatures.keys().collect::<Vec<_>>(), system.sets.keys().collect::<Vec<_>>());
    for (id, found) in &signatures {
        assert_eq!(found, &system.signatures[id], "the signature of {id}");
    }
    let shingles: BTreeMap<String, BTreeSet<u64>> = ids.into_iter().zip(shingles_of(&documents)).collect();
    assert!(shingles == system.sets, "the shingle sets");
    assert_eq!(outcome.manifest.counts.candidates.unwrap(), system.different());

    let expected = system.pairs(keep);
    assert!(!expected.is_empty(), "nothing to find");
    let pairs = table(output, "pairs");
    let scores = floats(&pairs, "estimate").into_iter().zip(floats(&pairs, "jaccard"));
    let keys = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    assert_eq!(keys.zip(scores).collect::<BTreeMap<_, _>>(), expected);
}

fn signatures_of(documents: &RecordBatch) -> Vec<Vec<u32>> {
    signature_values(documents.column_by_name("signature").unwrap())
}

fn shingles_of(documents: &RecordBatch) -> Vec<BTreeSet<u64>> {
    let lists = documents.column_by_name("shingles").unwrap().as_list::<i32>();
    lists
        .iter()
        .map(|list| {
            list.unwrap().as_primitive::<Int64Type>().values().iter().map(|v| v.cast_unsigned()).collect()
        })
        .collect()
}

fn load(job: &str, source: &Path, output: &Path, sets: &[&str]) -> Job {
    let mut all =
        vec![format!("source.url={}", source.display()), format!("output.url={}", output.display())];
    all.extend(sets.iter().map(|set| set.to_string()));
    Job::load(repository(job), &all).unwrap()
}

/// Every run of `size` characters, as a number.
fn character_shingles(text: &str, size: usize, hash: fn(&[u8]) -> u64) -> BTreeSet<u64> {
    let chars: Vec<char> = text.chars().collect();
    chars.windows(size).map(|run| hash(run.iter().collect::<String>().as_bytes())).collect()
}

/// Files of the folder that can be read by `encoding` and have the shingles that `cut` makes of them.
fn folder_sets(
    folder: &Path,
    encoding: Encoding,
    cut: impl Fn(&str) -> BTreeSet<u64>,
) -> BTreeMap<String, BTreeSet<u64>> {
    let mut sets = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        let text = match encoding {
            Encoding::Latin1 => bytes.into_iter().map(char::from).collect(),
            _ => match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(_) => continue,
            },
        };
        let set = cut(&text);
        if !text.trim().is_empty() && !set.is_empty() {
            sets.insert(entry.file_name().into_string().unwrap(), set);
        }
    }
    sets
}

/// The bodies of a Reuters file by OLDID, by a search for the tags. A file that is not UTF-8 is ISO 8859-1.
fn reuters_bodies(file: &Path) -> Vec<(String, String)> {
    let latin = |bytes: Vec<u8>| bytes.into_iter().map(char::from).collect();
    let text = String::from_utf8(std::fs::read(file).unwrap()).unwrap_or_else(|e| latin(e.into_bytes()));
    let mut bodies = Vec::new();
    for story in text.split("<REUTERS ").skip(1) {
        let id = story.split("OLDID=\"").nth(1).unwrap().split('"').next().unwrap();
        if let Some(body) = story.split("<BODY>").nth(1) {
            let body = body.split("</BODY>").next().unwrap();
            bodies.push((id.to_owned(), decoded(body)));
        }
    }
    bodies
}

/// The text with its character references resolved.
fn decoded(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').map_or(0, |end| end + 1);
        let number = rest.get(2..end.saturating_sub(1)).and_then(|digits| digits.parse().ok());
        let c = match &rest[..end] {
            "&lt;" => Some('<'),
            "&gt;" => Some('>'),
            "&amp;" => Some('&'),
            reference if reference.starts_with("&#") => number.and_then(char::from_u32),
            _ => None,
        };
        match c {
            Some(c) => {
                out.push(c);
                rest = &rest[end..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The first stories of Reuters as files of a folder, and some again with a word changed or more white space.
fn reuters_as_files(data: &Path, folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    for (at, (id, body)) in reuters_bodies(&data.join("reut2-000.sgm")).into_iter().take(300).enumerate() {
        std::fs::write(folder.join(format!("{id}.txt")), &body).unwrap();
        let edited = match at % 10 {
            0 => body.replacen(" the ", " a ", 1),
            1 => body.replace('\n', "\n\t "),
            _ => continue,
        };
        std::fs::write(folder.join(format!("{id}-again.txt")), edited).unwrap();
    }
}

/// Small files that are in the repository, and real text where it is there.
fn each_folder(
    job: &str,
    cut: impl Fn(&str) -> BTreeSet<u64> + Copy,
    check: impl Fn(&Job, &Path, BTreeMap<String, BTreeSet<u64>>),
) {
    let scratch = tempdir().unwrap();
    let mut folders = vec![(repository("jobs/quickstart"), "score.threshold=0.5")];
    if let Some(data) = real_data("reuters21578") {
        let folder = scratch.path().join("reuters");
        reuters_as_files(&data, &folder);
        folders.push((folder, "score.threshold=0.8"));
    }
    for (folder, threshold) in folders {
        let output = scratch.path().join("out").join(folder.file_name().unwrap());
        let job = load(job, &folder, &output, &[threshold]);
        check(&job, &output, folder_sets(&folder, job.source.encoding, cut));
    }
}

/// Similar files: character shingles, CRC-32, one table for all bands, three filters in a row.
#[test]
fn newsgroups_stands_in_for_similar_files() {
    let cut = |text: &str| {
        let text = text.to_lowercase().replace(' ', "_");
        character_shingles(&text, 10, crc32)
    };
    const PRIME: u64 = 4_294_967_291;
    each_folder("jobs/recipes/newsgroups.toml", cut, |job, output, sets| {
        assert_eq!((job.minhash.permutations, job.lsh.table_size), (100, Some(20_000)));
        let bucket: Bucket = |_, band| (0, crc32(joined(band).as_bytes()) % 20_000);
        let bands = (job.lsh.bands, job.lsh.rows);
        let system = System::new(sets, &factors(100, 1, PRIME - 1), PRIME, bands, bucket);
        let threshold = job.score.threshold;
        assert_stands_in(job, output, &system, |estimate, jaccard| {
            estimate >= threshold && jaccard >= threshold
        });
    });
}

/// Long documents: white space folded, nine characters, SHA-256 below 2^31 - 1.
#[test]
fn text_files_stands_in_for_the_three_methods() {
    let cut = |text: &str| {
        let text = regex::Regex::new(r"[ \t\r\n]+").unwrap().replace_all(text, " ").into_owned();
        character_shingles(&text, 9, sha256_31)
    };
    const PRIME: u64 = 2_147_483_647;
    each_folder("jobs/recipes/text-files.toml", cut, |job, output, sets| {
        // b * r is the signature's length, and (1/b)^(1/r) is the nearest not over the threshold.
        let under = |rows: &usize| 100 % rows == 0 && near(100 / rows, *rows) <= job.score.threshold;
        let nearest =
            (1..=100).filter(under).max_by(|a, b| near(100 / a, *a).total_cmp(&near(100 / b, *b))).unwrap();
        assert_eq!((job.lsh.bands, job.lsh.rows), (100 / nearest, nearest));
        let system = System::new(
            sets,
            &factors(100, 1, PRIME - 1),
            PRIME,
            (100 / nearest, nearest),
            |number, band| {
                // Which hash a bucket has is no rule of this system: equal bands of equal number meet.
                (number, xxh3_64(joined(band).as_bytes()))
            },
        );
        let threshold = job.score.threshold;
        assert_stands_in(job, output, &system, |estimate, _| estimate >= threshold);
    });
}

/// (1/b)^(1/r)
fn near(bands: usize, rows: usize) -> f64 {
    (1.0 / bands as f64).powf(1.0 / rows as f64)
}

/// Book reviews: tokens without digits and stop words, kept by the agreement of their signatures.
#[test]
fn amazon_books_stands_in_for_reviews() {
    let Some(data) = real_data("amazon-books/Books_rating.sample.csv") else { return };
    let token = regex::Regex::new(r"\b\w+\b").unwrap();
    let stop: BTreeSet<&str> =
        include_str!("../src/kernel/text/normalize/stop_word_lists/scikit_learn_en.txt")
            .split_whitespace()
            .collect();
    let mut sets = BTreeMap::new();
    let mut reader = CsvRows::new(std::fs::read_to_string(&data).unwrap());
    let column = reader.next().unwrap().iter().position(|name| name == "review/text").unwrap();
    for (row, fields) in reader.enumerate() {
        let text = fields[column].to_lowercase();
        let tokens: Vec<&str> = token
            .find_iter(&text)
            .map(|token| token.as_str())
            .filter(|token| !token.chars().all(char::is_numeric) && !stop.contains(token))
            .collect();
        let set: BTreeSet<u64> = tokens.windows(3).map(|run| crc32(run.join(", ").as_bytes())).collect();
        if !set.is_empty() {
            sets.insert(format!("Books_rating.sample.csv:{row}"), set);
        }
    }
    const MODULUS: u64 = 4_294_967_295;
    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    let job = load("jobs/recipes/amazon-books.toml", &data, &output, &["output.expand=all"]);
    // b divides 128, and (1/b)^(1/r) is nearest the threshold.
    let distance = |rows: usize| (near(128 / rows, rows) - job.score.threshold).abs();
    let rows = [1, 2, 4, 8, 16, 32, 64, 128]
        .into_iter()
        .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
        .unwrap();
    assert_eq!((job.lsh.bands, job.lsh.rows), (128 / rows, rows));
    let system =
        System::new(sets, &factors(128, 42, MODULUS - 1), MODULUS, (128 / rows, rows), |number, band| {
            (number, crc32(joined(band).as_bytes()))
        });
    let threshold = job.score.threshold;
    assert_stands_in(&job, &output, &system, |estimate, _| estimate >= threshold);
}

/// The records of a CSV file with quoted fields.
struct CsvRows {
    text: String,
    at: usize,
}

impl CsvRows {
    fn new(text: String) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for CsvRows {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut chars = self.text[self.at..].chars().peekable();
        chars.peek()?;
        while let Some(c) = chars.next() {
            self.at += c.len_utf8();
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    self.at += 1;
                    fields.last_mut().unwrap().push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                '\n' if !quoted => break,
                '\r' if !quoted => {}
                c => fields.last_mut().unwrap().push(c),
            }
        }
        Some(fields)
    }
}

/// All stories of Reuters: their words, without those of under eight.
fn reuters_words(data: &Path) -> BTreeMap<String, Vec<String>> {
    let mut documents = BTreeMap::new();
    for number in 0..22 {
        for (id, body) in reuters_bodies(&data.join(format!("reut2-{number:03}.sgm"))) {
            let letters: String =
                body.to_lowercase().chars().map(|c| if c.is_alphabetic() { c } else { ' ' }).collect();
            let words: Vec<String> = letters.split_whitespace().map(str::to_owned).collect();
            if words.len() >= 8 {
                documents.insert(id, words);
            }
        }
    }
    documents
}

fn word_shingles(words: &[String], size: usize) -> BTreeSet<String> {
    words.windows(size).map(|run| run.join(" ")).collect()
}

const DICTIONARY: [&str; 4] = [
    "shingle.hash=dictionary",
    "minhash.family=linear",
    "minhash.modulus=next-prime",
    "lsh.bucket_hash=crc32",
];

/// News stories: every shingle its own number, hash functions modulo the next prime.
#[test]
fn reuters_stands_in_for_news_stories() {
    let Some(data) = real_data("reuters21578") else { return };
    let texts: BTreeMap<String, BTreeSet<String>> =
        reuters_words(&data).into_iter().map(|(id, words)| (id, word_shingles(&words, 5))).collect();
    let mut entries: Vec<(u64, &String)> = texts
        .values()
        .flatten()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|s| (xxh3_64(s.as_bytes()), s))
        .collect();
    entries.sort();
    let number: BTreeMap<&String, u64> = entries.iter().map(|(_, shingle)| *shingle).zip(1..).collect();
    let sets = texts.iter().map(|(id, set)| (id.clone(), set.iter().map(|s| number[s]).collect())).collect();
    let shingles = number.len() as u64;
    let prime = (shingles + 1..).find(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0)).unwrap();

    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    let job = load("jobs/recipes/reuters.toml", &data, &output, &DICTIONARY);
    let bucket: Bucket = |number, band| (number, crc32(joined(band).as_bytes()));
    let bands = (job.lsh.bands, job.lsh.rows);
    let system = System::new(sets, &factors(128, 42, shingles), prime, bands, bucket);
    let threshold = job.score.threshold;
    assert_stands_in(&job, &output, &system, |_, jaccard| jaccard >= threshold);

    let dictionary = table(&output, "dictionary");
    let written: BTreeMap<String, u64> =
        strings(&dictionary, "shingle").into_iter().zip(numbers(&dictionary, "number")).collect();
    assert!(written.iter().map(|(shingle, &n)| (shingle, n)).eq(number.iter().map(|(s, &n)| (*s, n))));
}

/// The exact answer does not depend on how shingles become numbers, but where two become one.
#[test]
fn reuters_has_the_known_counts_with_every_hash() {
    let Some(data) = real_data("reuters21578") else { return };
    let folder = tempdir().unwrap();
    let exact = |name: &str, size: usize, sets: &[&str]| {
        let output = folder.path().join(format!("{name}-{size}"));
        let size = format!("shingle.size={size}");
        let all = [&["candidates.method=all", "score.threshold=0.5", &size], sets].concat();
        run(&load("jobs/recipes/reuters.toml", &data, &output, &all)).unwrap();
        pairs(&output)
    };
    let counts = |found: &BTreeMap<_, f64>| {
        [0.5, 0.6, 0.7, 0.8, 0.9, 1.0].map(|t| found.values().filter(|&&jaccard| jaccard >= t).count())
    };
    let threes = exact("dictionary", 3, &DICTIONARY);
    assert_eq!(counts(&threes), [22_327, 10_506, 5_490, 3_572, 2_764, 2_622]);
    let fives = exact("dictionary", 5, &DICTIONARY);
    assert_eq!(counts(&fives), [10_123, 5_235, 3_724, 2_929, 2_672, 2_617]);

    // With 32 bits some shingles become one: whatever differs, they explain it.
    let by_crc = exact("crc32", 5, &["shingle.hash=crc32"]);
    let texts: BTreeMap<String, BTreeSet<String>> =
        reuters_words(&data).into_iter().map(|(id, words)| (id, word_shingles(&words, 5))).collect();
    let mut differ = 0;
    for pair in fives.keys().chain(by_crc.keys()).collect::<BTreeSet<_>>() {
        if fives.get(pair) != by_crc.get(pair) {
            let both = texts[&pair.0].union(&texts[&pair.1]);
            let mut first: BTreeMap<u64, &String> = BTreeMap::new();
            let collision =
                both.into_iter().find_map(|s| first.insert(crc32(s.as_bytes()), s).map(|t| (s, t)));
            let (s, t) = collision.unwrap_or_else(|| panic!("{pair:?} differs without a collision"));
            eprintln!(
                "{pair:?}: {:?} and {:?}, since CRC-32 takes {s:?} for {t:?}",
                fives.get(pair),
                by_crc.get(pair)
            );
            differ += 1;
        }
    }
    eprintln!("{differ} of {} pairs differ under CRC-32", fives.len());
}
