//! Clusters at several thresholds, and clusters of pairs that another program wrote. Random cases are in `brute_force`.

use arrow::array::Float64Array;

use crate::support::*;

/// id -> (cluster_id, size, representative)
type Clusters = BTreeMap<String, (String, u64, bool)>;

/// Documents of equal length, among them long chains: each differs from the one before by one word.
fn chained(seed: u64) -> Vec<Document> {
    let mut random = Random(seed);
    let mut documents = corpus(seed, 120, 25);
    let mut text: Vec<String> = (0..25).map(|word| format!("c{word}")).collect();
    for at in 0..30 {
        let word = random.below(25);
        text[word] = format!("n{at}");
        documents.push((format!("c{at:05}"), text.join(" ")));
    }
    documents
}

fn read(batch: &RecordBatch) -> Clusters {
    let representative = batch.column_by_name("representative").unwrap().as_boolean();
    let ids = strings(batch, "id").into_iter().zip(strings(batch, "cluster_id"));
    let rows = ids.zip(numbers(batch, "size")).zip(representative.values().iter());
    let rows: Vec<_> = rows.map(|(((id, cluster), size), first)| (id, (cluster, size, first))).collect();
    let count = rows.len();
    let clusters: Clusters = rows.into_iter().collect();
    assert_eq!(clusters.len(), count, "a document has two rows");
    clusters
}

fn levels(output: &Path) -> Vec<(f64, Clusters)> {
    let batch = table(output, "cluster_levels");
    let thresholds = floats(&batch, "threshold");
    let mut levels = Vec::new();
    let mut from = 0;
    // The rows are sorted by their first column.
    while from < thresholds.len() {
        let rows = thresholds[from..].iter().take_while(|at| **at == thresholds[from]).count();
        levels.push((thresholds[from], read(&batch.slice(from, rows))));
        from += rows;
    }
    levels
}

const THRESHOLDS: [f64; 4] = [0.5, 0.625, 0.8, 1.0];

fn job_of(source: &Path, output: &Path, more: &[&str]) -> Job {
    let thresholds = format!("clusters.thresholds={THRESHOLDS:?}");
    job(source, output, &[&["score.threshold=0.5", "output.max_expand=0", &thresholds], more].concat())
}

fn write_pairs(path: &Path, pairs: &[(&str, &str, f64)]) {
    let a: ArrayRef = Arc::new(StringArray::from_iter_values(pairs.iter().map(|pair| pair.0)));
    let b: ArrayRef = Arc::new(StringArray::from_iter_values(pairs.iter().map(|pair| pair.1)));
    let scores: ArrayRef = Arc::new(Float64Array::from_iter_values(pairs.iter().map(|pair| pair.2)));
    write_table(path, vec![("id_a", a), ("id_b", b), ("score", scores)]);
}

fn write_table(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 3);
}

fn cluster(pairs: &Path, to: &Path, method: &str, more: &[&str]) -> Assert {
    program!["cluster", pairs, "--to", to, "--method", method].args(more).assert()
}

#[test]
fn anybodys_pairs_become_clusters() {
    let path = paths();
    // A chain e-d-c-b, a pair in both orders and twice, a document with itself, and a pair under the threshold.
    let rows = [
        ("e", "d", 0.9),
        ("c", "d", 0.8),
        ("c", "b", 0.95),
        ("x", "y", 1.0),
        ("y", "x", 0.9),
        ("x", "y", 0.1),
        ("s", "s", 1.0),
        ("b", "x", 0.79),
    ];
    write_pairs(&path("pairs.parquet"), &rows);
    for (method, expected) in [
        (
            "components",
            [("b", "b", 4), ("c", "b", 4), ("d", "b", 4), ("e", "b", 4), ("x", "x", 2), ("y", "x", 2)],
        ),
        (
            "representative",
            [("b", "b", 2), ("c", "b", 2), ("d", "d", 2), ("e", "d", 2), ("x", "x", 2), ("y", "x", 2)],
        ),
    ] {
        let to = path(&format!("{method}.parquet"));
        let counts = cluster(&path("pairs.parquet"), &to, method, &["--threshold", "0.8", "--json"]).json();
        let clusters = expected.iter().map(|row| row.1).collect::<BTreeSet<_>>().len();
        assert_eq!(counts, json!({ "clusters": clusters, "documents": 6 }));
        let batch = parquet(&to);
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["id", "cluster_id", "size", "representative"]);
        let expected: Clusters =
            expected.map(|(id, of, size)| (id.to_owned(), (of.to_owned(), size, id == of))).into();
        assert_eq!(read(&batch), expected, "{method}");
    }
    program!["cluster", path("pairs.parquet"), "--to", path("components.parquet")].assert().code(2);
}

