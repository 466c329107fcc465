//! Plants documents among real texts: copies, edits with a given similarity, passages, and texts under a common header. An original has
//! at most one planted document, so all planted pairs are known.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

use arrow::array::{Array, RecordBatch, StringArray};
use datafusion::common::cast::{as_boolean_array, as_string_array};
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::corpus::CorpusSettings;
use super::corpus::files::{self, PlantedPair, documents_batch, truth_batch};
use super::corpus::words::below;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Job, Shingle};
use crate::kernel::hash::SplitMix64;
use crate::kernel::measure::{jaccard_of, shared};
use crate::kernel::text::shingles::shingle_set;
use crate::pipeline::OnExisting;
use crate::source;

const HEADER_WORDS: usize = 50;

/// The number of documents and bytes that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedFiles {
    /// The number of originals.
    pub originals: u64,
    /// The number of planted documents.
    pub planted: u64,
    /// The number of skipped rows in the source, which lack an id or a readable text.
    pub left_out: u64,
    /// The number of bytes in the file of documents.
    pub bytes: u64,
    /// The number of bytes in the file of planted documents, if there is one.
    pub truth_bytes: Option<u64>,
}

/// Writes the documents of the source of `job` with planted documents as the Parquet file `out` with the columns `id` and `text`.
///
/// A planted document follows its original. At most `most` rows of the source are read, in order of (source, position). The file `truth`
/// gets one row per planted document. `id_a` and `id_b` are the ids of the planted document and its original, in ascending order. `kind`
/// is `copy`, `near`, `contained` or `header`. `jaccard` is the exact similarity, and `size` is the number of units in a shingle.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if a setting is out of range, or a file must not be overwritten.
/// Returns [`Kind::Input`](crate::error::Kind::Input) if the source cannot be read or has no document, or if a file cannot be written.
pub async fn write(
    session: &SessionContext,
    job: &Job,
    most: Option<usize>,
    settings: &CorpusSettings,
    (out, truth, existing): (&Path, Option<&Path>, OnExisting),
) -> Result<PlantedFiles> {
    let Job { source, shingle, .. } = job;
    let mut planter = Planter::new(settings, shingle)?;
    let mut documents = files::create(out, existing, &batch(&[])?)?;
    let size = shingle.size;
    let truth = truth.map(|path| files::create(path, existing, &truth_batch(Vec::new(), size)?));
    let mut truth = truth.transpose()?;
    let read = source::open(session, source).await?;
    let order = vec![col("source").sort(true, false), col("position").sort(true, false)];
    let frame = read.frame.sort(order)?.limit(0, most)?;
    let has_defect = col("defect").is_not_null().alias("has_defect");
    let mut batches = frame.select(vec![utf8("id"), utf8("text"), has_defect])?.execute_stream().await?;
    let (mut originals, mut all_planted, mut left_out) = (0, 0, 0);
    while let Some(read) = batches.try_next().await? {
        let (ids, texts) = (as_string_array(read.column(0))?, as_string_array(read.column(1))?);
        let defects = as_boolean_array(read.column(2))?;
        let (mut rows, mut pairs) = (Vec::new(), Vec::new());
        for row in 0..read.num_rows() {
            if ids.is_null(row) || texts.is_null(row) || defects.value(row) {
                left_out += 1;
                continue;
            }
            let (id, text) = (ids.value(row), texts.value(row));
            originals += 1;
            rows.push((id.to_owned(), text.to_owned()));
            if let Some((pair, text)) = planter.plant(id, text)? {
                all_planted += 1;
                rows.push((pair.ids[1].clone(), text));
                pairs.push(pair);
            }
        }
        documents.write(&batch(&rows)?)?;
        if let Some(truth) = &mut truth {
            truth.write(&truth_batch(pairs, size)?)?;
        }
    }
    if originals == 0 {
        return Err(Error::input(format!(
            "{} has no document with an id and a text",
            source.urls.join(", ")
        )));
    }
    let bytes = files::finish(documents, existing)?;
    let truth_bytes = truth.map(|truth| files::finish(truth, existing)).transpose()?;
    Ok(PlantedFiles { originals, planted: all_planted, left_out, bytes, truth_bytes })
}

fn batch(rows: &[(String, String)]) -> Result<RecordBatch> {
    documents_batch(
        StringArray::from_iter_values(rows.iter().map(|row| &row.0)),
        StringArray::from_iter_values(rows.iter().map(|row| &row.1)),
    )
}

/// Plants documents beside the originals, which are passed one after the other.
struct Planter<'a> {
    settings: &'a CorpusSettings,
    /// Splits texts into shingles, for the similarities.
    shingle: &'a Shingle,
    /// The cumulative probabilities of the kinds of planted documents.
    chances: [f64; 4],
    pool: Pool,
    header: Option<String>,
    /// The number of documents with replaced words.
    edits: usize,
}

