//! Chooses the planted document of each original.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::edit::{self, Pool};
use crate::error::{Error, Result};
use crate::job::Shingle;
use crate::kernel::hash::SplitMix64;

/// What is planted. Shares are of all documents that are written.
#[derive(Debug, Clone, PartialEq)]
pub struct PlantingSettings {
    /// The seed of all random numbers.
    pub seed: u64,
    /// How texts are cut, for the similarities.
    pub shingle: Shingle,
    /// The share of copies.
    pub copies: f64,
    /// The share of documents with replaced words.
    pub near: f64,
    /// The similarities that those get, one after the other.
    pub jaccards: Vec<f64>,
    /// The share of documents that are a passage of another one.
    pub contained: f64,
    /// The share of documents that are another one under a common header.
    pub header: f64,
    /// Words of the header, which is the beginning of the first text that has so many.
    pub header_words: usize,
}

/// A planted document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlantedDocument {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) kind: &'static str,
    /// With its original, exact.
    pub(super) jaccard: f64,
}

/// Plants documents, one original after the other.
pub(super) struct Planter<'a> {
    settings: &'a PlantingSettings,
    /// The chances that the planted document of an original is a copy, an edit, a passage, or a text under the header: a running
    /// sum.
    chances: [f64; 4],
    pool: Pool,
    header: Option<String>,
    /// Edits that were made.
    edits: usize,
}

/// The kinds of planted documents.
const KINDS: [&str; 4] = ["copy", "near", "contained", "header"];

impl<'a> Planter<'a> {
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if a share is not one, or they add up to more than a half.
    pub(super) fn new(settings: &'a PlantingSettings) -> Result<Self> {
        let PlantingSettings { copies, near, contained, header, .. } = *settings;
        let shares = [copies, near, contained, header];
        let all: f64 = shares.iter().sum();
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || all > 0.5 {
            return Err(Error::job(format!(
                "copies, near, contained and boilerplate add up to {all}: each is a share from 0 to 1, and together they are at most \
                 0.5, since every planted document has an original of its own"
            )));
        }
        if settings.jaccards.is_empty() {
            return Err(Error::job("jaccards is empty: name a similarity"));
        }
        let mut sum = 0.0;
        let chances = shares.map(|share| {
            sum += share / (1.0 - all);
            sum
        });
        Ok(Self { settings, chances, pool: Pool::default(), header: None, edits: 0 })
    }

    /// The planted document of an original; `None` for most originals, and for texts without a shingle.
    pub(super) fn plant(&mut self, id: &str, text: &str) -> Result<Option<PlantedDocument>> {
        let PlantingSettings { seed, shingle, jaccards, header_words, .. } = self.settings;
        let mut random = SplitMix64(xxh3_64_with_seed(id.as_bytes(), *seed));
        let chance = random.next() as f64 / u64::MAX as f64;
        let kind = KINDS.iter().zip(self.chances).find(|(_, to)| chance < *to).map(|(kind, _)| *kind);
        let planted = match kind {
            Some(kind) if !edit::similarity(text, text, shingle)?.is_nan() => {
                let made = match kind {
                    "copy" => Some((text.to_owned(), 1.0)),
                    "near" => {
                        let target = jaccards[self.edits % jaccards.len()];
                        self.edits += 1;
                        Some(edit::edit(text, target, shingle, &self.pool, &mut random)?)
                    }
                    "contained" => {
                        let passage = edit::passage(text, shingle.size, &mut random);
                        Some((passage.to_owned(), edit::similarity(text, passage, shingle)?))
                    }
                    _ => match &self.header {
                        Some(header) => {
                            let with_header = format!("{header}\n{text}");
                            let jaccard = edit::similarity(text, &with_header, shingle)?;
                            Some((with_header, jaccard))
                        }
                        None => None,
                    },
                };
                made.map(|(text, jaccard)| PlantedDocument {
                    id: format!("{id}~{kind}"),
                    text,
                    kind,
                    jaccard,
                })
            }
            _ => None,
        };
        self.pool.add(text);
        if self.header.is_none() {
            let places = edit::words(text);
            let last = header_words.checked_sub(1).and_then(|last| places.get(last));
            self.header = last.map(|last| text[..last.end].to_owned());
        }
        Ok(planted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job;

    fn settings() -> PlantingSettings {
        let text = "source = { format = 'text', url = 'in' }\noutput.url = 'out'\nshingle.size = 3";
        let job = job::resolve(job::file::read(text, "job.toml", &[]).unwrap()).unwrap();
        PlantingSettings {
            seed: 1,
            shingle: job.shingle,
            copies: 0.1,
            near: 0.2,
            jaccards: vec![0.9, 0.5],
            contained: 0.1,
            header: 0.1,
            header_words: 10,
        }
    }

    /// A text of words that no other text has.
    fn text(number: usize) -> String {
        (0..200).map(|word| format!("w{number}x{word}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn texts_are_as_similar_as_asked_for() {
        let settings = settings();
        let mut planter = Planter::new(&settings).unwrap();
        let mut found = std::collections::BTreeMap::new();
        for number in 0..600 {
            let original = text(number);
            let Some(planted) = planter.plant(&number.to_string(), &original).unwrap() else { continue };
            assert_eq!(planted.id, format!("{number}~{}", planted.kind));
            assert_eq!(
                planted.jaccard,
                edit::similarity(&original, &planted.text, &settings.shingle).unwrap()
            );
            *found.entry(planted.kind).or_insert(0) += 1;
            match planted.kind {
                "copy" => assert_eq!(planted.text, original),
                "near" => {
                    let close =
                        settings.jaccards.iter().any(|target| (planted.jaccard - target).abs() < 0.02);
                    assert!(close, "{}", planted.jaccard);
                }
                "contained" => assert!(original.contains(&planted.text) && planted.jaccard < 0.51),
                _ => assert!(planted.text.starts_with("w0x0 ") && planted.text.ends_with(&original)),
            }
        }
        // Shares are of all documents: twice as large among the originals.
        for (kind, expected) in [("copy", 120), ("near", 240), ("contained", 120), ("header", 120)] {
            let found = f64::from(found[kind]);
            assert!((found - f64::from(expected)).abs() < 0.25 * f64::from(expected), "{kind}: {found}");
        }
    }

    #[test]
    fn nothing_is_made_of_texts_without_a_shingle() {
        let settings = PlantingSettings { copies: 0.5, near: 0.0, contained: 0.0, header: 0.0, ..settings() };
        let mut planter = Planter::new(&settings).unwrap();
        assert_eq!(planter.plant("a", " ").unwrap(), None);
        assert_eq!(planter.plant("b", "but three words").unwrap().unwrap().kind, "copy");
        assert!(Planter::new(&PlantingSettings { copies: 0.6, ..settings.clone() }).is_err());
        assert!(Planter::new(&PlantingSettings { near: f64::NAN, ..settings }).is_err());
    }
}
