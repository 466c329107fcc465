//! `[against.source]`: two datasets are linked. Random cases are in `brute_force`.

use crate::support::*;

/// Two datasets in a folder.
fn two(own: &[Document], known: &[Document]) -> Scene {
    let scene = Scene::new(&[]);
    scene.write("own.parquet", own);
    scene.write("reference.parquet", known);
    scene
}

/// The job over both; `more` has other keys of the second source.
fn linked(two: &Scene, output: &str, more: &str) -> Job {
    two.job("own.parquet", output, &[&second_source(two.path("reference.parquet"), more)])
}

/// Every id of the second dataset but a few is also one of the first.
fn with_common_ids(seed: u64) -> [Vec<Document>; 2] {
    let documents = corpus(seed, 160, 25);
    let (own, other) = documents.split_at(90);
    let ids = own.iter().map(|(id, _)| id.clone()).chain((0..).map(|n| format!("k{n}")));
    let mut known: Vec<Document> = ids.zip(other).map(|(id, (_, text))| (id, text.clone())).collect();
    let mut own = own.to_vec();
    // One text under the same id, and under another one, in both.
    known[3].1 = own[3].1.clone();
    known[4].1 = own[7].1.clone();
    own[8].1 = own[7].1.clone();
    own.push(("short".into(), "one".into()));
    known.push(("short".into(), "two".into()));
    [own, known]
}

#[test]
fn a_second_source_is_marked_and_refused_where_it_cannot_be_used() {
    let [own, mut known] = with_common_ids(30);
    let two = two(&own, &known);
    let first = run(&linked(&two, "out", "")).unwrap().manifest.fingerprint;

    // The job is finished when run again; with another second source it is another job.
    assert_eq!(run(&linked(&two, "out", "")).unwrap().manifest.fingerprint, first);
    known.push(("more".into(), "a b c d e f g h".into()));
    two.write("reference.parquet", &known);
    assert_ne!(run(&linked(&two, "changed", "")).unwrap().manifest.fingerprint, first);

    // Ids that come twice there.
    known.push(known[0].clone());
    two.write("reference.parquet", &known);
    let said = ["is the id of several documents", "against.source.duplicate_ids"];
    fails(run(&linked(&two, "twice", "")), Kind::Input, &said);
    assert!(!two.path("twice/manifest.json").exists());
    run(&linked(&two, "rejected", ", duplicate_ids = 'reject'")).unwrap();
    let rejects = table(&two.path("rejected"), "reference_rejects");
    assert_eq!(strings(&rejects, "reason").iter().filter(|reason| *reason == "duplicate_id").count(), 1);
    assert_eq!(table(&two.path("rejected"), "pairs"), table(&two.path("changed"), "pairs"));

    // An output in the folder of the reference files.
    let mut inside = linked(&two, "inside", "");
    inside.output.url = two.path("own.parquet").parent().unwrap().display().to_string();
    fails(run(&inside), Kind::Job, &["lies in"]);
}

/// The key of a reference document is the complement of the hash of its id. The ids were found by inverting XXH3 for eight bytes.
#[test]
fn keys_that_are_equal_by_chance_are_refused() {
    let ids = ["BFlD8K6m", "2uxTGyJU"];
    let [own, reference] = ids.map(|id| xxhash_rust::xxh3::xxh3_64(id.as_bytes()));
    assert_eq!(own, !reference);
    let mut both = with_common_ids(31);
    both.iter_mut().zip(ids).for_each(|(documents, id)| documents[20].0 = id.into());
    let two = two(&both[0], &both[1]);
    fails(run(&linked(&two, "out", "")), Kind::Input, &["by chance, the same 64-bit keys: `2uxTGyJU`"]);
    assert!(!two.path("out/manifest.json").exists());
}

/// Both pairs have the same two ids: a removed document has the values of its own pair, and a query for an id means the source's
/// document.
#[test]
fn pairs_of_the_same_two_ids_are_told_apart() {
    let words = |first: usize, count: usize| -> String {
        (first..first + count).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ")
    };
    // The first with the known second one: 18 of 20 shingles; the second one with the known first one: 12 of 18. The third one is
    // in no pair, and a known document of its id is.
    let own =
        documents(&[("1", words(0, 20)), ("2", words(100, 17)), ("3", words(500, 9)), ("4", words(300, 20))]);
    // The first and the last are not compared, and have ids of others.
    let known = documents(&[
        ("2", "short".to_owned()),
        ("2", words(0, 22)),
        ("1", words(103, 17)),
        ("3", words(300, 20)),
        ("4", words(900, 9)),
        ("1", words(700, 20)),
    ]);
    let two = two(&own, &known);
    run(&linked(&two, "out", ", duplicate_ids = 'reject'")).unwrap();
    assert_eq!(table(&two.path("out"), "reference_rejects").num_rows(), 2);
    two.apply("out", "clean", &[]);
    let removed = parquet(&two.path("clean/_resemblance/removed"));
    let ids: Vec<(String, String)> = string_pairs(&removed, ["id", "kept_id"]);
    let shares = floats(&removed, "jaccard").into_iter().zip(floats(&removed, "containment"));
    let rows: BTreeMap<_, _> = ids.into_iter().zip(shares).collect();
    let row = |id: &str, kept: &str, jaccard, containment| ((id.into(), kept.into()), (jaccard, containment));
    let expected = BTreeMap::from([
        row("1", "2", 18.0 / 20.0, 1.0),
        row("2", "1", 12.0 / 18.0, 12.0 / 15.0),
        row("4", "3", 1.0, 1.0),
    ]);
    assert_eq!((rows, removed.num_rows()), (expected, 3));
    assert_eq!(strings(&parquet(&two.path("clean")), "id"), ["3"]);

    let shown = |arguments: &[&str]| -> Vec<Value> {
        let shown = two.command(&["show", "out", "--json"]).args(arguments).assert().shown(&[]);
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for (id, other, own_text, known_text) in
        [("1", "2", &own[0].1, &known[1].1), ("2", "1", &own[1].1, &known[2].1)]
    {
        let lines = shown(&["--id", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let found = ["id_a", "id_b", "text_a", "text_b"].map(|key| line[key].as_str().unwrap());
        assert_eq!(found, [id, other, own_text, known_text]);
        assert_eq!((&line["reference_a"], &line["reference_b"]), (&false.into(), &true.into()));
        let lines = shown(&["--cluster", id]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["text_a"], &line["text_b"]), (&json!(known_text), &json!(own_text)));
    }
    assert_eq!(shown(&["--id", "3"]), Vec::<Value>::new());
    two.command(&["show", "out", "--cluster", "3"]).assert().code(2);
    assert_eq!(shown(&["--pairs", "random", "--top", "9"]).len(), 3);
}
