//! Random corpora under random settings, against a brute force that shares no code with the program: every row of every
//! table must be the same, to the last digit.
//!
//! `RESEMBLANCE_CASES` is the number of corpora (40 without it), `RESEMBLANCE_SEED` the first seed.

mod answer;
mod settings;
mod sketch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use resemblance::error::{Kind, Result};
use resemblance::job::Job;
use resemblance::pipeline::Outcome;

use self::answer::{Answer, Cluster, Pair, Reject};
use self::settings::Settings;
use crate::support::sketch_joins::{Machine, run_on};
use crate::support::{
    Random, floats, job, manifest, numbers, run, seeds, signature_values, strings, table, write_batch,
};

/// A document as it is in its file.
#[derive(Debug, Clone)]
pub struct Document {
    id: Option<String>,
    text: Option<String>,
}

/// A file of documents, by the name under which it is read.
type Files = Vec<(String, Vec<Document>)>;

/// The share of the cases that one of four tests takes, which run side by side.
fn cases(quarter: u64) {
    let (mut pairs, mut rejects) = (0, 0);
    for seed in seeds(40).filter(|seed| seed % 4 == quarter) {
        let answer = case(seed, |_, job| run(job));
        pairs += answer.pairs.len();
        rejects += answer.rejects.len();
    }
    // Ten cases without a pair would prove nothing.
    assert!(
        seeds(40).count() < 40 || pairs > 10 && rejects > 10,
        "{pairs} pairs and {rejects} rejects in these cases"
    );
}

#[test]
fn random_cases_first_quarter() {
    cases(0);
}

#[test]
fn random_cases_second_quarter() {
    cases(1);
}

#[test]
fn random_cases_third_quarter() {
    cases(2);
}

#[test]
fn random_cases_last_quarter() {
    cases(3);
}

/// The same cases, with candidates that are joined with their sketches at random.
#[test]
fn random_cases_with_every_join() {
    let mut taken = BTreeMap::new();
    for seed in seeds(40).map(|seed| seed + 1_000_000) {
        case(seed, |output, job| {
            let mut random = Random(!seed);
            let task_bytes = if random.below(4) == 0 { usize::MAX } else { 1 << (8 + random.below(10)) };
            let (one_process, partitions) = (random.below(2) == 0, 1 + random.below(9));
            let outcome = run_on(job, Machine { task_bytes, one_process, partitions });
            if outcome.is_ok() {
                for stage in manifest(output).stages {
                    *taken.entry(stage.join).or_insert(0) += 1;
                }
            }
            outcome
        });
    }
    let missing = ["held", "segments", "blocks"].into_iter();
    let missing: Vec<_> = missing.filter(|join| !taken.contains_key(&Some((*join).to_owned()))).collect();
    assert!(seeds(40).count() < 40 || missing.is_empty(), "no case took {missing:?}: {taken:?}");
}

/// Makes a corpus and settings of a seed, runs them, and compares every table with the brute force's.
fn case(seed: u64, mut run: impl FnMut(&Path, &Job) -> Result<Outcome>) -> Answer {
    let mut random = Random(seed);
    let settings = Settings::random(&mut random);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("in");
    std::fs::create_dir(&source).unwrap();
    let mut files = files(&mut random, &source);
    let answer = loop {
        match answer::answer(&files, &settings) {
            Ok(answer) => break answer,
            // Which of two documents with one id counts is not asked of those that are too short to be compared.
            Err(id) => rename(&mut files, &id),
        }
    };
    for (path, documents) in &files {
        write(Path::new(path), documents, 1 + random.below(30));
    }

    let output = folder.path().join("out");
    let sets = settings.sets();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let what = format!("seed {seed}, {}", sets.join(" "));
    let outcome = run(&output, &job(&source, &output, &sets));
    if settings.needs_more_shingles(&answer) {
        assert_eq!(outcome.map(|_| ()).unwrap_err().kind(), Kind::Job, "{what}");
        return answer;
    }
    outcome.unwrap_or_else(|error| panic!("{error:?}: {what}"));
    compare(&output, &answer, &what);
    answer
}

