//! `clusters.keep`: which document represents its cluster, against a plain comparison.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use resemblance::error::Kind;
use resemblance::job::{self, Job};
use tempfile::tempdir;

use crate::support::*;

/// A document with what it carries.
#[derive(Clone)]
struct Carried {
    id: String,
    text: String,
    year: Option<i64>,
    shop: Option<&'static str>,
}

fn carried(seed: u64) -> Vec<Carried> {
    let mut random = Random(seed);
    let of = |(id, text): Document| Carried {
        id,
        text,
        year: [None, Some(1999), Some(2005), Some(-3)][random.below(4)],
        shop: [None, Some("north"), Some("south"), Some("west")][random.below(4)],
    };
    corpus(seed, 150, 25).into_iter().map(of).collect()
}

fn write(path: &Path, documents: &[Carried]) {
    let strings = |of: fn(&Carried) -> Option<&str>| -> ArrayRef {
        Arc::new(StringArray::from_iter(documents.iter().map(of)))
    };
    let years = Int64Array::from_iter(documents.iter().map(|document| document.year));
    let columns: [(&str, ArrayRef); 4] = [
        ("id", strings(|document| Some(&document.id))),
        ("text", strings(|document| Some(&document.text))),
        ("year", Arc::new(years)),
        ("shop", strings(|document| document.shop)),
    ];
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 40);
}

/// The document that a list of preferences wants most has the smallest of these.
type Wanted = fn(&Carried) -> (u64, i64, i64, String);

fn shingle_count(document: &Carried) -> i64 {
    shingles(&document.text, 3).len() as i64
}

const CASES: [(&str, Wanted); 4] = [
    ("['length desc', 'id', 'reference']", |d| (0, -shingle_count(d), 0, d.id.clone())),
    ("['year desc', 'length desc', 'id', 'reference']", |d| {
        let Reverse(year) = Reverse(d.year.unwrap_or(i64::MIN + 1));
        (0, -year, -shingle_count(d), d.id.clone())
    }),
    ("['shop in (west, south)', 'year', 'id', 'reference']", |d| {
        let place = match d.shop {
            Some("west") => 0,
            Some("south") => 1,
            Some(_) => 2,
            None => 3,
        };
        (place, d.year.unwrap_or(i64::MAX), 0, d.id.clone())
    }),
    ("['id desc', 'reference']", |d| {
        (0, 0, 0, d.id.chars().map(|c| char::from(b'z' - (c as u8 - b'0').min(60))).collect())
    }),
];

/// Holds the representatives of an output against the documents; some may be reference documents.
fn check(output: &Path, documents: &[Carried], wanted: Wanted, what: &str) -> usize {
    let by_id: BTreeMap<&str, &Carried> = documents.iter().map(|d| (d.id.as_str(), d)).collect();
    let clusters = table(output, "clusters");
    let representative = clusters.column_by_name("representative").unwrap().as_boolean().clone();
    let mut best: BTreeMap<String, &Carried> = BTreeMap::new();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let ids = strings(&clusters, "id").into_iter().zip(strings(&clusters, "cluster_id"));
    for (row, (id, cluster)) in ids.enumerate() {
        let document = by_id[id.as_str()];
        best.entry(cluster.clone())
            .and_modify(|best| {
                if wanted(document) < wanted(best) {
                    *best = document;
                }
            })
            .or_insert(document);
        if representative.value(row) {
            assert_eq!(found.insert(cluster.clone(), id), None, "{cluster} {what}");
        }
    }
    let best: BTreeMap<String, String> =
        best.into_iter().map(|(cluster, d)| (cluster, d.id.clone())).collect();
    assert_eq!(found, best, "{what}");
    found.len()
}

#[test]
fn what_is_wanted_most_represents_its_cluster() {
    for (seed, (keep, wanted)) in (0..).zip(CASES) {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let documents = carried(seed);
        write(&path("all.parquet"), &documents);
        write(&path("first.parquet"), &documents[..90]);
        write(&path("second.parquet"), &documents[90..]);
        let keep = format!("clusters.keep={keep}");
        let of = |source: &str, output: &str, more: &[&str]| {
            let sets = [&["source.columns=['year', 'shop']", &keep, "output.max_expand=3"], more].concat();
            job(&path(source), &path(output), &sets)
        };
        run(&of("all.parquet", "whole", &[])).unwrap();
        assert!(check(&path("whole"), &documents, wanted, &keep) > 15);

        // Also where some are known, and in a merged output.
        run(&of("first.parquet", "one", &[])).unwrap();
        let known = format!("against.output={:?}", path("one").display().to_string());
        let last = of("second.parquet", "two", &[&known]);
        run(&last).unwrap();
        assert!(check(&path("two"), &documents, wanted, &keep) > 5);
        let outputs = ["one", "two"].map(|name| path(name).display().to_string()).to_vec();
        run(&Job::of_merge(outputs, &last, &path("merged").display().to_string())).unwrap();
        assert_eq!(table(&path("merged"), "clusters"), table(&path("whole"), "clusters"), "{keep}");
    }
}

