//! `clusters.decisions`: reading and checking the file, and the commands that follow decisions. Random cases are in `brute_force`.

use crate::support::*;

/// Words of a document that shares all words but the last ones with the others of its topic.
fn text(topic: &str, last: &str) -> String {
    format!("{} {last}", own_words(topic, 30))
}

/// Four documents of one topic, of which any two are a pair, and one of another topic.
fn scene() -> Scene {
    let scene = Scene::new(&["score.threshold=0.5"]);
    let rows = [
        ("a", text("t", "x")),
        ("b", text("t", "y")),
        ("c", text("t", "z")),
        ("d", text("t", "x")),
        ("e", text("u", "x")),
    ];
    scene.write("in.parquet", &documents(&rows));
    scene
}

/// Writes decisions and returns the setting that names them.
fn decisions(scene: &Scene, name: &str, lines: &str) -> String {
    std::fs::write(scene.path(name), format!("id_a,id_b,verdict\n{lines}")).unwrap();
    format!("clusters.decisions={:?}", scene.text(name))
}

fn clusters(output: &Path) -> BTreeMap<String, String> {
    string_pairs(&table(output, "clusters"), ["id", "cluster_id"])
}

#[test]
fn wrong_files_are_refused_by_name() {
    let scene = scene();
    for (lines, said) in [
        ("a,b,same\nb,c,same\na,c,different\n", &["`a`", "`b`", "`c`", "contradict"][..]),
        (
            "a,b,same\nb,c,same\nc,d,same\nd,a,different\n",
            &["`a` is the same as `b`", "`c` is the same as `d`"],
        ),
        ("a,b,same\nb,a,different\n", &["`a` and `b` are both the same and different"]),
        ("a,b,maybe\n", &["`a` and `b`", "\"maybe\"", "same, different or unsure"]),
        ("a,a,same\n", &["`a` and `a`", "two documents"]),
        (",b,same\n", &["`` and `b`"]),
    ] {
        let set = decisions(&scene, "wrong.csv", lines);
        let parts = [&["wrong.csv"][..], said].concat();
        let parts = if said.contains(&"contradict") || said.len() == 2 && said[0].contains("same as") {
            said
        } else {
            &parts
        };
        fails(run(&scene.job("in.parquet", "out", &[&set])), Kind::Input, parts);
        assert!(!scene.path("out").exists(), "{lines}");
    }
    std::fs::write(scene.path("other.csv"), "id_a,id_b\na,b\n").unwrap();
    let of = |name: &str| format!("clusters.decisions={:?}", scene.text(name));
    fails(run(&scene.job("in.parquet", "out", &[&of("other.csv")])), Kind::Input, &["other.csv", "verdict"]);
    fails(
        run(&scene.job("in.parquet", "out", &[&of("none.csv")])),
        Kind::Input,
        &["none.csv", "clusters.decisions"],
    );
    for (set, said) in
        [("score.by=signature", "score.by"), ("clusters.thresholds=[0.9]", "clusters.thresholds")]
    {
        let error = refusal(&["clusters.decisions='x.csv'", set]);
        assert!(error.contains("clusters.decisions") && error.contains(said), "{error}");
    }
}

#[test]
fn unknown_ids_are_counted_and_named() {
    let scene = scene();
    let set = decisions(&scene, "d.csv", "a,zz,same\n\"q,1\",b,different\na,b,unsure\nc,d,\n");
    run(&scene.job("in.parquet", "out", &[&set])).unwrap();
    let made = manifest(&scene.path("out"));
    assert_eq!((made.counts.decisions, made.counts.unknown_decision_ids), (Some(2), Some(2)));
    let warning = made.warnings.iter().find(|warning| warning.contains("clusters.decisions")).unwrap();
    assert!(warning.contains("2 ids") && warning.contains("`q,1`, `zz`"), "{warning}");
    let bytes = std::fs::read(scene.path("d.csv")).unwrap();
    let file = made.decisions.unwrap();
    assert_eq!((file.decisions, file.bytes, file.crc32), (2, bytes.len() as u64, crc32fast::hash(&bytes)));
    // Without a decision that counts, the clusters are those of a run without the file.
    run(&scene.job("in.parquet", "plain", &[])).unwrap();
    assert_eq!(clusters(&scene.path("out")), clusters(&scene.path("plain")));
    let plain = manifest(&scene.path("plain"));
    assert_eq!((plain.counts.decisions, plain.counts.unknown_decision_ids), (None, None));
    assert!(!scene.path("plain/decisions").exists() && !scene.path("plain/spared").exists());
    assert!(table(&scene.path("plain"), "pairs").column_by_name("decision").is_none());
}

