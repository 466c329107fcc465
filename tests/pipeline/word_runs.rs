//! `[passages]` with `unit = "word"`, against a map of all windows of words. Random cases are in `reference_passages`.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use crate::pipeline::spans::{Searched, Span, removals_last, spans, without_reference};
use crate::support::*;

/// The words of a text, in small letters, and their places in bytes: runs of letters, digits and underscores.
fn words(text: &str) -> Vec<(String, Range<usize>)> {
    let mut words: Vec<(String, Range<usize>)> = Vec::new();
    let mut inside = false;
    for (at, c) in text.char_indices() {
        let (end, is_word) = (at + c.len_utf8(), c.is_alphanumeric() || c == '_');
        match words.last_mut().filter(|_| inside && is_word) {
            Some((word, place)) => {
                word.extend(c.to_lowercase());
                place.end = end;
            }
            None if is_word => words.push((c.to_lowercase().collect(), at..end)),
            None => {}
        }
        inside = is_word;
    }
    words
}

type Place = (usize, usize);

/// A repeated window: its first word, where it is first, and where it occurs.
type Repeated<'a> = (usize, Place, &'a Vec<Place>);

/// The repeated windows of a document, and the settings of the job.
struct Windows<'a> {
    all: Vec<Repeated<'a>>,
    doc: usize,
    length: usize,
    gap: usize,
}

/// Words of a document, those up to the last window, and the first window.
struct Run {
    words: Range<usize>,
    in_windows: Range<usize>,
    first: usize,
    is_span: bool,
}

impl Windows<'_> {
    fn is_kept(&self, window: &Repeated<'_>) -> bool {
        window.1 == (self.doc, window.0)
    }

    fn contains(&self, window: &Repeated<'_>, word: usize) -> bool {
        (window.0..window.0 + self.length).contains(&word)
    }

    fn keeps(&self, word: usize) -> bool {
        self.all.iter().any(|window| self.is_kept(window) && self.contains(window, word))
    }

    /// The end of the words from a window on that follow each other where they are kept, too.
    fn end(&self, first: usize) -> usize {
        let (at, (doc, kept_at), _) = self.all[first];
        let mut end = at + self.length;
        for window in &self.all[first..] {
            if self.is_kept(window) || window.0 > end + self.gap {
                break;
            }
            if window.1 == (doc, kept_at + window.0 - at) {
                end = window.0 + self.length;
            }
        }
        end
    }

    /// The words that are not kept, in spans, and a window of each other document that keeps one.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let (mut word, end) = (0, self.all.last().map_or(0, |window| window.0 + self.length));
        while word < end {
            let around = self.all.iter().rposition(|window| self.contains(window, word));
            let Some(first) = around.filter(|_| !self.keeps(word)) else {
                word += 1;
                continue;
            };
            let mut start = word;
            let end = (word..self.end(first)).find(|&word| self.keeps(word)).unwrap_or(self.end(first));
            if let Some(before) = runs.last_mut() {
                let between = before.words.end..word;
                if between.len() <= self.gap && !between.clone().any(|word| self.keeps(word)) {
                    start = self.all[first].0;
                    before.words.end = start;
                    before.in_windows.end = before.in_windows.end.min(start);
                }
            }
            runs.push(Run { words: start..end, in_windows: start..end, first, is_span: true });
            word = end;
        }
        let mut docs: Vec<usize> = runs.iter().map(|run| self.all[run.first].1.0).collect();
        for (first, window) in self.all.iter().enumerate() {
            if !self.is_kept(window) && !docs.contains(&window.1.0) {
                docs.push(window.1.0);
                let words = window.0..self.end(first);
                runs.push(Run { in_windows: words.clone(), words, first, is_span: false });
            }
        }
        runs
    }
}

