//! `[passages]` with `unit = "word"`, against a map of all windows of words. Random cases are in `reference_passages`.

use std::collections::HashMap;
use std::ops::Range;

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

fn expected(documents: &[Document], length: usize, gap: usize) -> Vec<Span> {
    expected_against(&without_reference(documents), false, length, gap)
}

/// The document and the first word of a window.
type Place = (usize, usize);

/// A repeated window: its first word, where it is first, and where it occurs.
type Repeated<'a> = (usize, Place, &'a Vec<Place>);

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
    let mut all = Vec::new();
    for (doc, (reference, (id, text))) in documents.iter().enumerate() {
        if *reference {
            continue;
        }
        let chars = |byte: usize| text[..byte].chars().count();
        // The repeated windows of the document: first word, where it is first, and where it occurs.
        let mine: Vec<Repeated<'_>> = (0..(cut[doc].len() + 1).saturating_sub(length))
            .map(|at| (at, &windows[&hash(doc, at..at + length)]))
            .filter(|(_, places)| places.len() > 1 && (!new_old || known(places) > 0))
            .map(|(at, places)| (at, places[0], places))
            .collect();
        let is_kept = |window: &Repeated<'_>| window.1 == (doc, window.0);
        let state = |word: usize| {
            let holding = mine.iter().filter(|window| (window.0..window.0 + length).contains(&word));
            holding.map(is_kept).max()
        };
        let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
        for word in 0..cut[doc].len() {
            let Some(kept) = state(word) else { continue };
            match runs.last_mut() {
                Some((run, same)) if *same == kept && word <= run.end + gap => run.end = word + 1,
                _ => runs.push((word..word + 1, kept)),
            }
        }
        for (run, kept) in runs {
            let of_run = || mine.iter().filter(|window| is_kept(window) == kept);
            let touches = |at: usize| at < run.end && run.start < at + length;
            let inside = || of_run().filter(|window| touches(window.0)).map(|window| window.2);
            let occurrences = inside().map(|places| places.len()).max().unwrap();
            let reference_documents = inside().map(|places| known(places)).max().unwrap();
            let before = |window: &&Repeated<'_>| window.0 <= run.start && touches(window.0);
            let (first_doc, first_at) = of_run().rfind(before).unwrap().1;
            let start_of = |doc: usize, word: usize| {
                let (_, place) = &cut[doc][word];
                documents[doc].1.1[..place.start].chars().count()
            };
            let bytes = (cut[doc][run.start].1.start, cut[doc][run.end - 1].1.end);
            let kept_at = match kept {
                true => (id.clone(), chars(bytes.0)),
                false => (documents[first_doc].1.0.clone(), start_of(first_doc, first_at)),
            };
            all.push(Span {
                id: id.clone(),
                chars: (chars(bytes.0), chars(bytes.1)),
                bytes,
                words: run.len(),
                occurrences,
                reference_documents,
                passage: format!("{:032x}", hash(doc, run.clone())),
                kept,
                kept_at,
                kept_reference: !kept && documents[first_doc].0,
            });
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
fn check(documents: &[Document], output: &Path, length: usize, gap: usize) -> usize {
    let compared = strings(&table(output, "documents"), "id");
    let texts: HashMap<&String, &String> = documents.iter().map(|(id, text)| (id, text)).collect();
    let documents: Vec<Document> = compared.into_iter().map(|id| (id.clone(), texts[&id].clone())).collect();
    let (found, wanted) = (spans(output), expected(&removals_last(&documents, output), length, gap));
    let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
    assert_eq!((differs, found.len()), (None, wanted.len()), "length {length}, gap {gap}");
    found.len()
}

#[test]
fn long_windows_of_stories_are_found() {
    let path = paths();
    let documents = stories();
    write_parquet(&path("in.parquet"), &documents, 1_000);
    for length in [20, 50, 100] {
        let (output, length_is) = (path(&format!("{length}")), format!("passages.length={length}"));
        let sets =
            ["passages.unit=word", "shingle.words=word-characters", "clusters.keep=['id']", &length_is];
        run(&job(&path("in.parquet"), &output, &[&sets[..], &["shingle.normalize=['lowercase']"]].concat()))
            .unwrap();
        let found = check(&documents, &output, length, 0);
        assert!(found > 50, "length {length}: {found} spans");
    }
}
