//! `[against.source]`: two datasets are linked, and the pairs are those that a comparison of every two documents finds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch, RecordBatchReader};
use arrow::compute::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use resemblance::error::Kind;
use resemblance::job::{DuplicateIds, Job, Reference};
use resemblance::pipeline::OnExisting;
use tempfile::{TempDir, tempdir};

use crate::support::stopping;
use crate::support::walk::least_reachable;
use crate::support::*;

/// Two datasets in a folder. Every id of the second one but a few is also one of the first.
struct Two {
    folder: TempDir,
    own: Vec<Document>,
    known: Vec<Document>,
}

impl Two {
    fn new(seed: u64) -> Self {
        let documents = corpus(seed, 160, 25);
        let (own, other) = documents.split_at(90);
        let known: Vec<Document> = other
            .iter()
            .zip(own.iter().map(|(id, _)| id.clone()).chain((0..).map(|n| format!("k{n}"))))
            .map(|((_, text), id)| (id, text.clone()))
            .collect();
        let (mut own, mut known) = (own.to_vec(), known);
        // The same text under the same id, and under another one, in both.
        known[3].1 = own[3].1.clone();
        known[4].1 = own[7].1.clone();
        own[8].1 = own[7].1.clone();
        own.push(("short".into(), "one".into()));
        known.push(("short".into(), "two".into()));
        let folder = tempdir().unwrap();
        write_parquet(&folder.path().join("own.parquet"), &own, 30);
        write_parquet(&folder.path().join("reference.parquet"), &known, 30);
        Self { folder, own, known }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The job that links them.
    fn job(&self, output: &str, sets: &[&str]) -> Job {
        let source = second_source(self.path("reference.parquet"), "");
        let sets: Vec<&str> = sets.iter().copied().chain([source.as_str()]).collect();
        job(&self.path("own.parquet"), &self.path(output), &sets)
    }
}

/// A document of either dataset: whether it is of the second one, and its id.
type Name = (bool, String);

/// (a, b) -> (shared shingles, those of a, those of b), of every two documents that are similar and not both known.
fn expected(two: &Two, threshold: f64, containment: bool) -> BTreeMap<(Name, Name), (usize, usize, usize)> {
    let all: Vec<(Name, BTreeSet<String>)> = [(&two.own, false), (&two.known, true)]
        .into_iter()
        .flat_map(|(documents, known)| {
            documents.iter().map(move |(id, text)| ((known, id.clone()), shingles(text, 3)))
        })
        .filter(|(_, set)| !set.is_empty())
        .collect();
    let mut pairs = BTreeMap::new();
    for (at, (a, of_a)) in all.iter().enumerate() {
        for (b, of_b) in &all[at + 1..] {
            let shared = of_a.intersection(of_b).count();
            let over = match containment {
                true => of_a.len().min(of_b.len()),
                false => of_a.len() + of_b.len() - shared,
            };
            if !(a.0 && b.0) && shared as f64 >= threshold * over as f64 {
                let turned = a.0 == b.0 && a.1 > b.1;
                let row = match turned {
                    false => ((a.clone(), b.clone()), (shared, of_a.len(), of_b.len())),
                    true => ((b.clone(), a.clone()), (shared, of_b.len(), of_a.len())),
                };
                pairs.insert(row.0, row.1);
            }
        }
    }
    pairs
}

/// The pairs of an output in the same form.
fn found(output: &Path) -> BTreeMap<(Name, Name), (usize, usize, usize)> {
    let pairs = table(output, "pairs");
    let known = pairs.column_by_name("reference_b").unwrap().as_boolean().clone();
    let counts = ["shared", "shingles_a", "shingles_b"].map(|name| numbers(&pairs, name));
    let ids = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    let rows: Vec<_> = ids
        .enumerate()
        .map(|(row, (a, b))| {
            let [shared, of_a, of_b] = counts.each_ref().map(|column| column[row] as usize);
            (((false, a), (known.value(row), b)), (shared, of_a, of_b))
        })
        .collect();
    let count = rows.len();
    let map = BTreeMap::from_iter(rows);
    assert_eq!(map.len(), count, "a pair is there twice");
    map
}

/// The clusters of the pairs that have a document of the first dataset, by the smallest id of such documents.
fn connected(pairs: impl Iterator<Item = (Name, Name)>) -> BTreeMap<String, BTreeSet<Name>> {
    let mut clusters: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for (name, least) in least_reachable(pairs) {
        clusters.entry(least).or_default().insert(name);
    }
    let id = |members: &BTreeSet<Name>| members.iter().find(|name| !name.0).unwrap().1.clone();
    clusters.into_values().map(|members| (id(&members), members)).collect()
}

fn clusters(output: &Path) -> BTreeMap<String, BTreeSet<Name>> {
    let table = table(output, "clusters");
    let of = |name: &str| table.column_by_name(name).unwrap().as_boolean().clone();
    let (known, representative) = (of("reference"), of("representative"));
    let mut clusters: BTreeMap<String, BTreeSet<Name>> = BTreeMap::new();
    let mut kept: BTreeMap<String, bool> = BTreeMap::new();
    for (row, (id, cluster)) in
        strings(&table, "id").into_iter().zip(strings(&table, "cluster_id")).enumerate()
    {
        if representative.value(row) {
            assert_eq!(kept.insert(cluster.clone(), known.value(row)), None, "{cluster} has two");
        }
        clusters.entry(cluster).or_default().insert((known.value(row), id));
    }
    for (cluster, members) in &clusters {
        // A document of the second dataset represents it, if there is one.
        assert_eq!(kept[cluster], members.iter().any(|name| name.0), "{cluster}");
    }
    clusters
}

#[test]
fn two_datasets_are_linked_as_a_comparison_of_every_two_documents_says() {
    let cases: [(&[&str], f64, bool); 7] = [
        (&["candidates.method=prefix"], 0.5, false),
        (&["candidates.method=all"], 0.5, false),
        (&["candidates.method=lsh", "lsh.target_recall=0.9999999"], 0.6, false),
        (&["candidates.method=prefix", "score.measure=containment"], 0.7, true),
        (&["candidates.method=prefix", "output.keep=shingles", "engine.threads=3"], 0.3, false),
        (&["candidates.method=prefix", "minhash.family=one-permutation", "output.keep=none"], 0.8, false),
        (&["candidates.method=lsh", "lsh.bands=64", "lsh.rows=1", "lsh.hot_bucket=4"], 0.5, false),
    ];
    for (seed, (sets, threshold, containment)) in (0..).zip(cases) {
        let two = Two::new(seed);
        let score = format!("score.threshold={threshold}");
        let sets = [sets, &["shingle.size=3", &score, "output.max_expand=0"]].concat();
        let outcome = run(&two.job("out", &sets)).unwrap();
        let output = two.path("out");
        let pairs = expected(&two, threshold, containment);
        assert_eq!(found(&output), pairs, "{sets:?}");
        assert!(pairs.keys().any(|(a, b)| b.0 && a.1 == b.1), "no document has the id of its copy");
        assert!(pairs.keys().any(|(_, b)| !b.0) && pairs.len() > 40, "{}", pairs.len());
        assert_eq!(clusters(&output), connected(pairs.into_keys()), "{sets:?}");
        let rejects = table(&output, "reference_rejects");
        assert_eq!(
            (strings(&rejects, "id"), strings(&rejects, "reason")),
            (vec!["short".into()], vec!["too_short".into()])
        );
        assert_eq!(strings(&table(&output, "rejects"), "id"), ["short"]);
        assert_eq!(outcome.manifest.counts.reference_documents.unwrap(), two.known.len() as u64 - 1);
        assert_eq!(strings(&table(&output, "documents"), "id").len(), two.own.len() - 1);
        assert!(!output.join("cluster_id_changes").exists());

        let across = run(&two.job("across", &[&sets[..], &["against.pairs=new-old"]].concat())).unwrap();
        let mut pairs = expected(&two, threshold, containment);
        pairs.retain(|(_, b), _| b.0);
        assert_eq!(found(&two.path("across")), pairs, "{sets:?}");
        assert_eq!(across.manifest.counts.pairs, pairs.len() as u64);
        assert_eq!(clusters(&two.path("across")), connected(pairs.into_keys()), "{sets:?}");
    }
}

#[test]
fn the_known_side_is_told_apart_and_refused_where_it_cannot_be_used() {
    let two = Two::new(30);
    let output = two.path("out");
    run(&two.job("out", &[])).unwrap();
    let first = manifest(&output).fingerprint;

    // The same job again is finished; over a known side that has changed it is another one.
    let again = run(&two.job("out", &[])).unwrap();
    assert_eq!(again.manifest.fingerprint, first);
    let mut known = two.known.clone();
    known.push(("more".into(), "a b c d e f g h".into()));
    write_parquet(&two.path("reference.parquet"), &known, 30);
    run(&two.job("changed", &[])).unwrap();
    assert_ne!(manifest(&two.path("changed")).fingerprint, first);

    // Ids that come twice there.
    known.push(known[0].clone());
    write_parquet(&two.path("reference.parquet"), &known, 30);
    let error = run(&two.job("twice", &[])).unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    let said = error.to_string();
    assert!(
        said.contains("is the id of several documents") && said.contains("against.source.duplicate_ids"),
        "{said}"
    );
    assert!(!two.path("twice").join("manifest.json").exists());
    let mut reject = two.job("rejected", &[]);
    match &mut reject.against.as_mut().unwrap().reference {
        Reference::Source(source) => source.duplicate_ids = DuplicateIds::Reject,
        other => panic!("{other:?}"),
    }
    run(&reject).unwrap();
    let rejects = table(&two.path("rejected"), "reference_rejects");
    assert_eq!(strings(&rejects, "reason").iter().filter(|reason| *reason == "duplicate_id").count(), 1);
    assert_eq!(table(&two.path("rejected"), "pairs"), table(&two.path("changed"), "pairs"));

    // An output in the folder of the reference files.
    let mut inside = two.job("inside", &[]);
    inside.output.url = two.folder.path().display().to_string();
    let error = run(&inside).unwrap_err();
    assert!(error.kind() == Kind::Job && error.to_string().contains("lies in"), "{error}");
}

/// The key of a reference document is the complement of the hash of its id. The ids were found by inverting XXH3 for eight bytes.
#[test]
fn keys_that_are_equal_by_chance_are_refused() {
    let (own, reference) = ("BFlD8K6m", "2uxTGyJU");
    assert_eq!(xxhash_rust::xxh3::xxh3_64(own.as_bytes()), !xxhash_rust::xxh3::xxh3_64(reference.as_bytes()));
    let mut two = Two::new(31);
    let job = two.job("out", &[]);
    for (file, documents, id) in
        [("own.parquet", &mut two.own, own), ("reference.parquet", &mut two.known, reference)]
    {
        documents[20].0 = id.into();
        write_parquet(&two.folder.path().join(file), documents, 30);
    }
    let error = run(&job).unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    let said = error.to_string();
    assert!(said.contains("by chance: `2uxTGyJU`: give one of them another id"), "{said}");
    assert!(!two.path("out").join("manifest.json").exists());
}

#[test]
fn a_linking_run_that_stopped_at_any_stage_is_taken_up() {
    let two = Two::new(40);
    let sets: &[&str] = &["candidates.method=prefix"];
    let tables = |name: &str| -> Vec<_> {
        ["pairs", "clusters", "documents", "rejects", "reference_rejects"]
            .map(|table_name| table(&two.path(name), table_name))
            .into()
    };
    run(&two.job("whole", sets)).unwrap();
    let whole = tables("whole");
    let mut stops = 0;
    for at in 0.. {
        let name = format!("stopped{at}");
        let (_, stopped) = stopping::run_until(&two.job(&name, sets), OnExisting::Fail, at);
        if !stopped {
            break;
        }
        let outcome = run(&two.job(&name, sets)).unwrap();
        assert!(at == 0 || outcome.stages_reused > 0, "stopped at plan {at}");
        assert_eq!(tables(&name), whole, "stopped at plan {at}");
        stops += 1;
    }
    assert!(stops > 6, "{stops}");
}

/// Documents of both sides have one id: each is shown with its own text, and the copies of the known side can be taken out.
#[test]
fn linked_pairs_are_shown_and_applied() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let long = "one two three four five six seven eight nine ten";
    let own = [
        ("1", long),
        ("2", "nothing of the kind was ever seen in this house"),
        ("3", "ten nine eight seven six five four"),
    ];
    let known = [
        ("2", "one two three four five six seven eight nine eleven"),
        ("1", "a word beside another word and no more"),
    ];
    let write = |name: &str, rows: &[(&str, &str)]| {
        let rows: Vec<Document> =
            rows.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect();
        write_parquet(&path(name), &rows, 30);
    };
    write("own.parquet", &own);
    write("reference.parquet", &known);
    let source = second_source(path("reference.parquet"), "");
    run(&job(&path("own.parquet"), &path("out"), &[&source, "shingle.size=3", "score.threshold=0.5"]))
        .unwrap();
    let output = path("out").display().to_string();
    let shown = resemblance().args(["show", &output, "--json"]).output().unwrap();
    let line: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&line["id_a"], &line["text_a"]), (&"1".into(), &long.into()), "{line}");
    assert_eq!((&line["id_b"], &line["text_b"]), (&"2".into(), &known[0].1.into()), "{line}");
    let cluster = resemblance().args(["show", &output, "--cluster", "1", "--json"]).output().unwrap();
    let line: serde_json::Value = serde_json::from_slice(&cluster.stdout).unwrap();
    assert_eq!((&line["id_a"], &line["text_a"]), (&"2".into(), &known[0].1.into()), "{line}");

    let to = path("clean").display().to_string();
    let applied = resemblance().args(["apply", &output, "--to", &to]).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert_eq!(strings(&rows_of(&path("clean")), "id"), ["2", "3"]);
    let removed = rows_of(&path("clean/_resemblance/removed"));
    assert_eq!((strings(&removed, "id"), strings(&removed, "kept_id")), (vec!["1".into()], vec!["2".into()]));
}

