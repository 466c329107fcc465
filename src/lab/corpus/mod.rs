//! Generated corpora: documents of made-up words. Some are planted as copies, near-duplicates of a known Jaccard similarity, or
//! passages of others, and some share boilerplate.
//!
//! A document depends on the settings and its number alone, so a corpus of any size is written in little memory, in any
//! order and by any number of threads, and is always the same. Planted documents, and their originals, are spread over
//! the corpus; no two have the same original. So all similar pairs are known: the planted ones, those of the identical
//! documents, and, if there is boilerplate, those that it makes.

mod plant;
pub(crate) mod settings;
mod shuffle;
mod vocabulary;
pub mod write;

use crate::error::Result;
use crate::kernel::hash::SplitMix64;
pub use settings::CorpusSettings;
use shuffle::Shuffle;
use vocabulary::{Vocabulary, below};

/// The kind of a planted document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlantedKind {
    /// A copy of another document.
    Copy,
    /// Another document with some words replaced.
    Near,
    /// A passage of another document.
    Contained,
    /// One of the identical documents; a copy of the first of them.
    Identical,
}

impl PlantedKind {
    /// The kind in a table: `copy`, `near`, `contained` or `identical`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PlantedKind::Copy => "copy",
            PlantedKind::Near => "near",
            PlantedKind::Contained => "contained",
            PlantedKind::Identical => "identical",
        }
    }
}

/// A planted document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CorpusDocument {
    /// Its number.
    pub document: u64,
    /// The number of its original.
    pub of: u64,
    /// Its kind.
    pub kind: PlantedKind,
    /// The Jaccard similarity of the two, exact, for shingles of [`CorpusSettings::shingle`] words.
    pub jaccard: f64,
}

/// A corpus: the data from which its documents are made.
///
/// Documents have *slots*, in this order: copies, near-duplicates, contained ones, identical ones, originals. The first
/// three are made from the first originals, in the same order. A shuffle assigns the slots to documents.
#[derive(Debug)]
pub struct Corpus {
    settings: CorpusSettings,
    vocabulary: Vocabulary,
    order: Shuffle,
    boilerplate: Vec<u32>,
    /// Slots up to the end of the copies, the near-duplicates, the contained and the identical ones.
    ends: [u64; 4],
    /// The identical document of the lowest number.
    identical: Option<u64>,
}

