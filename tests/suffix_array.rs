//! `[passages]` with `unit = "word"`, against a suffix array over the words of all documents.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;

use libsais_sys::libsais::libsais_int;
use resemblance::job::Passages;
use tempfile::tempdir;
use xxhash_rust::xxh3::xxh3_128;

use crate::spans::{Span, removals_last, spans};
use crate::support::*;
use crate::word_runs;

/// A word: its number, the same for all words of its spelling in small letters, and its place.
struct Word {
    number: i32,
    bytes: Range<usize>,
    chars: Range<usize>,
}

/// Documents in the order in which passages of them are kept, cut into words: runs of letters, digits and underscores.
struct Cut<'a> {
    documents: &'a [Document],
    words: Vec<Vec<Word>>,
    /// The words by their numbers.
    names: Vec<String>,
}

impl<'a> Cut<'a> {
    fn new(documents: &'a [Document]) -> Self {
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |word: &str| {
            let word = word.to_lowercase();
            *numbers.entry(word.clone()).or_insert_with(|| {
                names.push(word);
                names.len() as i32 - 1
            })
        };
        let cut = |(_, text): &'a Document| {
            let (mut words, mut start, mut chars) = (Vec::new(), None, 0);
            for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
                match (c.is_alphanumeric() || c == '_', start) {
                    (true, None) => start = Some((at, chars)),
                    (false, Some((from, first))) => {
                        let number = number(&text[from..at]);
                        words.push(Word { number, bytes: from..at, chars: first..chars });
                        start = None;
                    }
                    _ => {}
                }
                chars += 1;
            }
            words
        };
        let words = documents.iter().map(cut).collect();
        Self { documents, words, names }
    }

    fn joined(&self, words: &[Word]) -> String {
        let names: Vec<&str> = words.iter().map(|word| self.names[word.number as usize].as_str()).collect();
        names.join(" ")
    }
}

/// The places in the order of what begins there.
fn suffix_array(numbers: &mut [i32]) -> Vec<usize> {
    let mut places = vec![0_i32; numbers.len()];
    let length = i32::try_from(numbers.len()).unwrap();
    assert!(numbers.iter().all(|number| *number >= 0));
    let kinds = numbers.iter().max().map_or(1, |most| most + 1);
    // SAFETY: both arrays have `length` elements, and all numbers are at least 0 and less than `kinds`. The numbers are restored.
    let error = unsafe { libsais_int(numbers.as_mut_ptr(), places.as_mut_ptr(), length, kinds, 0) };
    assert_eq!(error, 0);
    places.into_iter().map(|at| at as usize).collect()
}

/// The windows of `length` numbers that occur more than once: for each place where one begins, where it begins first and how often it
/// occurs. Windows with a number that is unique do not.
fn repeated(numbers: &mut [i32], length: usize) -> Vec<Option<(usize, usize)>> {
    let suffixes = suffix_array(numbers);
    // What each suffix has in common with the one before it (Kasai et al., CPM 2001).
    let (mut ranks, mut common) = (vec![0; suffixes.len()], vec![0; suffixes.len()]);
    suffixes.iter().enumerate().for_each(|(rank, &at)| ranks[at] = rank);
    let mut same = 0;
    for at in 0..numbers.len() {
        let Some(before) = ranks[at].checked_sub(1) else {
            same = 0;
            continue;
        };
        let other = suffixes[before];
        while numbers.get(at + same).is_some_and(|number| numbers.get(other + same) == Some(number)) {
            same += 1;
        }
        common[ranks[at]] = same;
        same = same.saturating_sub(1);
    }
    let mut found = vec![None; numbers.len()];
    let mut start = 0;
    while start < suffixes.len() {
        let more = common[start + 1..].iter().take_while(|&&common| common >= length).count();
        let group = &suffixes[start..start + 1 + more];
        if more > 0 {
            let first = group.iter().copied().min().unwrap();
            group.iter().for_each(|&at| found[at] = Some((first, group.len())));
        }
        start += group.len();
    }
    found
}

/// A window: its first word in its document, whether it is its first occurrence, how often it occurs, and where it begins first.
struct Window {
    at: usize,
    is_first: bool,
    occurrences: usize,
    first: usize,
}

