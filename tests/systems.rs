//! Jobs that replace other systems: the programs of those systems in Python, and known counts of their data.

mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::RecordBatch;
use resemblance::job::Job;
use tempfile::tempdir;

use crate::support::oracle::sketch::crc32;
use crate::support::*;

fn signatures_of(documents: &RecordBatch) -> Vec<Vec<u32>> {
    signature_values(documents.column_by_name("signature").unwrap())
}

fn load(job: &str, source: &Path, output: &Path, sets: &[&str]) -> Job {
    let mut all =
        vec![format!("source.url={}", source.display()), format!("output.url={}", output.display())];
    all.extend(sets.iter().map(|set| set.to_string()));
    Job::load(repository(job), &all).unwrap()
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
            let mut first: BTreeMap<u32, &String> = BTreeMap::new();
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
