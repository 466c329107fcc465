//! `source.group` and `candidates.compare`, against a comparison of every two documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use resemblance::error::Kind;
use resemblance::job::{self, Job};
use tempfile::{TempDir, tempdir};

use crate::support::walk::least_reachable;
use crate::support::*;

/// Documents of three groups and of none. The empty text is a group too.
struct Grouped {
    folder: TempDir,
    documents: Vec<Document>,
    groups: Vec<Option<&'static str>>,
}

const GROUPS: [Option<&str>; 4] = [Some("north"), Some("south"), Some(""), None];

impl Grouped {
    fn new(seed: u64) -> Self {
        let documents = corpus(seed, 150, 25);
        let mut random = Random(seed);
        let groups = documents.iter().map(|_| GROUPS[random.below(4)]).collect();
        let grouped = Self { folder: tempdir().unwrap(), documents, groups };
        grouped.write("in.parquet", 0..150);
        grouped
    }

    fn write(&self, name: &str, rows: std::ops::Range<usize>) {
        let (ids, texts): (Vec<&str>, Vec<&str>) =
            self.documents[rows.clone()].iter().map(|(id, text)| (id.as_str(), text.as_str())).unzip();
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(StringArray::from(ids))),
            ("text", Arc::new(StringArray::from(texts))),
            ("shop", Arc::new(StringArray::from(self.groups[rows].to_vec()))),
        ];
        write_batch(&self.path(name), &RecordBatch::try_from_iter(columns).unwrap(), 30);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn job(&self, output: &str, sets: &[&str]) -> Job {
        let sets = [&["source.group=shop"], sets].concat();
        job(&self.path("in.parquet"), &self.path(output), &sets)
    }

    /// The group of each document.
    fn of(&self) -> BTreeMap<String, Option<&'static str>> {
        self.documents.iter().map(|(id, _)| id.clone()).zip(self.groups.iter().copied()).collect()
    }

    /// The pairs that the job should find, by comparing every two documents.
    fn pairs(&self, threshold: f64, compare: &str) -> BTreeSet<(String, String)> {
        let groups = self.of();
        let mut pairs: BTreeSet<_> = exact_pairs(&self.documents, 3, threshold).into_keys().collect();
        pairs.retain(|(a, b)| match compare {
            "within" => groups[a] == groups[b],
            "across" => groups[a] != groups[b],
            _ => true,
        });
        pairs
    }

    /// Holds the tables of an output against `expected` pairs.
    fn check(&self, output: &Path, expected: &BTreeSet<(String, String)>, what: &str) {
        let of = self.of();
        let shown = |id: &str| of[id].map_or("<null>".to_owned(), str::to_owned);
        let pairs = table(output, "pairs");
        let mut found = BTreeSet::new();
        let columns = ["id_a", "id_b", "group_a", "group_b"].map(|name| strings(&pairs, name));
        for row in 0..pairs.num_rows() {
            let [a, b, of_a, of_b] = columns.each_ref().map(|column| column[row].clone());
            assert_eq!((of_a, of_b), (shown(&a), shown(&b)), "{a} {b} {what}");
            found.insert(if a < b { (a, b) } else { (b, a) });
        }
        assert_eq!(found.len(), pairs.num_rows(), "{what}");
        assert_eq!(&found, expected, "{what}");

        // Clusters: connected by those pairs.
        let least = least_reachable(expected.iter().cloned());
        let clusters = table(output, "clusters");
        let of_clusters: BTreeMap<_, _> =
            strings(&clusters, "id").into_iter().zip(strings(&clusters, "cluster_id")).collect();
        assert_eq!(of_clusters, least, "{what}");
        let mut groups: BTreeMap<&String, BTreeSet<Option<&str>>> = BTreeMap::new();
        for (id, cluster) in &least {
            groups.entry(cluster).or_default().insert(of[id]);
        }
        for (cluster, count) in strings(&clusters, "cluster_id").iter().zip(numbers(&clusters, "groups")) {
            assert_eq!(count as usize, groups[cluster].len(), "{cluster} {what}");
        }

        // What every two groups have in common.
        let last = |group: Option<&'static str>| (group.is_none(), group);
        let mut common: BTreeMap<_, (usize, [BTreeSet<&str>; 2])> = BTreeMap::new();
        for (a, b) in expected {
            let mut ends = [(last(of[a]), a.as_str()), (last(of[b]), b.as_str())];
            ends.sort();
            let [(first, a), (second, b)] = ends;
            let (count, documents) = common.entry((first, second)).or_default();
            *count += 1;
            documents[0].insert(a);
            documents[1].insert(b);
            if first == second {
                documents[0].insert(b);
                documents[1].insert(a);
            }
        }
        let size = |group| self.groups.iter().filter(|of| **of == group).count();
        let expected: BTreeSet<Vec<String>> = common
            .into_iter()
            .map(|((first, second), (count, [a, b]))| {
                let name = |group: Option<&str>| group.unwrap_or("<null>").to_owned();
                let counts = [count, a.len(), b.len(), size(first.1), size(second.1)].map(|n| n.to_string());
                [vec![name(first.1), name(second.1)], counts.to_vec()].concat()
            })
            .collect();
        let group_pairs = table(output, "group_pairs");
        let columns = ["group_a", "group_b", "pairs", "documents_a", "documents_b", "size_a", "size_b"]
            .map(|name| strings(&group_pairs, name));
        let found: BTreeSet<Vec<String>> = (0..group_pairs.num_rows())
            .map(|row| columns.iter().map(|column| column[row].clone()).collect())
            .collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn documents_are_compared_within_and_across_groups() {
    let methods: [&[&str]; 5] = [
        &["candidates.method=prefix"],
        &["candidates.method=all"],
        &["candidates.method=lsh", "lsh.target_recall=0.9999999"],
        &["candidates.method=lsh", "lsh.bands=64", "lsh.rows=1", "lsh.hot_bucket=3"],
        &["candidates.method=prefix", "output.max_expand=2", "engine.threads=3", "output.keep=shingles"],
    ];
    for (seed, method) in (0..).zip(methods) {
        let grouped = Grouped::new(seed);
        for compare in ["all", "within", "across"] {
            // In groups of copies of more than two, stars leave pairs out.
            if method.contains(&"output.max_expand=2") && compare != "across" {
                continue;
            }
            let set = format!("candidates.compare={compare}");
            let expand: &[&str] =
                if method.contains(&"output.max_expand=2") { &[] } else { &["output.max_expand=0"] };
            let sets = [method, &[set.as_str()], expand].concat();
            run(&grouped.job(compare, &sets)).unwrap();
            let expected = grouped.pairs(0.5, compare);
            assert!(expected.len() > 20, "{} {compare}", expected.len());
            grouped.check(&grouped.path(compare), &expected, &format!("{sets:?}"));
        }
    }
}

/// Days that come one after the other have the pairs of one run, and merged its tables.
#[test]
fn groups_go_on_from_day_to_day() {
    for (seed, compare) in (10..).zip(["all", "within", "across"]) {
        let grouped = Grouped::new(seed);
        grouped.write("first.parquet", 0..90);
        grouped.write("second.parquet", 90..150);
        let set = format!("candidates.compare={compare}");
        let of = |source: &str, output: &str, more: &[&str]| {
            let sets =
                [&["source.group=shop", "candidates.method=prefix", "output.keep=shingles", &set], more];
            job(&grouped.path(source), &grouped.path(output), &sets.concat())
        };
        run(&of("first.parquet", "one", &[])).unwrap();
        let known = format!("against.output={:?}", grouped.path("one").display().to_string());
        let last = of("second.parquet", "two", &[&known]);
        run(&last).unwrap();
        let outputs = ["one", "two"].map(|name| grouped.path(name).display().to_string()).to_vec();
        run(&Job::of_merge(outputs, &last, &grouped.path("merged").display().to_string())).unwrap();
        grouped.check(&grouped.path("merged"), &grouped.pairs(0.5, compare), compare);
    }
}

#[test]
fn a_group_that_is_not_there_is_refused() {
    let grouped = Grouped::new(20);
    let text = job_text(grouped.path("in.parquet"), grouped.path("out"));
    let resolve = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        job::resolve(job::file::read(&text, "job.toml", &sets).unwrap())
    };
    let error = resolve(&["candidates.compare=within"]).unwrap_err();
    assert!(
        error.to_string().contains("`candidates.compare` is set, and no document has a group"),
        "{error}"
    );
    let error = resolve(&["source.columns=shop", "source.group=SHOP"]).unwrap_err();
    assert!(error.to_string().contains("expected one spelling"), "{error}");
    let error = run(&resolve(&["source.group=shopp"]).unwrap()).unwrap_err();
    assert!(error.kind() == Kind::Job && error.to_string().contains("shop"), "{error}");

    run(&resolve(&[]).unwrap()).unwrap();
    let known = format!("against.output={:?}", grouped.path("out").display().to_string());
    let mut next = resolve(&["source.group=shop", &known]).unwrap();
    next.output.url = grouped.path("next").display().to_string();
    let error = run(&next).unwrap_err();
    assert!(
        error.kind() == Kind::Job && error.to_string().contains("does not carry the column `shop`"),
        "{error}"
    );
}

/// A job over an output names another one of the columns that it carries.
#[test]
fn sketches_serve_other_groups() {
    let grouped = Grouped::new(21);
    let whole = run(&job(
        &grouped.path("in.parquet"),
        &grouped.path("plain"),
        &["source.columns=shop", "output.keep=shingles"],
    ));
    whole.unwrap();
    let text = format!(
        "source = {{ format = \"output\", url = {:?}, group = \"shop\" }}\ncandidates = {{ method = \"prefix\", compare = \"across\" }}\n\
         score.threshold = 0.5\noutput.url = {:?}\n{CONNECTED}",
        grouped.path("plain").display().to_string(),
        grouped.path("across").display().to_string()
    );
    std::fs::write(grouped.path("job.toml"), text).unwrap();
    let ran = resemblance().args(["run", &grouped.path("job.toml").display().to_string()]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    grouped.check(&grouped.path("across"), &grouped.pairs(0.5, "across"), "reused");
}