/// The spans of the new documents. If `new_old`, only windows of reference documents count.
pub fn expected_against(documents: &Searched, new_old: bool, length: usize, gap: usize) -> Vec<Span> {
    let cut: Vec<Vec<(String, Range<usize>)>> = documents.iter().map(|(_, (_, text))| words(text)).collect();
    // The number of reference documents that contain a window.
    let known = |places: &[(usize, usize)]| {
        let mut docs: Vec<usize> =
            places.iter().map(|place| place.0).filter(|&doc| documents[doc].0).collect();
        docs.sort();
        docs.dedup();
        docs.len()
    };
    let joined = |doc: usize, range: Range<usize>| {
        cut[doc][range].iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
    };
    // Windows by a hash, so that they are no larger than the texts.
    let hash = |doc: usize, range: Range<usize>| xxh3_128(joined(doc, range).as_bytes());
    let mut windows: HashMap<u128, Vec<(usize, usize)>> = HashMap::new();
    for (doc, words) in cut.iter().enumerate() {
        for at in 0..(words.len() + 1).saturating_sub(length) {
            windows.entry(hash(doc, at..at + length)).or_default().push((doc, at));
        }
    }
    let chars = |doc: usize, byte: usize| documents[doc].1.1[..byte].chars().count();
    let start_of = |doc: usize, word: usize| chars(doc, cut[doc][word].1.start);
    let span = |doc: usize, run: Range<usize>, end: usize, counts: [usize; 2], kept_at: Option<Place>| {
        let bytes = (cut[doc][run.start].1.start, end);
        let kept_doc = kept_at.map_or(doc, |(doc, _)| doc);
        let (kept_doc, kept_start) = match kept_at {
            Some((_, word)) => (kept_doc, start_of(kept_doc, word)),
            None => (doc, chars(doc, bytes.0)),
        };
        Span {
            id: documents[doc].1.0.clone(),
            chars: (chars(doc, bytes.0), chars(doc, bytes.1)),
            bytes,
            words: run.len(),
            occurrences: counts[0],
            reference_documents: counts[1],
            passage: format!("{:032x}", hash(doc, run)),
            kept: kept_at.is_none(),
            kept_at: (documents[kept_doc].1.0.clone(), kept_start),
            kept_reference: documents[kept_doc].0,
        }
    };
    let mut all = Vec::new();
    // The words that spans name, and their counts.
    let mut kept: BTreeMap<(usize, usize, usize), [usize; 2]> = BTreeMap::new();
    for (doc, (reference, _)) in documents.iter().enumerate() {
        let mine = (0..(cut[doc].len() + 1).saturating_sub(length))
            .map(|at| (at, &windows[&hash(doc, at..at + length)]))
            .filter(|(_, places)| places.len() > 1 && (!new_old || known(places) > 0))
            .map(|(at, places)| (at, places[0], places))
            .filter(|(_, first, places)| {
                !(*reference && documents[first.0].0) && places.iter().any(|place| !documents[place.0].0)
            });
        let mine = Windows { all: mine.collect(), doc, length, gap };
        let runs = mine.runs();
        for (number, run) in runs.iter().enumerate() {
            let (at, first, _) = mine.all[run.first];
            let inside = mine.all[run.first..].iter().enumerate();
            let inside: Vec<&Vec<Place>> = inside
                .filter(|(number, window)| *number == 0 || window.0 + length <= run.in_windows.end)
                .map(|(_, window)| window.2)
                .collect();
            let most = |of: &dyn Fn(&[Place]) -> usize| inside.iter().map(|places| of(places)).max().unwrap();
            let counts = [most(&|places| places.len()), most(&known)];
            let place = (first.0, first.1 + run.in_windows.start - at, run.in_windows.len());
            let most = kept.entry(place).or_default();
            *most = [most[0].max(counts[0]), most[1].max(counts[1])];
            if run.is_span && !reference {
                // A span ends where the next one begins.
                let next =
                    runs.get(number + 1).filter(|next| next.is_span && next.words.start == run.words.end);
                let end = match next {
                    Some(next) => cut[doc][next.words.start].1.start,
                    None => cut[doc][run.words.end - 1].1.end,
                };
                all.push(span(doc, run.words.clone(), end, counts, Some(first)));
            }
        }
    }
    for ((doc, at, words), counts) in kept {
        if !documents[doc].0 {
            all.push(span(doc, at..at + words, cut[doc][at + words - 1].1.end, counts, None));
        }
    }
    all.sort();
    all
}