/// Gives every document but the first of these an id of its own.
fn rename(files: &mut Files, id: &str) {
    let mut number = 0;
    for document in files.iter_mut().flat_map(|(_, documents)| documents) {
        if document.id.as_deref() == Some(id) {
            if number > 0 {
                document.id = Some(format!("{id}-{number}"));
            }
            number += 1;
        }
    }
}

fn compare(output: &Path, answer: &Answer, what: &str) {
    let pairs = table(output, "pairs");
    let shared_bands = pairs.column_by_name("shared_bands").unwrap().as_primitive::<Int32Type>().clone();
    let (ids_a, ids_b) = (strings(&pairs, "id_a"), strings(&pairs, "id_b"));
    let [jaccard, estimate, containment_a, containment_b] =
        ["jaccard", "estimate", "containment_a", "containment_b"].map(|column| floats(&pairs, column));
    let [shared, shingles_a, shingles_b] =
        ["shared", "shingles_a", "shingles_b"].map(|column| numbers(&pairs, column));
    let found: Vec<Pair> = (0..pairs.num_rows())
        .map(|row| Pair {
            ids: (ids_a[row].clone(), ids_b[row].clone()),
            jaccard: jaccard[row],
            estimate: estimate[row],
            containments: (containment_a[row], containment_b[row]),
            shared: shared[row],
            shingles: (shingles_a[row], shingles_b[row]),
            shared_bands: u16::try_from(shared_bands.value(row)).unwrap(),
        })
        .collect();
    same("pairs", found, &answer.pairs, what);

    let clusters = table(output, "clusters");
    let representative = clusters.column_by_name("representative").unwrap().as_boolean().clone();
    let (ids, cluster_ids) = (strings(&clusters, "id"), strings(&clusters, "cluster_id"));
    let sizes = numbers(&clusters, "size");
    let found: Vec<Cluster> = (0..clusters.num_rows())
        .map(|row| Cluster {
            id: ids[row].clone(),
            cluster_id: cluster_ids[row].clone(),
            size: sizes[row],
            representative: representative.value(row),
        })
        .collect();
    same("clusters", found, &answer.clusters, what);

    let rejects = table(output, "rejects");
    let (sources, positions) = (strings(&rejects, "source"), numbers(&rejects, "position"));
    let (ids, reasons) = (strings(&rejects, "id"), strings(&rejects, "reason"));
    let mut found: Vec<Reject> = (0..rejects.num_rows())
        .map(|row| Reject {
            source: sources[row].clone(),
            position: positions[row],
            id: ids[row].clone(),
            reason: reasons[row].clone(),
        })
        .collect();
    let mut counts = BTreeMap::new();
    for reject in &found {
        *counts.entry(reject.reason.clone()).or_insert(0) += 1;
    }
    for reject in &mut found {
        if reject.reason == "empty_text" && answer.emptied.contains(&(reject.source.clone(), reject.position))
        {
            reject.reason = "too_short".into();
        }
    }
    same("rejects", found, &answer.rejects, what);
    assert_eq!(manifest(output).rejects, counts, "{what}");

    let documents = table(output, "documents");
    let ids = strings(&documents, "id");
    let row: BTreeMap<&String, usize> = ids.iter().zip(0..).collect();
    assert_eq!(row.len(), answer.documents.len(), "documents: {what}");
    let list = |column: &str, row: usize| {
        documents.column_by_name(column).map(|lists| lists.as_list::<i32>().value(row))
    };
    let signatures = documents.column_by_name("signature").map(signature_values);
    for (id, (signature, set)) in &answer.documents {
        let row = *row.get(id).unwrap_or_else(|| panic!("document {id}: {what}"));
        if let Some(found) = signatures.as_ref().map(|signatures| &signatures[row]) {
            assert_eq!(found, signature, "signature of {id}: {what}");
        }
        if let Some(found) = list("shingles", row) {
            let found = found.as_primitive::<Int64Type>().values().iter().map(|v| v.cast_unsigned());
            assert_eq!(found.collect::<Vec<_>>(), *set, "shingles of {id}: {what}");
        }
    }
}