/// The purpose of a stream of random numbers.
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
    /// The corpus that `settings` describe.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if a number is out of its range, or if there are more documents to plant
    /// than originals; the message names the setting.
    pub fn new(settings: CorpusSettings) -> Result<Self> {
        let ends = settings.ends()?;
        let CorpusSettings { documents, seed, .. } = settings;
        let vocabulary = Vocabulary::new(settings.vocabulary, stream(seed, Purpose::Vocabulary, 0));
        let mut random = stream(seed, Purpose::Boilerplate, 0);
        let boilerplate = (0..settings.boilerplate_words).map(|_| vocabulary.draw(&mut random)).collect();
        let order = Shuffle::new(documents, stream(seed, Purpose::Order, 0));
        let identical = (ends[2]..ends[3]).map(|slot| order.from(slot)).min();
        Ok(Self { settings, vocabulary, order, boilerplate, ends, identical })
    }

    /// The settings of the corpus.
    pub(crate) fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// The id of a document: `d` and its number in nine digits, or more from a billion on. Below a billion, ids sort
    /// like the numbers.
    pub(crate) fn id(&self, document: u64) -> String {
        format!("d{document:09}")
    }

    /// Appends the text of a document, whose number is less than [`CorpusSettings::documents`]: words with one space between
    /// them. `words` is a buffer that is reused.
    pub fn text(&self, document: u64, words: &mut Vec<u32>, out: &mut String) {
        self.words(self.order.to(document), words);
        words.iter().for_each(|&word| self.vocabulary.push(word, out));
        out.pop();
    }

    /// The document that a document was made from, and the similarity of the two; `None` if it is an original.
    pub(crate) fn planted(&self, document: u64) -> Option<CorpusDocument> {
        let slot = self.order.to(document);
        let (kind, of) = match self.made(slot) {
            SlotOrigin::Original => return None,
            SlotOrigin::Identical if Some(document) == self.identical => return None,
            SlotOrigin::Identical => (PlantedKind::Identical, self.identical?),
            SlotOrigin::From(kind, of) => (kind, self.order.from(of)),
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.words(slot, &mut a);
        self.words(self.order.to(of), &mut b);
        Some(CorpusDocument { document, of, kind, jaccard: plant::jaccard(&a, &b, self.settings.shingle) })
    }

    /// Every planted document, by kind.
    pub(crate) fn all_planted(&self) -> impl Iterator<Item = CorpusDocument> {
        (0..self.ends[3]).filter_map(|slot| self.planted(self.order.from(slot)))
    }

    fn made(&self, slot: u64) -> SlotOrigin {
        let [copies, near, contained, identical] = self.ends;
        let of = identical + slot;
        match slot {
            slot if slot < copies => SlotOrigin::From(PlantedKind::Copy, of),
            slot if slot < near => SlotOrigin::From(PlantedKind::Near, of),
            slot if slot < contained => SlotOrigin::From(PlantedKind::Contained, of),
            slot if slot < identical => SlotOrigin::Identical,
            _ => SlotOrigin::Original,
        }
    }

    /// The words of the document in `slot`.
    fn words(&self, slot: u64, words: &mut Vec<u32>) {
        let CorpusSettings { seed, shingle, ref jaccards, .. } = self.settings;
        words.clear();
        match self.made(slot) {
            SlotOrigin::Original => {
                if self.has_boilerplate(slot - self.ends[3]) {
                    words.extend(&self.boilerplate);
                }
                self.draw(stream(seed, Purpose::Original, slot), words);
            }
            SlotOrigin::Identical => self.draw(stream(seed, Purpose::Identical, 0), words),
            SlotOrigin::From(kind, of) => {
                self.words(of, words);
                let mut random = stream(seed, Purpose::Change, slot);
                match kind {
                    PlantedKind::Near => {
                        let target = jaccards[((slot - self.ends[0]) % jaccards.len() as u64) as usize];
                        plant::edit(words, target, shingle, &self.vocabulary, &mut random);
                    }
                    PlantedKind::Contained => plant::passage(words, shingle, &mut random),
                    PlantedKind::Copy | PlantedKind::Identical => {}
                }
            }
        }
    }

    /// Whether the original of this number has the boilerplate: evenly spread, with exactly the share in the settings.
    fn has_boilerplate(&self, original: u64) -> bool {
        let originals = self.settings.documents - self.ends[3];
        let with = (originals as f64 * self.settings.boilerplate).round() as u128;
        let before = |n: u64| u128::from(n) * with / u128::from(originals);
        before(original) != before(original + 1)
    }

    /// Draws words for the rest of the document's length, and at least for a shingle.
    fn draw(&self, mut random: SplitMix64, words: &mut Vec<u32>) {
        let CorpusSettings { words: mean, shingle, .. } = self.settings;
        let spread = (mean / 2).min(mean - shingle);
        let length = mean - spread + below(random.next(), 2 * spread as u64 + 1) as usize;
        let own = length.saturating_sub(words.len()).max(shingle);
        words.extend((0..own).map(|_| self.vocabulary.draw(&mut random)));
    }
}