/// Both pairs have the same two ids: a removed document has the values of its own pair, and a query for an id means the source's
/// document.
#[test]
fn pairs_of_the_same_two_ids_are_told_apart() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let words = |first: usize, count: usize| -> String {
        (first..first + count).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ")
    };
    let document = |id: &str, text: String| (id.to_owned(), text);
    // The first with the known second one: 18 of 20 shingles; the second one with the known first one: 12 of 18. The third one is
    // in no pair, and a known document of its id is.
    let own = [
        document("1", words(0, 20)),
        document("2", words(100, 17)),
        document("3", words(500, 9)),
        document("4", words(300, 20)),
    ];
    let known = [
        document("2", words(0, 22)),
        document("1", words(103, 17)),
        document("3", words(300, 20)),
        document("4", words(900, 9)),
    ];
    // Documents that were not compared, with ids of others.
    let rejected = [document("2", "short".into()), document("1", words(700, 20))];
    write_parquet(&path("own.parquet"), &own, 30);
    write_parquet(&path("reference.parquet"), &[&rejected[..1], &known, &rejected[1..]].concat(), 30);
    let source = second_source(path("reference.parquet"), ", duplicate_ids = 'reject'");
    run(&job(&path("own.parquet"), &path("out"), &[&source, "shingle.size=3", "score.threshold=0.5"]))
        .unwrap();
    assert_eq!(table(&path("out"), "reference_rejects").num_rows(), 2);
    let output = path("out").display().to_string();
    let to = path("clean").display().to_string();
    let applied = resemblance().args(["apply", &output, "--to", &to]).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let removed = rows_of(&path("clean/_resemblance/removed"));
    let ids = strings(&removed, "id").into_iter().zip(strings(&removed, "kept_id"));
    let shares = floats(&removed, "jaccard").into_iter().zip(floats(&removed, "containment"));
    let rows: BTreeMap<_, _> = ids.zip(shares).collect();
    let row = |id: &str, kept: &str, jaccard, containment| ((id.into(), kept.into()), (jaccard, containment));
    let expected = BTreeMap::from([
        row("1", "2", 18.0 / 20.0, 1.0),
        row("2", "1", 12.0 / 18.0, 12.0 / 15.0),
        row("4", "3", 1.0, 1.0),
    ]);
    assert_eq!((rows, removed.num_rows()), (expected, 3));

    let shown = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let shown = resemblance().args(["show", &output, "--json"]).args(arguments).output().unwrap();
        let lines = String::from_utf8(shown.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for (id, other, own_text, known_text) in
        [("1", "2", &own[0].1, &known[0].1), ("2", "1", &own[1].1, &known[1].1)]
    {
        let lines = shown(&["--id", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["id_a"], &line["id_b"]), (&id.into(), &other.into()));
        assert_eq!(
            (&line["text_a"], &line["text_b"]),
            (&own_text.as_str().into(), &known_text.as_str().into())
        );
        assert_eq!((&line["reference_a"], &line["reference_b"]), (&false.into(), &true.into()));
        let lines = shown(&["--cluster", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            (&line["text_a"], &line["text_b"]),
            (&known_text.as_str().into(), &own_text.as_str().into())
        );
    }
    assert_eq!(shown(&["--id", "3"]), Vec::<serde_json::Value>::new());
    let alone = resemblance().args(["show", &output, "--cluster", "3"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert_eq!(shown(&["--pairs", "random", "--top", "9"]).len(), 3);
}

/// The rows of the Parquet files in a folder.
fn rows_of(folder: &Path) -> RecordBatch {
    let mut batches = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let file = std::fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        batches.push(RecordBatch::new_empty(reader.schema()));
        batches.extend(reader.map(Result::unwrap));
    }
    concat_batches(&batches[0].schema(), &batches).unwrap()
}
