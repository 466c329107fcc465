//! Measures how texts are normalised, split into words, and turned into sets of shingle hashes.

use std::hint::black_box;
use std::ops::Range;

use criterion::{Criterion, Throughput};
use resemblance::job::{Normalize, Shingle, ShingleHash, Short, Unit, Words};
use resemblance::kernel::text::normalize::Normalizer;
use resemblance::kernel::text::shingles::{ShingleBuffers, shingles};
use resemblance::kernel::text::words::each_word;
use resemblance::lab::corpus::{Corpus, CorpusSettings};

use super::{group, limits};

const STEPS: [Normalize; 2] = [Normalize::Lowercase, Normalize::CollapseWhitespace];

/// Returns a hundred documents of 200 words in three scripts. In the first, all letters are ASCII. In the second, about every eleventh word
/// has a letter that is not ASCII. In the third, no letter is ASCII. Every seventh word begins with a capital letter.
fn scripts() -> [(&'static str, Vec<String>); 3] {
    let settings = CorpusSettings { words: 200, ..CorpusSettings::default() };
    let corpus = Corpus::new(100, settings).unwrap();
    let capital = |(at, word): (usize, &str)| match at % 7 {
        0 => word[..1].to_uppercase() + &word[1..],
        _ => word.to_owned(),
    };
    let ascii = |document| {
        let mut text = String::new();
        corpus.text(document, &mut Vec::new(), &mut text);
        text.split(' ').enumerate().map(capital).collect::<Vec<_>>().join(" ")
    };
    let ascii: Vec<String> = (0..100).map(ascii).collect();
    let accented = |text: &String| text.replace("er", "ér").replace("na", "ña").replace("zu", "zü");
    let cyrillic = |c: char| match c {
        'a'..='z' => char::from_u32(u32::from(c) - u32::from('a') + u32::from('а')).unwrap_or(c),
        'A'..='Z' => char::from_u32(u32::from(c) - u32::from('A') + u32::from('А')).unwrap_or(c),
        other => other,
    };
    let accented: Vec<String> = ascii.iter().map(accented).collect();
    let foreign = ascii.iter().map(|text| text.chars().map(cyrillic).collect()).collect();
    [("ascii", ascii), ("accented", accented), ("cyrillic", foreign)]
}

/// Measures each step from a text to a set of shingle hashes.
pub fn texts(c: &mut Criterion) {
    for (script, texts) in scripts() {
        normalise(c, script, &texts);
        words(c, script, &texts);
        word_shingles(c, script, &texts);
        char_shingles(c, script, &texts);
    }
}

fn bytes(texts: &[String]) -> Throughput {
    Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum())
}

fn normalise(c: &mut Criterion, script: &str, texts: &[String]) {
    let mut group = group(c, &format!("normalise/{script}"), bytes(texts));
    for (name, mut normalizer) in [
        ("kernel for words", Normalizer::for_words(&STEPS, Words::Unicode).unwrap()),
        ("kernel for characters", Normalizer::new(&STEPS, Words::Unicode).unwrap()),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                for text in texts {
                    normalizer.begin();
                    black_box(normalizer.piece(text));
                }
            });
        });
    }
    let mut out = Vec::new();
    group.bench_function("limit: each byte in lower case", |b| {
        b.iter(|| {
            for text in texts {
                limits::lower(text, &mut out);
                black_box(&out);
            }
        });
    });
}

fn words(c: &mut Criterion, script: &str, texts: &[String]) {
    let mut group = group(c, &format!("words/{script}"), bytes(texts));
    let ways =
        [("unicode", Words::Unicode), ("word-characters", Words::WordCharacters), ("spaces", Words::Spaces)];
    for (name, words) in ways {
        group.bench_function(format!("kernel: {name}"), |b| {
            b.iter(|| texts.iter().for_each(|text| each_word(text, words, |word| _ = black_box(word))));
        });
    }
    group.bench_function("limit: between single spaces", |b| {
        b.iter(|| texts.iter().for_each(|text| limits::between_spaces(text, |word| _ = black_box(word))));
    });
}

fn word_shingles(c: &mut Criterion, script: &str, texts: &[String]) {
    let mut group = group(c, &format!("shingles of 5 words/{script}"), bytes(texts));
    group.bench_function("kernel", |b| shingle(b, texts, &by(Unit::Word, 5)));
    let cut = |text: &String| {
        let mut words: Vec<Range<usize>> = Vec::new();
        each_word(text, Words::Unicode, |word| words.push(word));
        words
    };
    let cut: Vec<_> = texts.iter().map(cut).collect();
    let (mut hashes, mut out) = (Vec::new(), Vec::new());
    group.bench_function("limit: hashes of words that are cut already", |b| {
        b.iter(|| {
            for (text, words) in texts.iter().zip(&cut) {
                limits::hash_words(text, words, 5, &mut hashes, &mut out);
                black_box(&out);
            }
        });
    });
}

fn char_shingles(c: &mut Criterion, script: &str, texts: &[String]) {
    let mut group = group(c, &format!("shingles of 9 characters/{script}"), bytes(texts));
    group.bench_function("kernel", |b| shingle(b, texts, &by(Unit::Char, 9)));
    let cut = |text: &String| {
        let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        starts.push(text.len());
        starts.windows(10).map(|window| window[0]..window[9]).collect::<Vec<_>>()
    };
    let cut: Vec<_> = texts.iter().map(cut).collect();
    let mut out = Vec::new();
    group.bench_function("limit: hashes of characters that are cut already", |b| {
        b.iter(|| {
            for (text, ranges) in texts.iter().zip(&cut) {
                limits::hash_ranges(text, ranges, &mut out);
                black_box(&out);
            }
        });
    });
}

fn by(unit: Unit, size: usize) -> Shingle {
    let (normalize, separator) = (STEPS.to_vec(), " ".to_owned());
    Shingle {
        normalize,
        unit,
        words: Words::Unicode,
        size,
        separator,
        hash: ShingleHash::Xxh3,
        min_words: 0,
        short: Short::Reject,
    }
}

fn shingle(b: &mut criterion::Bencher, texts: &[String], by: &Shingle) {
    let (mut scratch, mut out) = (ShingleBuffers::default(), Vec::new());
    b.iter(|| {
        for text in texts {
            out.clear();
            shingles(text, by, &mut scratch, &mut out).unwrap();
            black_box(&out);
        }
    });
}
