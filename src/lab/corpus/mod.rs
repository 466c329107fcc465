//! Generated corpora: documents of made-up words, some of which are planted.
//!
//! A planted document is made from another document, its original. It is a copy, a near-duplicate with a known Jaccard similarity, or a
//! passage. Some documents begin with common boilerplate.
//!
//! The text of a document depends only on the settings and on the number of the document. So a corpus is always the same, and can be
//! written with little memory, in any order and by any number of threads. Each planted document has an original of its own, except for
//! identical documents. So all similar pairs are known, except for pairs that are similar because of boilerplate.

pub mod files;
pub(super) mod words;

use crate::error::{Error, Result};
use crate::job::{share, similarity, whole};
use crate::kernel::hash::SplitMix64;
use words::{Vocabulary, below};

/// The maximum average number of words in a document.
pub(crate) const MAX_WORDS: usize = 10_000_000;
/// The maximum number of different words.
const MAX_VOCABULARY: usize = 1_000_000;
/// The maximum number of words in a shingle.
const MAX_SHINGLE: usize = 1_000;
/// The maximum number of documents in a corpus.
pub(crate) const MAX_DOCUMENTS: u64 = 10_000_000_000;

/// The settings of planted documents, and of the made-up texts of a corpus. Shares are shares of all documents, in [0, 1].
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct CorpusSettings {
    /// Average number of words in a document; lengths are evenly distributed from half to one and a half times this number
    #[arg(long, value_name = "N", default_value_t = Self::default().words, value_parser = whole(1..=MAX_WORDS))]
    pub words: usize,
    /// Seed for all random numbers
    #[arg(long, value_name = "N", default_value_t = Self::default().seed)]
    pub seed: u64,
    /// Number of words in a shingle, for the Jaccard similarities of planted pairs
    #[arg(short = 'k', long, value_name = "K", default_value_t = Self::default().shingle, value_parser = whole(1..=MAX_SHINGLE))]
    pub shingle: usize,
    /// Number of different words
    #[arg(long, value_name = "N", default_value_t = Self::default().vocabulary, value_parser = whole(2..=MAX_VOCABULARY))]
    pub vocabulary: usize,
    /// Share of documents that are exact copies of another document
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().copies, value_parser = share)]
    pub copies: f64,
    /// Share of documents that are another document with some words replaced
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().near, value_parser = share)]
    pub near: f64,
    /// Jaccard similarities that the near-duplicates use in turn; each is greater than 0 and at most 1
    #[arg(long, value_name = "J,..", value_delimiter = ',', default_value = "0.95,0.9,0.8,0.7,0.5", value_parser = similarity)]
    pub jaccards: Vec<f64>,
    /// Share of documents that are half of another document
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().contained, value_parser = share)]
    pub contained: f64,
    /// Share of the other documents that begin with the same passage; with --from, share of documents under a common header
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().boilerplate, value_parser = share)]
    pub boilerplate: f64,
    /// Number of words in the passage of --boilerplate; half of --words by default, and 50 with --from
    #[arg(long, value_name = "N", value_parser = whole(0..=MAX_WORDS))]
    pub boilerplate_words: Option<usize>,
    /// Number of documents in one group of identical documents
    #[arg(long, value_name = "N", default_value_t = Self::default().identical)]
    pub identical: u64,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            words: 100,
            seed: 42,
            shingle: 5,
            vocabulary: 20_000,
            copies: 0.05,
            near: 0.1,
            jaccards: vec![0.95, 0.9, 0.8, 0.7, 0.5],
            contained: 0.02,
            boilerplate: 0.0,
            boilerplate_words: None,
            identical: 0,
        }
    }
}