/// The spans of all documents, and how many words are in them.
fn expected(documents: &[Document], length: usize, gap: usize) -> (Vec<Span>, usize) {
    let cut = Cut::new(documents);
    // Behind each document a number that no other place has.
    let (mut numbers, mut starts) = (Vec::new(), Vec::new());
    for (document, words) in cut.words.iter().enumerate() {
        starts.push(numbers.len());
        numbers.extend(words.iter().map(|word| word.number));
        numbers.push((cut.names.len() + document) as i32);
    }
    let repeated = repeated(&mut numbers, length);
    let place = |at: usize| {
        let document = starts.partition_point(|&start| start <= at) - 1;
        (document, at - starts[document])
    };
    let (mut all, mut covered) = (Vec::new(), 0);
    for (document, (words, &start)) in cut.words.iter().zip(&starts).enumerate() {
        let window = |at: usize| {
            let (first, occurrences) = repeated[start + at]?;
            Some(Window { at, is_first: first == start + at, occurrences, first })
        };
        let windows: Vec<Window> = (0..words.len()).filter_map(window).collect();
        // Runs of words that all stay or all go.
        let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
        let (mut next, mut last, mut last_first) = (windows.iter().peekable(), None, None);
        for word in 0..words.len() {
            if let Some(window) = next.next_if(|window| window.at == word) {
                last = Some(word);
                last_first = if window.is_first { Some(word) } else { last_first };
            }
            let holds = |window: Option<usize>| window.is_some_and(|at| word < at + length);
            if !holds(last) {
                continue;
            }
            covered += 1;
            let kept = holds(last_first);
            match runs.last_mut() {
                Some((run, same)) if *same == kept && word <= run.end + gap => run.end = word + 1,
                _ => runs.push((word..word + 1, kept)),
            }
        }
        for (run, kept) in runs {
            let from = windows.partition_point(|window| window.at + length <= run.start);
            let to = windows.partition_point(|window| window.at < run.end);
            let of_run: Vec<&Window> =
                windows[from..to].iter().filter(|window| window.is_first == kept).collect();
            let (first, last) = (&words[run.start], &words[run.end - 1]);
            let kept_at = if kept {
                (document, run.start)
            } else {
                place(of_run.iter().rfind(|window| window.at <= run.start).unwrap().first)
            };
            all.push(Span {
                id: documents[document].0.clone(),
                chars: (first.chars.start, last.chars.end),
                bytes: (first.bytes.start, last.bytes.end),
                words: run.len(),
                occurrences: of_run.iter().map(|window| window.occurrences).max().unwrap(),
                reference_documents: 0,
                passage: format!("{:032x}", xxh3_128(cut.joined(&words[run]).as_bytes())),
                kept,
                kept_at: (cut.documents[kept_at.0].0.clone(), cut.words[kept_at.0][kept_at.1].chars.start),
                kept_reference: false,
            });
        }
    }
    all.sort();
    (all, covered)
}

/// Holds the spans of an output, whose job keeps documents by their ids, against those of a suffix array: how many there are, and how
/// many words are in repeated windows.
fn check(documents: &[Document], output: &Path, length: usize, gap: usize) -> (usize, usize) {
    let compared: BTreeSet<String> = strings(&table(output, "documents"), "id").into_iter().collect();
    let mut documents: Vec<Document> =
        documents.iter().filter(|(id, _)| compared.contains(id)).cloned().collect();
    documents.sort();
    let (wanted, covered) = expected(&removals_last(&documents, output), length, gap);
    let found = spans(output);
    if let Some((found, wanted)) = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted) {
        panic!("length {length}, gap {gap}: {found:?} instead of {wanted:?}");
    }
    assert_eq!(found.len(), wanted.len(), "length {length}, gap {gap}");
    (found.len(), covered)
}

/// The settings with which the words of a job are those of [`Cut`].
const SETS: [&str; 4] = [
    "passages.unit=word",
    "shingle.words=word-characters",
    "shingle.normalize=['lowercase']",
    "clusters.keep=['id']",
];