/// Ends the test at the first row that is not the same.
fn same<T: Ord + std::fmt::Debug>(table: &str, mut found: Vec<T>, expected: &[T], what: &str) {
    found.sort();
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{table}: {what}");
    }
    let longer =
        if found.len() > expected.len() { &found[expected.len()..] } else { &expected[found.len()..] };
    assert!(
        longer.is_empty(),
        "{table} has {} rows, expected {}: {longer:?} {what}",
        found.len(),
        expected.len()
    );
}

/// Up to three files of documents that are new, copies, near copies, or wrong in some way.
fn files(random: &mut Random, folder: &Path) -> Files {
    let count = 10 + random.below(60);
    let length = 8 + random.below(30);
    let vocabulary = 20 + random.below(400);
    let mut texts: Vec<Vec<String>> = Vec::new();
    let mut documents: Vec<Document> = Vec::new();
    for number in 0..count {
        let mut words: Vec<String> = match texts.len() {
            0 => new_words(random, length, vocabulary),
            known => match random.below(4) {
                0 => new_words(random, length, vocabulary),
                _ => texts[random.below(known)].clone(),
            },
        };
        for _ in 0..[0, 0, 1, 1, 3][random.below(5)] {
            let at = random.below(words.len());
            match random.below(3) {
                0 => words[at] = word(random, vocabulary),
                1 => words.insert(at, word(random, vocabulary)),
                _ if words.len() > 1 => {
                    words.remove(at);
                }
                _ => {}
            }
        }
        if random.below(25) == 0 {
            words.truncate(1 + random.below(3));
        }
        let mut text = String::new();
        for word in &words {
            text.push_str(word);
            text.push_str([" ", " ", " ", "  ", "\n", ", ", "\t", "\u{a0}", ". "][random.below(9)]);
        }
        texts.push(words);
        let text = match random.below(40) {
            0 => None,
            1 => Some(String::new()),
            2 => Some(" \r\n\t ".to_owned()),
            _ => Some(text),
        };
        let id = match (random.below(40), documents.is_empty()) {
            (0, _) => None,
            (1 | 2, false) => documents[random.below(documents.len())].id.clone(),
            // Such that their order is not that of the documents.
            _ => Some(format!("{:x}-{number}", random.next() % 4096)),
        };
        documents.push(Document { id, text });
    }
    let mut files = Files::new();
    for name in ["a.parquet", "b.parquet", "c.parquet"].iter().take(1 + random.below(3)) {
        let taken = documents.len().min(1 + random.below(count));
        let rest = documents.split_off(taken);
        files.push((folder.join(name).display().to_string(), documents));
        documents = rest;
        if documents.is_empty() {
            break;
        }
    }
    files[0].1.append(&mut documents);
    files
}

fn new_words(random: &mut Random, length: usize, vocabulary: usize) -> Vec<String> {
    (0..length / 2 + random.below(length)).map(|_| word(random, vocabulary)).collect()
}

/// A word that one of the rules or steps may take in another way than others do.
fn word(random: &mut Random, vocabulary: usize) -> String {
    const ODD: [&str; 24] = [
        "the",
        "The",
        "AND",
        "a",
        "isn't",
        "don't",
        "12",
        "3.5",
        "x1",
        "1,000;2",
        "ΣΑΣ",
        "éA",
        "ﬁn",
        "½",
        "İ",
        "中文",
        "カ",
        "_",
        "snake_case",
        "-",
        "e\u{301}",
        "\u{200d}",
        "naïve",
        "U.S.A.",
    ];
    match random.below(6) {
        0 => ODD[random.below(ODD.len())].to_owned(),
        1 => format!("W{}", random.below(vocabulary)),
        _ => format!("w{}", random.below(vocabulary)),
    }
}

fn write(path: &Path, documents: &[Document], row_group: usize) {
    let ids: ArrayRef = Arc::new(documents.iter().map(|d| d.id.as_deref()).collect::<StringArray>());
    let texts: ArrayRef = Arc::new(documents.iter().map(|d| d.text.as_deref()).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("text", texts, true)]).unwrap();
    write_batch(path, &batch, row_group);
}