/// Texts that have stretches of a few common ones, in other letters and with other characters between words.
pub fn texts(random: &mut Random, count: usize, vocabulary: usize) -> Vec<Document> {
    let word =
        |random: &mut Random| format!("{}{}", ["w", "ü", "日1x"][random.below(3)], random.below(vocabulary));
    let pool: Vec<Vec<String>> = (0..4).map(|_| (0..40).map(|_| word(random)).collect()).collect();
    let mut documents = Vec::new();
    for number in 0..count {
        let mut words: Vec<String> = ["a", "b", "c"].iter().map(|own| format!("{own}{number}own")).collect();
        for _ in 0..random.below(5) {
            let common = &pool[random.below(pool.len())];
            let start = random.below(common.len());
            let end = (start + 1 + random.below(20)).min(common.len());
            words.extend(common[start..end].iter().cloned());
            words.extend((0..random.below(4)).map(|_| word(random)));
        }
        let mut text = String::new();
        for word in words {
            text.push_str(&if random.below(5) == 0 { word.to_uppercase() } else { word });
            text.push_str([" ", " ", ", ", "\n", " – "][random.below(5)]);
        }
        documents.push((format!("d{number:03}"), text));
    }
    documents
}

/// Some bodies of stories; documents that are made up without the data.
fn stories() -> Vec<Document> {
    let Some(data) = real_data("reuters21578") else { return corpus(9, 750, 300) };
    let mut documents = Vec::new();
    for file in 0..2 {
        let file = std::fs::read(data.join(format!("reut2-00{file}.sgm"))).unwrap();
        let text = String::from_utf8_lossy(&file);
        let bodies = text.split("<BODY>").skip(1).map(|rest| rest.split("</BODY>").next().unwrap());
        for body in bodies {
            documents.push((format!("d{:06}", documents.len()), body.to_owned()));
        }
    }
    documents
}

/// Holds the spans of an output whose job keeps documents by their ids against the definition: how many there are.
fn check(documents: &[Document], output: &Path, length: usize) -> usize {
    let compared = strings(&table(output, "documents"), "id");
    let texts: HashMap<&String, &String> = documents.iter().map(|(id, text)| (id, text)).collect();
    let documents: Vec<Document> = compared.into_iter().map(|id| (id.clone(), texts[&id].clone())).collect();
    let searched = without_reference(&removals_last(&documents, output));
    let (found, wanted) = (spans(output), expected_against(&searched, false, length, 0));
    let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
    assert_eq!((differs, found.len()), (None, wanted.len()), "length {length}");
    found.len()
}

const SETS: [&str; 3] = ["passages.unit=word", "shingle.words=word-characters", "clusters.keep=['id']"];

#[test]
fn long_windows_of_stories_are_found() {
    let (scene, documents) = (Scene::new(&SETS), stories());
    scene.write("in.parquet", &documents);
    for length in [20, 50, 100] {
        let output = format!("{length}");
        let length_is = format!("passages.length={length}");
        scene.run("in.parquet", &output, &[&length_is, "shingle.normalize=['lowercase']"]);
        let found = check(&documents, &scene.path(&output), length);
        assert!(found > 50, "length {length}: {found} spans");
    }
}

/// The document that keeps a passage has all of its words, and each passage occurs at least twice.
#[test]
fn a_span_names_a_document_with_all_of_its_words() {
    for seed in seeds(9) {
        let (scene, mut random) = (Scene::new(&SETS), Random(seed));
        let length = 2 + random.below(9);
        let vocabulary = [2, 30, 1_000][random.below(3)];
        let documents = texts(&mut random, 40, vocabulary);
        scene.write("in.parquet", &documents);
        scene.run("in.parquet", "out", &[&format!("passages.length={length}")]);
        let only_words = |text: &str| words(text).into_iter().map(|(word, _)| word).collect::<Vec<_>>();
        let texts: BTreeMap<&String, &String> = documents.iter().map(|(id, text)| (id, text)).collect();
        let all: Vec<Vec<String>> = documents.iter().map(|(_, text)| only_words(text)).collect();
        let spans = spans(&scene.path("out"));
        for span in &spans {
            let passage = only_words(&texts[&span.id][span.bytes.0..span.bytes.1]);
            let rest: String = texts[&span.kept_at.0].chars().skip(span.kept_at.1).collect();
            let at = only_words(&rest).windows(passage.len()).position(|words| *words == passage).unwrap();
            assert!(at == 0 || at < length && passage.len() < length, "seed {seed}: {span:?}");
            let times = |words: &Vec<String>| words.windows(passage.len()).filter(|w| **w == passage).count();
            let times: usize = all.iter().map(times).sum();
            assert!(times > 1 && (passage.len() < length || times <= span.occurrences), "{times} {span:?}");
            let keeps = |other: &Span| {
                other.kept && (&other.passage, &other.kept_at.0) == (&span.passage, &span.kept_at.0)
            };
            assert!(spans.iter().any(keeps), "seed {seed}: {span:?}");
        }
    }
}
