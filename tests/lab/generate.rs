//! `resemblance generate` as a user calls it, and what the job finds of what was planted.

use resemblance::job::band_choice;

use crate::support::*;

type Pair = (String, String);

fn truth(path: &Path) -> BTreeMap<Pair, (String, f64)> {
    cells(path, &["id_a", "id_b", "kind", "jaccard", "size"])
        .into_iter()
        .map(|row| {
            assert!(row[0] < row[1] && row[4] == "3", "{row:?}");
            ((row[0].clone(), row[1].clone()), (row[2].clone(), row[3].parse().unwrap()))
        })
        .collect()
}

/// The pairs whose similarity reaches the threshold, and the pairs of identical documents.
fn similar(truth: &BTreeMap<Pair, (String, f64)>, threshold: f64) -> BTreeMap<Pair, f64> {
    let identical = truth.iter().filter(|(_, (kind, _))| kind == "identical");
    let identical: Vec<&String> =
        identical.flat_map(|((a, b), _)| [a, b]).collect::<BTreeSet<_>>().into_iter().collect();
    let among =
        identical.iter().enumerate().flat_map(|(at, a)| identical[at + 1..].iter().map(move |b| (a, b)));
    let among = among.map(|(a, b)| ((a.to_string(), b.to_string()), 1.0));
    let planted = truth.iter().map(|(pair, (_, jaccard))| (pair.clone(), *jaccard));
    planted.chain(among).filter(|(_, jaccard)| *jaccard >= threshold).collect()
}

#[test]
fn the_job_finds_planted_pairs() {
    let path = paths();
    let (corpus, planted) = (path("corpus.parquet"), path("truth.parquet"));
    let options = "--documents 3000 -k 3 --near 0.2 --contained 0.05 --identical 4".split(' ');
    let generated = program!["generate", &corpus, "--truth", &planted].args(options).assert();
    generated.shown(&["3,000 documents", "903 planted pairs"]);
    let truth = truth(&planted);
    let of_kind = |kind: &str| truth.values().filter(|(k, _)| k == kind).count();
    assert_eq!(["copy", "near", "contained", "identical"].map(of_kind), [150, 600, 150, 3]);

    let all = path("all");
    run(&job(&corpus, &all, &["candidates.method=all"])).unwrap();
    assert_eq!(pairs(&all), similar(&truth, 0.5));

    // Few bands, so that the curve is far from 1 where the planted pairs are.
    let (bands, rows) = (5, 12);
    let sets = [format!("lsh.bands={bands}"), format!("lsh.rows={rows}")];
    let lsh = path("lsh");
    run(&job(&corpus, &lsh, &[&sets[0], &sets[1]])).unwrap();
    let found = pairs(&lsh);
    let expected = similar(&truth, 0.8);
    let chances: Vec<f64> = expected.values().map(|s| band_choice::probability(*s, bands, rows)).collect();
    let mean: f64 = chances.iter().sum();
    let sigma = chances.iter().map(|p| p * (1.0 - p)).sum::<f64>().sqrt();
    let hits = expected.keys().filter(|pair| found.contains_key(*pair)).count() as f64;
    assert!((hits - mean).abs() <= 5.0 * sigma, "{hits} found, {mean} expected of {}", expected.len());
    assert!(sigma > 3.0 && found.iter().all(|(pair, jaccard)| similar(&truth, 0.5)[pair] == *jaccard));
}

#[test]
fn files_divide_the_documents_and_change_none() {
    let path = paths();
    let generate = |out: &str, more: &[&str]| {
        program!["generate", path(out), "--documents", "10000", "--words", "20"].args(more).assert()
    };
    let one = generate("one.parquet", &[]).success();
    let record = generate("many", &["--files", "3", "--json"]).json();
    assert_eq!((&record["documents"]["rows"], &record["truth"]), (&10_000.into(), &Value::Null));
    assert!(stdout(one.get_output()).contains("10,000 documents"));
    let columns = ["id", "text"];
    let whole = cells(&path("one.parquet"), &columns);
    let parts: Vec<_> =
        (0..3).flat_map(|part| cells(&path(&format!("many/part-0000{part}.parquet")), &columns)).collect();
    assert_eq!(whole.len(), 10_000);
    assert!(whole == parts && whole.is_sorted());

    // Fewer files take the place of all earlier ones, and of nothing else.
    std::fs::write(path("many/notes.txt"), "mine").unwrap();
    generate("many", &["--files", "2", "--overwrite"]).success();
    let names = std::fs::read_dir(path("many")).unwrap();
    let names: BTreeSet<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["notes.txt", "part-00000.parquet", "part-00001.parquet"].map(String::from).into());
}

#[test]
fn wrong_arguments_are_named_and_write_nothing() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("out");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("there.parquet"), "").unwrap();
    let (there, inside) = (path("there.parquet"), path("out/truth.parquet"));
    let cases: &[(&[&str], &str)] = &[
        (&["--documents", "0"], "from 1 to"),
        (&["--documents", "10", "--copies", "1.5"], "expected a number from 0 to 1"),
        (&["--documents", "10", "--copies", "nan"], "copies"),
        (&["--documents", "10", "--copies", "0.5", "--near", "0.5"], "copies, near and contained"),
        (&["--documents", "10", "--identical", "11"], "identical"),
        (&["--documents", "10", "--jaccards", "0.9,0"], "over 0 and at most 1"),
        (&["--documents", "10", "--words", "3"], "words is 3, but a document has at least one shingle"),
        (&["--documents", "10", "--vocabulary", "1"], "from 2 to"),
        (&["--documents", "10", "--files", "100001"], "from 1 to 100000"),
        (&["--documents", "10", "--truth", &there], "--overwrite"),
        (&["--documents", "10", "--truth", &inside], "--truth"),
    ];
    for (arguments, said) in cases {
        let assert = program!["generate", &out].args(*arguments).assert();
        assert.stdout("").refused(2, &[*said]);
        assert!(!out.exists(), "{arguments:?}");
    }
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("notes.txt"), "mine").unwrap();
    std::fs::write(path("folder/part-00000.parquet"), "theirs").unwrap();
    for (out, more, said) in [
        ("folder", &[][..], "there already"),
        ("notes.txt", &["--overwrite"], "is a file"),
        ("a.parquet", &["--overwrite", "--truth", &path("folder")], "is a folder"),
        ("there.parquet", &[], "there already"),
        ("one.parquet", &["--files", "2"], "files is 2"),
    ] {
        let refused = program!["generate", path(out), "--documents", "10"].args(more).assert();
        refused.refused(2, &[said]);
    }
    assert!(!Path::new(&path("a.parquet")).exists());
    assert_eq!(std::fs::read_to_string(path("folder/part-00000.parquet")).unwrap(), "theirs");
}