const KINDS: [&str; 4] = ["copy", "near", "contained", "header"];

impl<'a> Planter<'a> {
    /// Fails with `Kind::Job` if the shares add up to more than one half.
    fn new(settings: &'a CorpusSettings, shingle: &'a Shingle) -> Result<Self> {
        let CorpusSettings { copies, near, contained, boilerplate, .. } = *settings;
        let shares = [copies, near, contained, boilerplate];
        let all: f64 = shares.iter().sum();
        if all > 0.5 {
            return Err(Error::job(format!(
                "copies, near, contained and boilerplate add up to {all}: together they are at most 0.5, since every planted document \
                 has an original of its own"
            )));
        }
        let mut sum = 0.0;
        let chances = shares.map(|share| {
            sum += share / (1.0 - all);
            sum
        });
        Ok(Self { settings, shingle, chances, pool: Pool::default(), header: None, edits: 0 })
    }

    /// Returns a planted document for an original, or `None` by chance. Texts without a shingle get none.
    fn plant(&mut self, id: &str, text: &str) -> Result<Option<(PlantedPair, String)>> {
        let (settings, shingle) = (self.settings, self.shingle);
        let mut random = SplitMix64(xxh3_64_with_seed(id.as_bytes(), settings.seed));
        let chance = random.next() as f64 / u64::MAX as f64;
        let mut planted = None;
        if let Some((kind, _)) = KINDS.into_iter().zip(self.chances).find(|(_, end)| chance < *end)
            && !similarity(text, text, shingle)?.is_nan()
            && let Some(variant) = self.variant(kind, text, &mut random)?
        {
            let jaccard = similarity(text, &variant, shingle)?;
            let ids = [id.to_owned(), format!("{id}~{kind}")];
            planted = Some((PlantedPair { ids, kind, jaccard }, variant));
        }
        self.pool.add(text);
        if self.header.is_none() {
            let words = word_ranges(text);
            let header_words = settings.boilerplate_words.unwrap_or(HEADER_WORDS);
            let last = header_words.checked_sub(1).and_then(|last| words.get(last));
            self.header = last.map(|last| text[..last.end].to_owned());
        }
        Ok(planted)
    }

    /// Returns the text of a planted document. `None` if the kind is `header` and no text has given a header yet.
    fn variant(&mut self, kind: &str, text: &str, random: &mut SplitMix64) -> Result<Option<String>> {
        let (jaccards, shingle) = (&self.settings.jaccards, self.shingle);
        Ok(match kind {
            "copy" => Some(text.to_owned()),
            "near" => {
                let target = jaccards[self.edits % jaccards.len()];
                self.edits += 1;
                Some(edit(text, target, shingle, &self.pool, random)?)
            }
            "contained" => Some(passage(text, shingle.size, random).to_owned()),
            _ => self.header.as_ref().map(|header| format!("{header}\n{text}")),
        })
    }
}

const POOL: usize = 1_000;
/// The maximum number of draws for a word that differs from the replaced word.
const DRAWS: usize = 8;

/// The words that were read last. Replacements are drawn from them.
#[derive(Debug, Default)]
struct Pool(VecDeque<String>);

impl Pool {
    /// Adds the words of a text, and removes the oldest words above [`POOL`].
    fn add(&mut self, text: &str) {
        self.0.extend(text.split_whitespace().take(POOL).map(str::to_owned));
        let over = self.0.len().saturating_sub(POOL);
        self.0.drain(..over);
    }

    fn draw(&self, old: &str, random: &mut SplitMix64) -> String {
        let words = (0..DRAWS).filter_map(|_| self.0.get(below_usize(random, self.0.len())));
        let mut others = words.filter(|word| word.to_lowercase() != old.to_lowercase());
        others.next().cloned().unwrap_or_else(|| format!("{old}x"))
    }
}

fn below_usize(random: &mut SplitMix64, end: usize) -> usize {
    below(random.next(), end as u64) as usize
}

/// Returns the byte ranges of the words in a text, between white space.
fn word_ranges(text: &str) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect()
}