#[test]
fn a_file_with_other_decisions_makes_another_run() {
    let scene = scene();
    let set = decisions(&scene, "d.csv", "a,b,different\n");
    let job = scene.job("in.parquet", "out", &[&set]);
    run(&job).unwrap();
    assert!(run(&job).unwrap().already_finished);
    decisions(&scene, "d.csv", "a,b,same\n");
    fails(run(&job), Kind::Job, &["clusters.decisions"]);
    let engine = Local::new(session::session(&job.engine).unwrap());
    block_on(pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Overwrite)).unwrap();
    let rows = table(&scene.path("out"), "decisions");
    assert_eq!(strings(&rows, "verdict"), ["same"]);
}

/// A decision in a Parquet file, documents that are no pair, and a result without the documents that go.
#[test]
fn documents_that_are_the_same_are_one_cluster_and_different_ones_stay() {
    let scene = scene();
    let rows: [(&str, Vec<&str>); 3] =
        [("id_a", vec!["e", "b"]), ("id_b", vec!["a", "a"]), ("verdict", vec!["same", "different"])];
    let columns = rows.map(|(name, values)| (name, Arc::new(StringArray::from(values)) as ArrayRef));
    write_batch(&scene.path("d.parquet"), &RecordBatch::try_from_iter(columns).unwrap(), 10);
    for method in ["representative", "components"] {
        let sets = [
            format!("clusters.decisions={:?}", scene.text("d.parquet")),
            format!("clusters.method={method}"),
            "clusters.keep=['id']".to_owned(),
        ];
        run(&scene.job("in.parquet", method, &sets.each_ref().map(String::as_str))).unwrap();
        let found = clusters(&scene.path(method));
        assert_eq!(found["e"], found["a"], "{method}");
        let pairs = table(&scene.path(method), "pairs");
        let ids = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
        let decided: BTreeMap<_, _> = ids.zip(texts(&pairs, "decision")).collect();
        let of = |a: &str, b: &str| decided[&(a.to_owned(), b.to_owned())].clone();
        assert_eq!((of("a", "e").as_deref(), of("a", "b").as_deref()), (Some("same"), Some("different")));
        // It follows from both decisions, but is no pair.
        assert!(!decided.contains_key(&("b".to_owned(), "e".to_owned())));
        assert_eq!(of("a", "d"), None);
        let to = format!("{method} to");
        scene.apply(method, &to, &[]);
        let kept: Vec<String> =
            parquet_rows(&scene.path(&to)).iter().flat_map(|rows| strings(rows, "id")).collect();
        assert_eq!(kept, ["a", "b"], "{method}");
        // Another bound of `apply` does not overrule a decision.
        let dry = scene.apply(method, "dry", &["--dry-run", "--contained", "0.1"]);
        assert_eq!(dry["removed"], 2, "{method}: {dry}");
        let spared = table(&scene.path(method), "spared");
        let reasons: Vec<_> = strings(&spared, "id").into_iter().zip(strings(&spared, "reason")).collect();
        let expected: &[(String, String)] =
            if method == "components" { &[("b".to_owned(), "different".to_owned())] } else { &[] };
        assert_eq!(reasons, expected, "{method}");
    }
}