impl CorpusSettings {
    /// Divides `documents` slots into one range per kind of planted document. Returns the end of each range.
    fn slot_ends(&self, documents: u64) -> Result<[u64; 4]> {
        if self.words < self.shingle {
            return Err(Error::job(format!(
                "words is {}, but a document has at least one shingle: expected {} or more",
                self.words, self.shingle
            )));
        }
        let count = |share: f64| (documents as f64 * share).round() as u64;
        let (copies, near, contained) = (count(self.copies), count(self.near), count(self.contained));
        let planted = copies + near + contained;
        let needed = 2 * u128::from(planted) + u128::from(self.identical);
        if needed > documents.into() {
            return Err(Error::job(format!(
                "copies, near and contained add up to {planted} documents, each made from a document of its own, and \
                 identical is {}: that needs {needed} documents, but there are only {documents}; lower one of them",
                self.identical
            )));
        }
        Ok([copies, copies + near, planted, planted + self.identical])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlantedKind {
    Copy,
    Near,
    Contained,
    /// An identical document, whose original is the first identical one.
    Identical,
}

impl PlantedKind {
    /// Returns the name in the table of planted documents.
    fn name(self) -> &'static str {
        match self {
            PlantedKind::Copy => "copy",
            PlantedKind::Near => "near",
            PlantedKind::Contained => "contained",
            PlantedKind::Identical => "identical",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CorpusDocument {
    /// The number of the document.
    pub document: u64,
    pub original: u64,
    pub kind: PlantedKind,
    /// The exact Jaccard similarity with the original, for shingles of [`CorpusSettings::shingle`] words.
    pub jaccard: f64,
}

/// The data from which the documents of a corpus are generated.
///
/// Every document has a *slot*. Slots are ordered by kind: copies, near-duplicates, contained documents, identical documents, originals.
/// The documents of the first three kinds are made from the first originals, in the same order. A permutation maps documents to slots.
#[derive(Debug)]
pub struct Corpus {
    pub(crate) documents: u64,
    settings: CorpusSettings,
    vocabulary: Vocabulary,
    order: Permutation,
    boilerplate: Vec<u32>,
    /// The ends of the slots of copies, near-duplicates, contained and identical documents.
    ends: [u64; 4],
    identical: Option<u64>,
}

/// The purpose of a stream of random numbers. Streams of different purposes are independent.
#[derive(Clone, Copy)]
enum Purpose {
    Vocabulary,
    Order,
    Boilerplate,
    Identical,
    Original,
    Change,
}

fn stream(seed: u64, purpose: Purpose, number: u64) -> SplitMix64 {
    let key = SplitMix64(seed ^ SplitMix64(purpose as u64).next()).next();
    SplitMix64(SplitMix64(key ^ number).next())
}

impl Corpus {
    /// Creates the corpus of `documents` that `settings` describe.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if documents are shorter than a shingle, or if there are more documents to plant than
    /// originals. The message names the setting.
    pub fn new(documents: u64, settings: CorpusSettings) -> Result<Self> {
        let ends = settings.slot_ends(documents)?;
        let CorpusSettings { words, seed, .. } = settings;
        let vocabulary = Vocabulary::new(settings.vocabulary, stream(seed, Purpose::Vocabulary, 0));
        let mut random = stream(seed, Purpose::Boilerplate, 0);
        let boilerplate = (0..settings.boilerplate_words.unwrap_or(words / 2))
            .map(|_| vocabulary.draw(&mut random))
            .collect();
        let order = Permutation::new(documents, stream(seed, Purpose::Order, 0));
        let identical = (ends[2]..ends[3]).map(|slot| order.document(slot)).min();
        Ok(Self { documents, settings, vocabulary, order, boilerplate, ends, identical })
    }

    /// Returns the id of a document: `d` and its number with at least nine digits. Below one billion documents, ids sort like numbers.
    fn id(&self, document: u64) -> String {
        format!("d{document:09}")
    }

    /// Appends the text of the document with this number, words separated by spaces. `words` is a reused buffer.
    pub fn text(&self, document: u64, words: &mut Vec<u32>, out: &mut String) {
        self.words(self.order.slot(document), words);
        words.iter().for_each(|&word| self.vocabulary.push(word, out));
        out.pop();
    }

    /// Returns how a document was planted, unless it is an original or the first identical document.
    fn planted(&self, document: u64) -> Option<CorpusDocument> {
        let slot = self.order.slot(document);
        let (kind, original) = self.origin(slot)?;
        let original = match kind {
            PlantedKind::Identical => self.identical.filter(|first| *first != document)?,
            PlantedKind::Copy | PlantedKind::Near | PlantedKind::Contained => self.order.document(original),
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.words(slot, &mut a);
        self.words(self.order.slot(original), &mut b);
        let jaccard = words::jaccard(&a, &b, self.settings.shingle);
        Some(CorpusDocument { document, original, kind, jaccard })
    }

    fn all_planted(&self) -> impl Iterator<Item = CorpusDocument> {
        (0..self.ends[3]).filter_map(|slot| self.planted(self.order.document(slot)))
    }

    /// Returns the kind of the document in `slot` and the slot of its original, unless it is an original. For identical documents, the
    /// second number has no meaning.
    fn origin(&self, slot: u64) -> Option<(PlantedKind, u64)> {
        let kinds = [PlantedKind::Copy, PlantedKind::Near, PlantedKind::Contained, PlantedKind::Identical];
        let (kind, _) = kinds.into_iter().zip(self.ends).find(|(_, end)| slot < *end)?;
        Some((kind, self.ends[3] + slot))
    }

    /// Replaces `words` by the words of the document in `slot`.
    fn words(&self, slot: u64, words: &mut Vec<u32>) {
        let CorpusSettings { seed, shingle, ref jaccards, .. } = self.settings;
        words.clear();
        match self.origin(slot) {
            None => {
                if self.has_boilerplate(slot - self.ends[3]) {
                    words.extend(&self.boilerplate);
                }
                self.draw(stream(seed, Purpose::Original, slot), words);
            }
            Some((PlantedKind::Identical, _)) => self.draw(stream(seed, Purpose::Identical, 0), words),
            Some((kind, original)) => {
                self.words(original, words);
                let mut random = stream(seed, Purpose::Change, slot);
                if kind == PlantedKind::Near {
                    let target = jaccards[((slot - self.ends[0]) % jaccards.len() as u64) as usize];
                    words::edit(words, target, shingle, &self.vocabulary, &mut random);
                } else if kind == PlantedKind::Contained {
                    words::passage(words, shingle, &mut random);
                }
            }
        }
    }

    /// Whether the original with this index begins with the boilerplate. These originals are spread evenly, in exactly the share of the
    /// settings.
    fn has_boilerplate(&self, original: u64) -> bool {
        let originals = self.documents - self.ends[3];
        let with_boilerplate = (originals as f64 * self.settings.boilerplate).round() as u128;
        let before = |n: u64| u128::from(n) * with_boilerplate / u128::from(originals);
        before(original) != before(original + 1)
    }

    /// Draws the remaining words of a document, at least enough for one shingle.
    fn draw(&self, mut random: SplitMix64, words: &mut Vec<u32>) {
        let CorpusSettings { words: mean, shingle, .. } = self.settings;
        let spread = (mean / 2).min(mean - shingle);
        let length = mean - spread + below(random.next(), 2 * spread as u64 + 1) as usize;
        let own = length.saturating_sub(words.len()).max(shingle);
        words.extend((0..own).map(|_| self.vocabulary.draw(&mut random)));
    }
}

const ROUNDS: usize = 4;

/// A pseudorandom permutation of 0..n, computed in both directions without a table.
///
/// A Feistel network permutes the numbers with as many bits as n, rounded up to an even number of bits. It is applied until the result is
/// less than n (Black and Rogaway, *Ciphers with arbitrary finite domains*, CT-RSA 2002).
#[derive(Debug)]
struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    fn new(n: u64, mut random: SplitMix64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Self { n, half_bits, keys: std::array::from_fn(|_| random.next()) }
    }

    fn slot(&self, document: u64) -> u64 {
        self.walk(document, |x| self.keys.iter().fold(x, |x, key| self.round(x, *key)))
    }

    fn document(&self, slot: u64) -> u64 {
        // A round inverts itself if the halves are exchanged before and after it.
        let undone = |x| self.keys.iter().rev().fold(self.exchange(x), |x, key| self.round(x, *key));
        self.walk(slot, |x| self.exchange(undone(x)))
    }

    fn walk(&self, mut x: u64, step: impl Fn(u64) -> u64) -> u64 {
        loop {
            x = step(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn round(&self, x: u64, key: u64) -> u64 {
        let (left, right) = self.halves(x);
        let mixed = SplitMix64(key ^ right).next() & self.mask();
        right << self.half_bits | (left ^ mixed)
    }

    fn exchange(&self, x: u64) -> u64 {
        let (left, right) = self.halves(x);
        right << self.half_bits | left
    }

    fn halves(&self, x: u64) -> (u64, u64) {
        (x >> self.half_bits, x & self.mask())
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn texts(corpus: &Corpus) -> Vec<String> {
        let mut words = Vec::new();
        let text = |document| {
            let mut text = String::new();
            corpus.text(document, &mut words, &mut text);
            text
        };
        (0..corpus.documents).map(text).collect()
    }

    fn shingles(text: &str, size: usize) -> BTreeSet<Vec<&str>> {
        text.split(' ').collect::<Vec<_>>().windows(size).map(<[_]>::to_vec).collect()
    }

    fn jaccard(a: &str, b: &str, size: usize) -> f64 {
        let (a, b) = (shingles(a, size), shingles(b, size));
        a.intersection(&b).count() as f64 / a.union(&b).count() as f64
    }

    /// Measurements on generated corpora are compared between versions, so a corpus must not change.
    #[test]
    fn a_seed_makes_the_same_documents_in_every_version() {
        let corpus = Corpus::new(1000, CorpusSettings { words: 8, ..CorpusSettings::default() }).unwrap();
        let texts = texts(&corpus);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(texts.join("\n").as_bytes()), 10_762_184_962_869_021_557);
        assert_eq!((corpus.id(7), corpus.id(1_234_567_890)), ("d000000007".into(), "d1234567890".into()));
        let texts_by_seed = |seed| {
            self::texts(&Corpus::new(20, CorpusSettings { seed, ..CorpusSettings::default() }).unwrap())
        };
        assert_eq!(texts_by_seed(1), texts_by_seed(1));
        assert!(texts_by_seed(1).iter().all(|text| !texts_by_seed(2).contains(text)));
    }

    #[test]
    fn planted_documents_have_the_stated_number_and_similarity() {
        let defaults = CorpusSettings::default();
        let settings = CorpusSettings { shingle: 3, near: 0.15, boilerplate: 0.3, identical: 7, ..defaults };
        let corpus = Corpus::new(2000, settings.clone()).unwrap();
        let texts = texts(&corpus);
        let planted: Vec<CorpusDocument> = corpus.all_planted().collect();
        let count = |kind| planted.iter().filter(|p| p.kind == kind).count();
        let kinds = [PlantedKind::Copy, PlantedKind::Near, PlantedKind::Contained, PlantedKind::Identical];
        assert_eq!(kinds.map(count), [100, 300, 40, 6]);
        let mut originals = BTreeSet::new();
        let mut near: Vec<f64> = Vec::new();
        for p in &planted {
            let (a, b) = (&texts[p.document as usize], &texts[p.original as usize]);
            assert_eq!(p.jaccard, jaccard(a, b, 3), "{p:?}");
            assert_eq!(corpus.planted(p.document), Some(*p));
            assert_eq!(corpus.planted(p.original), None, "made of an original");
            let is_first = p.kind == PlantedKind::Identical || originals.insert(p.original);
            assert!(is_first, "two are made of {}", p.original);
            match p.kind {
                PlantedKind::Copy | PlantedKind::Identical => assert_eq!(a, b),
                PlantedKind::Contained => assert!(b.contains(a.as_str())),
                PlantedKind::Near => near.push(p.jaccard),
            }
        }
        for target in &settings.jaccards {
            let close = near.iter().filter(|found| (*found - target).abs() < 0.02).count();
            assert!(close >= 55, "{close} of 60 near {target}");
        }
        let words: usize = texts.iter().map(|text| text.split(' ').count()).sum();
        assert!((95..105).contains(&(words / 2000)), "{words} words");
        let mut boilerplate = String::new();
        corpus.boilerplate.iter().for_each(|&word| corpus.vocabulary.push(word, &mut boilerplate));
        let with = |number: &u64| texts[*number as usize].starts_with(&boilerplate);
        let originals =
            (0..2000).filter(|slot| *slot >= corpus.ends[3]).map(|slot| corpus.order.document(slot));
        assert_eq!(originals.filter(with).count(), 466, "0.3 of 1553");
    }

    #[test]
    fn a_permutation_is_invertible_and_separates_neighbours() {
        for n in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097] {
            let permutation = Permutation::new(n, SplitMix64(n));
            let mut slots: Vec<u64> = (0..n).map(|document| permutation.slot(document)).collect();
            assert!(slots.iter().map(|slot| permutation.document(*slot)).eq(0..n), "{n}");
            slots.sort_unstable();
            assert_eq!(slots, (0..n).collect::<Vec<_>>());
        }
        let permutation = Permutation::new(1_000_000, SplitMix64(7));
        let near =
            (0..1000).filter(|&x| permutation.slot(x).abs_diff(permutation.slot(x + 1)) < 1000).count();
        assert!(near < 20, "{near} of 1000 neighbours stayed near");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn any_allowed_settings_make_a_corpus(
            documents in 1u64..60, words in 1usize..30, shingle in 1usize..9, vocabulary in 2usize..200,
            shares in [0.0..0.17f64, 0.0..0.17f64, 0.0..0.13f64], boilerplate in 0.0..=1.0f64,
            boilerplate_words in 0usize..40, seed in any::<u64>(),
        ) {
            let [copies, near, contained] = shares;
            let settings = CorpusSettings {
                words, seed, shingle, vocabulary, copies, near, contained, boilerplate,
                boilerplate_words: Some(boilerplate_words),
                ..CorpusSettings::default()
            };
            match Corpus::new(documents, settings) {
                Err(error) => prop_assert!(shingle > words || documents < 10, "{error}"),
                Ok(corpus) => {
                    let texts = texts(&corpus);
                    prop_assert!(texts.iter().all(|text| text.split(' ').count() >= shingle));
                    for p in corpus.all_planted() {
                        let found = jaccard(&texts[p.document as usize], &texts[p.original as usize], shingle);
                        prop_assert_eq!(p.jaccard, found);
                    }
                }
            }
        }
    }
}