/// Long passages that several documents have, between words of their own.
fn made(random: &mut Random, count: usize) -> Vec<Document> {
    let words = |random: &mut Random, count: usize| -> Vec<String> {
        (0..count).map(|_| format!("w{}", random.below(50_000))).collect()
    };
    let pool: Vec<Vec<String>> = (0..count / 10).map(|_| words(random, 250)).collect();
    let document = |number| {
        let mut all = Vec::new();
        for _ in 0..random.below(6) {
            let own = 1 + random.below(90);
            all.extend(words(random, own));
            let common = &pool[random.below(pool.len())];
            let start = random.below(common.len());
            all.extend(common[start..(start + random.below(200)).min(common.len())].iter().cloned());
        }
        all.extend(words(random, 5));
        (format!("d{number:06}"), all.join(" "))
    };
    (0..count).map(document).collect()
}

/// Some bodies of stories; documents that are made up without the data.
fn corpus_of_megabytes() -> Vec<Document> {
    let Some(data) = real_data("reuters21578") else { return made(&mut Random(9), 4_000) };
    let mut documents = Vec::new();
    for file in 0..4 {
        let file = std::fs::read(data.join(format!("reut2-00{file}.sgm"))).unwrap();
        let text = String::from_utf8_lossy(&file);
        let bodies = text.split("<BODY>").skip(1).map(|rest| rest.split("</BODY>").next().unwrap());
        for body in bodies {
            documents.push((format!("d{:06}", documents.len()), body.to_owned()));
        }
    }
    documents
}

#[test]
fn ranges_are_those_of_a_suffix_array() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let documents = corpus_of_megabytes();
    write_parquet(&path("in.parquet"), &documents, 1_000);
    for length in [20, 50, 100] {
        let (output, length_is) = (path(&format!("{length}")), format!("passages.length={length}"));
        run(&job(&path("in.parquet"), &output, &[&SETS[..], &[&length_is]].concat())).unwrap();
        let (found, covered) = check(&documents, &output, length, 0);
        assert!(found > 50 && covered > 50 * length, "length {length}: {found} spans, {covered} words");
    }
}

#[test]
fn ranges_are_those_of_a_suffix_array_in_any_setting() {
    let mut found = 0;
    for seed in seeds(100) {
        let mut random = Random(seed ^ 0x5a);
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (count, vocabulary) = (1 + random.below(30), [2, 30, 1_000][random.below(3)]);
        let documents = word_runs::texts(&mut random, count, vocabulary);
        write_parquet(&path("in.parquet"), &documents, 7);
        let (length, gap) = (2 + random.below(15), random.below(5));
        let further = [
            format!("passages.length={length}"),
            format!("passages.gap={gap}"),
            format!("engine.threads={}", 1 + random.below(3)),
            "lsh.bands=1".to_owned(),
            "lsh.rows=4".to_owned(),
            "minhash.permutations=4".to_owned(),
        ];
        let sets: Vec<&str> = SETS.into_iter().chain(further.iter().map(String::as_str)).collect();
        run(&job(&path("in.parquet"), &path("out"), &sets)).unwrap();
        found += check(&documents, &path("out"), length, gap).0;
    }
    assert!(found > 500, "{found}");
}

/// The same of any finished output with the settings above, for corpora of 100 MB and more: `RESEMBLANCE_CORPUS` is the Parquet file with
/// the columns `id` and `text`, and `RESEMBLANCE_OUTPUT` the output.
#[test]
#[ignore = "needs a corpus and an output"]
fn ranges_of_an_output_are_those_of_a_suffix_array() {
    let [corpus, output] =
        ["RESEMBLANCE_CORPUS", "RESEMBLANCE_OUTPUT"].map(|name| std::env::var(name).unwrap());
    let documents = read_parquet(Path::new(&corpus));
    let output = Path::new(&output);
    let passages = manifest(output).job["passages"].clone();
    let passages: Passages = serde_json::from_value(passages).unwrap();
    let (length, gap) = passages.words().expect("the output has no runs of words");
    let bytes: usize = documents.iter().map(|(_, text)| text.len()).sum();
    let (found, covered) = check(&documents, output, length, gap);
    eprintln!(
        "{bytes} bytes, length {length}, gap {gap}: {found} spans, {covered} words in repeated windows"
    );
}

fn read_parquet(path: &Path) -> Vec<Document> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut documents = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        documents.extend(strings(&batch, "id").into_iter().zip(strings(&batch, "text")));
    }
    documents
}