/// Replaces words in a text, so that the Jaccard similarity with the original text is as close to `target` as possible. The fewer words a
/// text has, the less exact the similarity is.
fn edit(text: &str, target: f64, shingle: &Shingle, pool: &Pool, random: &mut SplitMix64) -> Result<String> {
    let words = word_ranges(text);
    // Words are replaced in the order `order`, by the words of `new`.
    let mut order: Vec<usize> = (0..words.len()).collect();
    for at in 0..order.len() {
        let other = at + below_usize(random, order.len() - at);
        order.swap(at, other);
    }
    let new: Vec<String> = order.iter().map(|&word| pool.draw(&text[words[word].clone()], random)).collect();
    let replaced = |count: usize| {
        let mut chosen: Vec<(usize, &String)> = order[..count].iter().copied().zip(&new).collect();
        chosen.sort_unstable_by_key(|(word, _)| *word);
        let (mut edited, mut at) = (String::with_capacity(text.len()), 0);
        for (word, new) in chosen {
            edited.push_str(&text[at..words[word].start]);
            edited.push_str(new);
            at = words[word].end;
        }
        edited.push_str(&text[at..]);
        edited
    };
    // The similarity falls with the number of replaced words. The best number is the largest one whose similarity is at least `target`,
    // or the next one.
    let (mut low, mut high) = (0, words.len());
    while high - low > 1 {
        let middle = low.midpoint(high);
        if similarity(text, &replaced(middle), shingle)? >= target {
            low = middle;
        } else {
            high = middle;
        }
    }
    let [a, b] = [low, high].map(replaced);
    let distance = |edited: &str| Ok::<_, Error>((similarity(text, edited, shingle)? - target).abs());
    Ok(if distance(&a)? <= distance(&b)? { a } else { b })
}

/// Returns a random passage with half of the words, at least `least`.
fn passage<'a>(text: &'a str, least: usize, random: &mut SplitMix64) -> &'a str {
    let words = word_ranges(text);
    let length = (words.len() / 2).max(least).min(words.len());
    let first = below_usize(random, words.len() - length + 1);
    match (words.get(first), words.get((first + length).wrapping_sub(1))) {
        (Some(first), Some(last)) => &text[first.start..last.end],
        _ => text,
    }
}

/// Returns the Jaccard similarity of the shingle sets of two texts; NaN if neither text has a shingle.
fn similarity(a: &str, b: &str, shingle: &Shingle) -> Result<f64> {
    let (a, b) = (shingle_set(a, shingle)?, shingle_set(b, shingle)?);
    Ok(jaccard_of(shared(&a, &b), a.len() as u64, b.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job;

    fn settings() -> CorpusSettings {
        CorpusSettings {
            seed: 1,
            copies: 0.1,
            near: 0.2,
            jaccards: vec![0.9, 0.5],
            contained: 0.1,
            boilerplate: 0.1,
            boilerplate_words: Some(10),
            ..CorpusSettings::default()
        }
    }

    /// A text of words that occur in no other text.
    fn text(number: usize) -> String {
        (0..200).map(|word| format!("w{number}x{word}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn texts_are_as_similar_as_asked_for() {
        let (settings, shingle) = (settings(), job::with_keys("shingle.size = 3").shingle);
        let mut planter = Planter::new(&settings, &shingle).unwrap();
        let mut found = std::collections::BTreeMap::new();
        for number in 0..600 {
            let original = text(number);
            let planted = planter.plant(&number.to_string(), &original).unwrap();
            let Some((planted, text)) = planted else { continue };
            assert_eq!(planted.ids, [number.to_string(), format!("{number}~{}", planted.kind)]);
            assert_eq!(planted.jaccard, similarity(&original, &text, &shingle).unwrap());
            *found.entry(planted.kind).or_insert(0) += 1;
            match planted.kind {
                "copy" => assert_eq!(text, original),
                "near" => {
                    let close =
                        settings.jaccards.iter().any(|target| (planted.jaccard - target).abs() < 0.02);
                    assert!(close, "{}", planted.jaccard);
                }
                "contained" => assert!(original.contains(&text) && planted.jaccard < 0.51),
                _ => assert!(text.starts_with("w0x0 ") && text.ends_with(&original)),
            }
        }
        // Shares are fractions of all documents, so they are twice as large as fractions of the originals.
        for (kind, expected) in [("copy", 120), ("near", 240), ("contained", 120), ("header", 120)] {
            let found = f64::from(found[kind]);
            assert!((found - f64::from(expected)).abs() < 0.25 * f64::from(expected), "{kind}: {found}");
        }
    }

    #[test]
    fn texts_without_a_shingle_have_no_variant() {
        let shingle = job::with_keys("shingle.size = 3").shingle;
        let settings =
            CorpusSettings { copies: 0.5, near: 0.0, contained: 0.0, boilerplate: 0.0, ..settings() };
        let mut planter = Planter::new(&settings, &shingle).unwrap();
        assert!(planter.plant("a", " ").unwrap().is_none());
        assert_eq!(planter.plant("b", "but three words").unwrap().unwrap().0.kind, "copy");
        assert!(Planter::new(&CorpusSettings { copies: 0.6, ..settings }, &shingle).is_err());
    }
}