/// Numbers and texts have no common order: a known output whose column is of the other kind is refused, and one of other numbers is
/// not. Whether a value is listed is asked of either.
#[test]
fn documents_are_ordered_by_columns_of_one_kind() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = "one two three four five six seven eight nine ten";
    let write = |name: &str, ids: [&str; 2], years: ArrayRef| {
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(StringArray::from(ids.to_vec()))),
            ("text", Arc::new(StringArray::from(vec![text; 2]))),
            ("year", years),
        ];
        write_batch(&path(name), &RecordBatch::try_from_iter(columns).unwrap(), 30);
    };
    write("texts.parquet", ["a", "b"], Arc::new(StringArray::from(vec!["9", "10"])));
    write("small.parquet", ["a", "b"], Arc::new(Int32Array::from(vec![9, 10])));
    write("own.parquet", ["c", "d"], Arc::new(Int64Array::from(vec![100, 8])));
    let of = |source: &str, keep: &str, more: &[&str]| {
        let keep = format!("clusters.keep=['{keep}', 'reference']");
        let output = path(&format!("{source}-{}-{}", more.len(), keep.len()));
        (job(&path(source), &output, &[&["source.columns=['year']", &keep], more].concat()), output)
    };
    let known = |source: &str| {
        let (job, output) = of(source, "id", &[]);
        run(&job).unwrap();
        format!("against.output={:?}", output.display().to_string())
    };
    let (texts, small) = (known("texts.parquet"), known("small.parquet"));
    let error = run(&of("own.parquet", "year desc", &[&texts]).0).unwrap_err();
    let said = error.to_string();
    assert_eq!(error.kind(), Kind::Job);
    assert!(said.contains("`year`") && said.contains("Int64") && said.contains("texts.parquet-0"), "{said}");
    assert!(!of("own.parquet", "year desc", &[&texts]).1.exists());
    for (keep, known, expected) in
        [("year desc", &small, "c"), ("year", &small, "d"), ("year in (10, 8)", &texts, "b")]
    {
        let (job, output) = of("own.parquet", keep, &[known]);
        run(&job).unwrap();
        let clusters = table(&output, "clusters");
        let representative = clusters.column_by_name("representative").unwrap().as_boolean().clone();
        let ids = strings(&clusters, "id").into_iter().zip(representative.values().iter());
        let found: Vec<String> = ids.filter_map(|(id, is)| is.then_some(id)).collect();
        assert_eq!(found, [expected], "{keep}");
    }
}

/// A second source carries nothing, so of its documents what is known of all decides.
#[test]
fn of_a_second_source_the_first_document_that_is_wanted_represents_a_cluster() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = "one two three four five six seven eight nine ten";
    let of = |id: &str, text: &str, year| Carried {
        id: id.into(),
        text: text.into(),
        year: Some(year),
        shop: None,
    };
    write(&path("own.parquet"), &[of("a", text, 2005), of("b", text, 1999)]);
    write(&path("reference.parquet"), &[of("y", text, 7), of("x", &format!("{text} eleven"), 8)]);
    let source = second_source(path("reference.parquet"), "");
    for (keep, expected) in [
        ("['year']", "x"),
        ("['length desc']", "x"),
        ("['length']", "y"),
        ("['reference', 'year']", "x"),
        ("['year', 'reference']", "b"),
        ("['length', 'id', 'reference']", "a"),
    ] {
        let output = path(keep);
        let keep = format!("clusters.keep={keep}");
        run(&job(&path("own.parquet"), &output, &["source.columns=['year']", &keep, &source])).unwrap();
        let clusters = table(&output, "clusters");
        let representative = clusters.column_by_name("representative").unwrap().as_boolean().clone();
        let ids = strings(&clusters, "id").into_iter().zip(representative.values().iter());
        let found: Vec<String> = ids.filter_map(|(id, is)| is.then_some(id)).collect();
        assert_eq!(found, [expected], "{keep}");
    }
}

#[test]
fn what_documents_do_not_carry_is_refused() {
    let text = job_text("in", "out");
    for (keep, said) in [
        ("['year desc']", "names `year`, which documents do not carry"),
        ("['group']", "no document has a group"),
        ("['id in (']", "names `id in (`"),
        ("['id in ()']", "has an empty value"),
    ] {
        let file = job::file::read(&text, "job.toml", &[format!("clusters.keep={keep}")]).unwrap();
        let error = job::resolve(file).unwrap_err().to_string();
        assert!(error.contains("`clusters.keep`") && error.contains(said), "{error}");
    }
}
