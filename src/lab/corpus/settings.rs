//! The settings of a corpus.

use crate::error::{Error, Result};

/// The largest average number of words of a document.
pub(crate) const MAX_WORDS: usize = 10_000_000;
/// The largest number of different words.
pub(crate) const MAX_VOCABULARY: usize = 1_000_000;
/// The most words in a shingle.
pub(crate) const MAX_SHINGLE: usize = 1_000;
/// The most documents of a corpus: ten billion.
pub(crate) const MAX_DOCUMENTS: u64 = 10_000_000_000;

/// The settings of a corpus. Shares are of all documents, in [0, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusSettings {
    /// Documents.
    pub documents: u64,
    /// The average number of words of a document: lengths are spread evenly between half of it and one and a half times
    /// it.
    pub words: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Words in a shingle, for which the Jaccard similarities are stated.
    pub shingle: usize,
    /// Different words, at least 2.
    pub vocabulary: usize,
    /// Share of documents that are copies of another one, word for word.
    pub copies: f64,
    /// Share of documents that are another one with some words replaced.
    pub near: f64,
    /// Jaccard similarities of the near-duplicates, in turn. Each over 0 and at most 1.
    pub jaccards: Vec<f64>,
    /// Share of documents that are a passage, half, of another one.
    pub contained: f64,
    /// Share of the documents that are not planted which begin with the boilerplate. Documents that are made from them
    /// may have it too.
    pub boilerplate: f64,
    /// Words of the boilerplate. It replaces words of a document, but leaves at least a shingle of its own.
    pub boilerplate_words: usize,
    /// Documents that are equal to each other, and similar to no other.
    pub identical: u64,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            documents: 10_000,
            words: 100,
            seed: 42,
            shingle: 5,
            vocabulary: 20_000,
            copies: 0.05,
            near: 0.1,
            jaccards: vec![0.95, 0.9, 0.8, 0.7, 0.5],
            contained: 0.02,
            boilerplate: 0.0,
            boilerplate_words: 50,
            identical: 0,
        }
    }
}

impl CorpusSettings {
    /// Slots up to the end of the copies, the near-duplicates, the contained and the identical ones.
    ///
    /// # Errors
    /// As [`Corpus::new`](super::Corpus::new).
    pub(super) fn ends(&self) -> Result<[u64; 4]> {
        let range =
            |name: &str, value: usize, least: usize, most: usize| match (least..=most).contains(&value) {
                true => Ok(()),
                false => Err(Error::job(format!("{name} is {value}; allowed are {least} to {most}"))),
            };
        range("shingle", self.shingle, 1, MAX_SHINGLE)?;
        range("words", self.words, self.shingle, MAX_WORDS)?;
        range("vocabulary", self.vocabulary, 2, MAX_VOCABULARY)?;
        range("boilerplate-words", self.boilerplate_words, 0, MAX_WORDS)?;
        if !(1..=MAX_DOCUMENTS).contains(&self.documents) {
            let documents = self.documents;
            return Err(Error::job(format!("documents is {documents}; allowed are 1 to {MAX_DOCUMENTS}")));
        }
        let share = |name: &str, share: f64| match (0.0..=1.0).contains(&share) {
            true => Ok((self.documents as f64 * share).round() as u64),
            false => Err(Error::job(format!("{name} is {share}; allowed is a share from 0 to 1"))),
        };
        let copies = share("copies", self.copies)?;
        let near = share("near", self.near)?;
        let contained = share("contained", self.contained)?;
        share("boilerplate", self.boilerplate)?;
        let jaccard = |&jaccard: &f64| jaccard > 0.0 && jaccard <= 1.0;
        if self.jaccards.is_empty() || !self.jaccards.iter().all(jaccard) {
            return Err(Error::job(format!(
                "jaccards are {:?}; allowed is one or more, each over 0 and at most 1",
                self.jaccards
            )));
        }
        let planted = copies + near + contained;
        let needed = 2 * u128::from(planted) + u128::from(self.identical);
        if needed > self.documents.into() {
            return Err(Error::job(format!(
                "copies, near and contained add up to {planted} documents, each made from a document of its own, and \
                 identical is {}: that needs {needed} documents, but there are only {}; lower one of them",
                self.identical, self.documents
            )));
        }
        Ok([copies, copies + near, planted, planted + self.identical])
    }
}