/// The origin of the document in a slot.
enum SlotOrigin {
    Original,
    Identical,
    /// Made from the document in this slot.
    From(PlantedKind, u64),
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
        (0..corpus.settings.documents).map(text).collect()
    }

    fn shingles(text: &str, size: usize) -> BTreeSet<Vec<&str>> {
        text.split(' ').collect::<Vec<_>>().windows(size).map(<[_]>::to_vec).collect()
    }

    fn jaccard(a: &str, b: &str, size: usize) -> f64 {
        let (a, b) = (shingles(a, size), shingles(b, size));
        a.intersection(&b).count() as f64 / a.union(&b).count() as f64
    }

    /// Measurements over generated corpora are compared over time, so a corpus must not change by accident.
    #[test]
    fn reference_documents() {
        let corpus =
            Corpus::new(CorpusSettings { documents: 1000, words: 8, ..CorpusSettings::default() }).unwrap();
        let texts = texts(&corpus);
        assert_eq!(
            texts[..2],
            [
                "vanop uwara ozada zitoralifo nehapife",
                "edok jemuh azag hufadoce zu ac jidofujabi wusew erewajojaf litih egimiwu"
            ]
        );
        assert_eq!(xxhash_rust::xxh3::xxh3_64(texts.join("\n").as_bytes()), 10_762_184_962_869_021_557);
        assert_eq!((corpus.id(7), corpus.id(1_234_567_890)), ("d000000007".into(), "d1234567890".into()));
    }

    #[test]
    fn as_many_as_asked_for_and_as_similar_as_said() {
        let settings = CorpusSettings {
            documents: 2000,
            shingle: 3,
            near: 0.15,
            boilerplate: 0.3,
            identical: 7,
            ..CorpusSettings::default()
        };
        let corpus = Corpus::new(settings.clone()).unwrap();
        let texts = texts(&corpus);
        let planted: Vec<CorpusDocument> = corpus.all_planted().collect();
        let count = |kind| planted.iter().filter(|p| p.kind == kind).count();
        assert_eq!(
            [PlantedKind::Copy, PlantedKind::Near, PlantedKind::Contained, PlantedKind::Identical].map(count),
            [100, 300, 40, 6]
        );
        let mut of = BTreeSet::new();
        let mut near: Vec<f64> = Vec::new();
        for p in &planted {
            let (a, b) = (&texts[p.document as usize], &texts[p.of as usize]);
            assert_eq!(p.jaccard, jaccard(a, b, 3), "{p:?}");
            assert_eq!(corpus.planted(p.document), Some(*p));
            assert_eq!(corpus.planted(p.of), None, "made of an original");
            assert!(p.kind == PlantedKind::Identical || of.insert(p.of), "two are made of {}", p.of);
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
        let originals = (0..2000).filter(|slot| *slot >= corpus.ends[3]).map(|slot| corpus.order.from(slot));
        assert_eq!(originals.filter(with).count(), 466, "0.3 of 1553");
    }

    #[test]
    fn seeds_differ() {
        let of = |seed| {
            texts(&Corpus::new(CorpusSettings { documents: 20, seed, ..CorpusSettings::default() }).unwrap())
        };
        assert_eq!(of(1), of(1));
        assert!(of(1).iter().all(|text| !of(2).contains(text)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn whatever_is_asked_for_is_made(
            documents in 1u64..60, words in 1usize..30, shingle in 1usize..9, vocabulary in 2usize..200,
            shares in [0.0..0.17f64, 0.0..0.17f64, 0.0..0.13f64], boilerplate in 0.0..=1.0f64,
            boilerplate_words in 0usize..40, seed in any::<u64>(),
        ) {
            let [copies, near, contained] = shares;
            let settings = CorpusSettings {
                documents, words, seed, shingle, vocabulary, copies, near, contained, boilerplate, boilerplate_words,
                ..CorpusSettings::default()
            };
            match Corpus::new(settings) {
                Err(error) => prop_assert!(shingle > words || documents < 10, "{error}"),
                Ok(corpus) => {
                    let texts = texts(&corpus);
                    prop_assert!(texts.iter().all(|text| text.split(' ').count() >= shingle));
                    for p in corpus.all_planted() {
                        let found = jaccard(&texts[p.document as usize], &texts[p.of as usize], shingle);
                        prop_assert_eq!(p.jaccard, found);
                    }
                }
            }
        }
    }
}
