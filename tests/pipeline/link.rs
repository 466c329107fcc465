//! `[against.source]`: two datasets are linked. Random cases are in `brute_force`.

use resemblance::job::{DuplicateIds, Reference};

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
        let ids = own.iter().map(|(id, _)| id.clone()).chain((0..).map(|n| format!("k{n}")));
        let known: Vec<Document> = ids.zip(other).map(|(id, (_, text))| (id, text.clone())).collect();
        let (mut own, mut known) = (own.to_vec(), known);
        // One text under the same id, and under another one, in both.
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

    fn job(&self, output: &str, sets: &[&str]) -> Job {
        let source = second_source(self.path("reference.parquet"), "");
        let sets: Vec<&str> = sets.iter().copied().chain([source.as_str()]).collect();
        job(&self.path("own.parquet"), &self.path(output), &sets)
    }
}

#[test]
fn a_second_source_is_marked_and_refused_where_it_cannot_be_used() {
    let two = Two::new(30);
    let output = two.path("out");
    run(&two.job("out", &[])).unwrap();
    let first = manifest(&output).fingerprint;

    // The job is finished when run again; with another second source it is another job.
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
    let said = ["is the id of several documents", "against.source.duplicate_ids"];
    fails(run(&two.job("twice", &[])), Kind::Input, &said);
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
    fails(run(&inside), Kind::Job, &["lies in"]);
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
    fails(run(&job), Kind::Input, &["by chance, the same 64-bit keys: `2uxTGyJU`"]);
    assert!(!two.path("out").join("manifest.json").exists());
}

/// Documents of both sides have one id: each is shown with its own text, and the copies of the known side can be taken out.
#[test]
fn linked_pairs_are_shown_and_applied() {
    let path = paths();
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
    let line: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&line["id_a"], &line["text_a"]), (&"1".into(), &long.into()), "{line}");
    assert_eq!((&line["id_b"], &line["text_b"]), (&"2".into(), &known[0].1.into()), "{line}");
    let cluster = resemblance().args(["show", &output, "--cluster", "1", "--json"]).output().unwrap();
    let line: Value = serde_json::from_slice(&cluster.stdout).unwrap();
    assert_eq!((&line["id_a"], &line["text_a"]), (&"2".into(), &known[0].1.into()), "{line}");

    let to = path("clean").display().to_string();
    resemblance().args(["apply", &output, "--to", &to]).output().unwrap().shown(&[]);
    assert_eq!(strings(&parquet(&path("clean")), "id"), ["2", "3"]);
    let removed = parquet(&path("clean/_resemblance/removed"));
    assert_eq!((strings(&removed, "id"), strings(&removed, "kept_id")), (vec!["1".into()], vec!["2".into()]));
}

/// Both pairs have the same two ids: a removed document has the values of its own pair, and a query for an id means the source's
/// document.
#[test]
fn pairs_of_the_same_two_ids_are_told_apart() {
    let path = paths();
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
    resemblance().args(["apply", &output, "--to", &to]).output().unwrap().shown(&[]);
    let removed = parquet(&path("clean/_resemblance/removed"));
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

    let shown = |arguments: &[&str]| -> Vec<Value> {
        let shown = resemblance().args(["show", &output, "--json"]).args(arguments).output().unwrap();
        let lines = stdout(&shown);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for (id, other, own_text, known_text) in
        [("1", "2", &own[0].1, &known[0].1), ("2", "1", &own[1].1, &known[1].1)]
    {
        let lines = shown(&["--id", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["id_a"], &line["id_b"]), (&id.into(), &other.into()));
        assert_eq!(line["text_a"], own_text.as_str());
        assert_eq!(line["text_b"], known_text.as_str());
        assert_eq!((&line["reference_a"], &line["reference_b"]), (&false.into(), &true.into()));
        let lines = shown(&["--cluster", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line["text_a"], known_text.as_str());
        assert_eq!(line["text_b"], own_text.as_str());
    }
    assert_eq!(shown(&["--id", "3"]), Vec::<Value>::new());
    resemblance().args(["show", &output, "--cluster", "3"]).output().unwrap().refused(2, &[]);
    assert_eq!(shown(&["--pairs", "random", "--top", "9"]).len(), 3);
}