#[test]
fn undecided_pairs_are_a_queue() {
    let scene = scene();
    let all = |output: &str, more: &[&str]| {
        let shown = scene.command(&[&["show", output, "--json", "--top", "100"], more].concat()).assert();
        let shown = shown.shown(&[]);
        shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    run(&scene.job("in.parquet", "plain", &[])).unwrap();
    assert_eq!(all("plain", &["--undecided"]).len(), all("plain", &[]).len());
    let set = decisions(&scene, "d.csv", "a,b,different\na,d,same\n");
    run(&scene.job("in.parquet", "out", &[&set])).unwrap();
    let undecided = all("out", &["--undecided"]);
    let similarities: Vec<f64> = undecided.iter().map(|pair| pair["jaccard"].as_f64().unwrap()).collect();
    assert!(similarities.is_sorted(), "{similarities:?}");
    let ids =
        |pair: &Value| (pair["id_a"].as_str().unwrap().to_owned(), pair["id_b"].as_str().unwrap().to_owned());
    let left: BTreeSet<_> = undecided.iter().map(ids).collect();
    // d is the same as a, so it is different from b too.
    let expected = [("a", "c"), ("b", "c"), ("c", "d")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(left, BTreeSet::from(expected));
    scene.apply("out", "to", &[]);
    scene.command(&["show", "to", "--undecided"]).assert().refused(2, &["--undecided"]);
}

/// The next day names no file, and follows the decisions of the day before; its own file overrules them.
#[test]
fn decisions_of_earlier_outputs_apply() {
    let scene = scene();
    let set = decisions(&scene, "d.csv", "a,b,different\na,d,same\nn,a,same\n");
    run(&scene.job("in.parquet", "one", &[&set])).unwrap();
    scene.write("two.parquet", &documents(&[("n", text("v", "x")), ("m", text("t", "m"))]));
    let against = scene.against(&["one"]);
    run(&scene.job("two.parquet", "two", &[&against])).unwrap();
    let made = manifest(&scene.path("two"));
    assert_eq!(
        (made.counts.decisions, made.counts.unknown_decision_ids, made.decisions),
        (Some(3), Some(0), None)
    );
    let found = clusters(&scene.path("two"));
    assert_eq!(found["n"], found["a"]);
    let own = decisions(&scene, "own.csv", "n,a,different\n");
    run(&scene.job("two.parquet", "own", &[&against, &own])).unwrap();
    let verdicts: BTreeMap<_, _> =
        string_pairs(&table(&scene.path("own"), "decisions"), ["document_b", "verdict"]);
    assert_eq!(verdicts["n"], "different");
    assert!(!clusters(&scene.path("own")).contains_key("n"));
    let more = decisions(&scene, "more.csv", "b,d,same\n");
    fails(run(&scene.job("two.parquet", "more", &[&against, &more])), Kind::Input, &["`a`", "`b`", "`d`"]);
    let replace = "against.same_id=replace";
    fails(run(&scene.job("two.parquet", "replace", &[&against, replace])), Kind::Job, &["against.same_id"]);
    // A merge has the decisions of its outputs, and a run that forgets a document has none about it.
    let last = scene.job("two.parquet", "two", &[&against]);
    let outputs = ["one", "two"].map(|name| scene.text(name)).to_vec();
    run(&Job::merge(outputs, &last, &scene.text("merged"))).unwrap();
    let found = clusters(&scene.path("merged"));
    assert_eq!((&found["n"], &found["d"]), (&found["a"], &found["a"]));
    std::fs::write(scene.path("ids.txt"), "b\n").unwrap();
    scene.command(&["forget", "one", "--ids", "ids.txt", "--to", "less"]).assert().shown(&[]);
    let rows = table(&scene.path("less/one"), "decisions");
    let others: BTreeSet<String> = strings(&rows, "document_b").into_iter().collect();
    assert_eq!(others, ["d", "n"].map(str::to_owned).into());
}