#[test]
fn pairs_of_an_output_become_the_clusters_of_its_levels() {
    let path = paths();
    let documents = chained(5);
    write_parquet(&path("in.parquet"), &documents, 50);
    let keep = "clusters.keep=['id']";
    for method in ["components", "representative"] {
        let output = path(method);
        run(&job_of(&path("in.parquet"), &output, &[keep, &format!("clusters.method={method}")])).unwrap();
        for (threshold, level) in levels(&output) {
            let to = path(&format!("{method}-{threshold}.parquet"));
            let more = ["--score", "jaccard", "--threshold", &threshold.to_string()];
            cluster(&output.join("pairs"), &to, method, &more).success();
            assert_eq!(read(&parquet(&to)), level, "{method} {threshold}");
        }
    }
}

#[test]
fn numeric_ids_stay_numbers_and_wrong_pairs_are_an_error() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let numbers_of = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let scores: ArrayRef = Arc::new(Float64Array::from(vec![0.9, 0.9]));
    let (a, b) = (numbers_of(vec![Some(10), Some(9)]), numbers_of(vec![Some(9), Some(100)]));
    write_table(&path("numbers.parquet"), vec![("l", a.clone()), ("r", b), ("s", scores.clone())]);
    let cluster = |pairs: &str, more: &[&str]| {
        program!["cluster", path(pairs), "--to", path(&format!("{pairs}.out"))].args(more).assert()
    };
    cluster("numbers.parquet", &["--id-a", "l", "--id-b", "r", "--score", "s"]).success();
    let written = parquet(&path("numbers.parquet.out"));
    assert_eq!(numbers(&written, "id"), [9, 10, 100]);
    assert_eq!(numbers(&written, "cluster_id"), [9, 9, 9]);

    let write = |name: &str, b: ArrayRef, scores: ArrayRef| {
        write_table(&path(name), vec![("id_a", a.clone()), ("id_b", b), ("score", scores)]);
    };
    write("gap.parquet", numbers_of(vec![None, Some(1)]), scores.clone());
    // The sign of NaN decides whether the engine orders it before or behind all numbers.
    write("nan.parquet", a.clone(), Arc::new(Float64Array::from(vec![0.9, f64::NAN])));
    write("minus.parquet", a.clone(), Arc::new(Float64Array::from(vec![0.9, -f64::NAN])));
    write("mixed.parquet", Arc::new(StringArray::from(vec!["a", "b"])), scores);
    for (pairs, more, code, part) in [
        ("numbers.parquet", &["--to", "x"][..], 2, "cannot be used multiple times"),
        ("gap.parquet", &[], 3, "1 row without an id or a score"),
        ("nan.parquet", &[], 3, "1 row without an id or a score"),
        ("minus.parquet", &[], 3, "1 row without an id or a score"),
        ("mixed.parquet", &[], 3, "ids must have one type"),
        ("gap.parquet", &["--score", "jaccard"], 2, "no column `jaccard`: name one with --score"),
        ("none.parquet", &[], 3, "none.parquet"),
    ] {
        cluster(pairs, more).refused(code, &[part]);
        assert!(!path(&format!("{pairs}.out")).exists() || pairs.starts_with("numbers"));
    }
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().ends_with(".tmp")));
}
