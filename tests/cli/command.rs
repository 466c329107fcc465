//! The commands as a user calls them: what they print where, and how they exit.

use crate::support::*;

#[test]
fn another_job_onto_an_output_needs_overwrite() {
    let scene = Scene::new(&[]).with_job("in.jsonl", &corpus(1, 20, 30));
    scene.command(&["run", "job.toml"]).assert().success();
    let foreign: Vec<PathBuf> = (0..7).map(|n| scene.path(&format!("out/pairs/notes{n}.txt"))).collect();
    foreign.iter().for_each(|file| std::fs::write(file, "mine").unwrap());
    let other = ["--set", "score.threshold=0.9"];
    scene.command(&["run", "job.toml"]).args(other).assert().refused(2, &["--overwrite"]);
    let told = ["7 files in", "and 6 more"];
    scene.command(&["run", "job.toml"]).args(other).arg("--overwrite").assert().warned(&told);
    assert!(foreign.iter().all(|file| std::fs::read_to_string(file).unwrap() == "mine"));
    let files = std::fs::read_dir(scene.path("out/pairs")).unwrap().count();
    assert_eq!(files, manifest(&scene.path("out")).tables["pairs"].files.len() + foreign.len());
    assert!(!scene.path("out/_work").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let scene = Scene::new(&[]).with_job("in.jsonl", &corpus(1, 20, 30));
    // A file stands where the folder should be; permissions would not stop root.
    std::fs::write(scene.path("taken"), "").unwrap();
    scene.command(&["run", "job.toml", "--set", "output.url=taken/out"]).assert().refused(3, &["taken"]);
}

#[test]
fn check_prints_choice_curve_and_recall_without_data() {
    let scene = Scene::new(&[]).with_job("in.jsonl", &[]);
    std::fs::remove_file(scene.path("in.jsonl")).unwrap();
    let check = ["check", "job.toml", "--no-data", "--set", "score.threshold=0.8"];
    scene.command(&check).assert().shown(&["16 bands of 6 rows", "<- threshold"]);
    let one = ["--set", "lsh.bands=1", "--set", "lsh.rows=1", "--set", "minhash.bits=16"];
    scene
        .command(&[&check[..], &one].concat())
        .assert()
        .shown(&["1 band of 1 row", "in bands of 1 row make"]);
    let checked = printed(&mut scene.command(&check));
    // 1 - (1 - 0.8^6)^16
    let recall = checked["expected_recall_at_threshold"].as_f64().unwrap();
    assert!((recall - 0.992_281_3).abs() < 1e-6, "{recall}");
}

#[test]
fn check_counts_pairs_that_estimates_drop() {
    let check = |sets: &[&str]| {
        let mut command = program!["check", "jobs/recipes/newsgroups.toml", "--no-data"];
        command.args(sets.iter().flat_map(|set| ["--set", *set]));
        command.current_dir(repository(".")).assert().shown(&[])
    };
    for (sets, recall, advice) in [
        (&[][..], "0.5593", "set score.prefilter=false to find 99.2 %"),
        (&["candidates.method=all"], "0.5595", "set score.prefilter=false to find 100.0 %"),
        (&["score.prefilter=false", "score.by=signature"], "0.5593", "set score.by=shingles to find 99.2 %"),
        (
            &["score.by=signature", "lsh.bands=5", "lsh.rows=20"],
            "0.0508",
            "set score.by=shingles and score.prefilter=false, and leave [lsh] out",
        ),
    ] {
        let text = check(sets);
        assert!(text.contains(&format!("expected recall of pairs at similarity 0.8: {recall}")), "{text}");
        assert!(text.contains(advice) && text.contains("and passes the estimate"), "{text}");
    }
    let exact = check(&["score.prefilter=false", "candidates.method=prefix"]);
    assert!(exact.contains("expected recall of pairs at similarity 0.8: 1.0000\n"), "{exact}");
    assert!(!exact.contains("bands of") && !exact.contains("becomes a candidate"), "{exact}");
}

/// The README's first command, in an output of its own. The pairs come from a few lines of Python over the same files.
#[test]
fn the_quickstart_runs() {
    let path = paths();
    let out = format!("output.url={}", path("out").display());
    let mut run = program!["run", "jobs/quickstart.toml", "--set", out];
    run.current_dir(repository(".")).assert().shown(&["most similar"]);
    let rejects = table(&path("out"), "rejects");
    let reasons: Vec<_> = strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect();
    let expected =
        [("broken.txt", "invalid_utf8"), ("empty.txt", "empty_text"), ("too-short.txt", "too_short")];
    assert_eq!(reasons, expected.map(|(id, reason)| (id.to_owned(), reason.to_owned())));
    let expected = [
        ("bicycle-manual.txt", "bicycle.txt", 82.0 / 148.0),
        ("bread-copy.txt", "bread-loud.txt", 1.0),
        ("bread-copy.txt", "bread.txt", 1.0),
        ("bread-loud.txt", "bread.txt", 1.0),
        ("garden-edited.txt", "garden-rewritten.txt", 71.0 / 129.0),
        ("garden-edited.txt", "garden.txt", 98.0 / 111.0),
        ("tram-reprinted.txt", "tram.txt", 87.0 / 110.0),
    ];
    let expected = expected.map(|(a, b, jaccard)| ((a.to_owned(), b.to_owned()), jaccard));
    assert_eq!(pairs(&path("out")), expected.into());
}

#[test]
fn completions_and_manual_pages_cover_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        resemblance().args(["completions", shell]).assert().shown(&["neighbors", "overwrite"]);
    }
    let path = paths();
    let pages = path("man");
    resemblance().arg("man").arg(&pages).assert().success();
    for name in ["resemblance", "resemblance-run", "resemblance-apply"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.starts_with(".ie"), "{name}: {page:.40}");
    }
    // Pages of an earlier version are replaced, and nothing else is.
    let [run, sql, theirs] =
        ["resemblance-run.1", "resemblance-sql.1", "theirs"].map(|name| pages.join(name));
    let whole = std::fs::read_to_string(&run).unwrap();
    std::fs::write(&run, &whole[..whole.len() / 2]).unwrap();
    resemblance().arg("man").arg(&pages).assert().success();
    assert_eq!(std::fs::read_to_string(&run).unwrap(), whole);
    std::fs::write(&theirs, "theirs").unwrap();
    std::fs::remove_file(&sql).unwrap();
    let link = || std::fs::hard_link(&theirs, &sql).unwrap();
    #[cfg(unix)]
    let symlink = || std::os::unix::fs::symlink(&theirs, &sql).unwrap();
    for put in [
        &link as &dyn Fn(),
        #[cfg(unix)]
        &symlink,
    ] {
        put();
        resemblance().arg("man").arg(&pages).assert().refused(2, &["resemblance-sql.1"]);
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        std::fs::remove_file(&sql).unwrap();
    }
}

#[test]
fn copies_of_short_texts_are_found() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let rows = "id,t\n1,Red running shoes\n2,red  running shoes\n3,Blue shoes\n4,Red running shoes\n";
    std::fs::write(path("in.csv"), rows).unwrap();
    let job = "source = { format = 'csv', url = '$in.csv', id = 'id', text = 't' }\noutput.url = '$out'\n";
    std::fs::write(path("job.toml"), job.replace('$', &path(""))).unwrap();
    let run = |more: &[&str]| resemblance().arg("run").arg(path("job.toml")).args(more).assert().success();
    run(&[]).shown(&["4 texts have 5 words or fewer: texts of fewer match only equal ones"]);
    let out = folder.path().join("out");
    let found: Vec<_> = pairs(&out).into_keys().collect();
    let expected = [("1", "2"), ("1", "4"), ("2", "4")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(table(&out, "rejects").num_rows(), 0);
    run(&["--overwrite", "--set", "shingle.short=reject"]).shown(&["4 too_short"]);
}

/// A job whose bands miss many pairs at the threshold says so before the run, in its summary and in its manifest.
#[test]
fn a_low_recall_is_warned_of() {
    let path = paths();
    let out = format!("output.url={}", path("out").display());
    let sets = ["score.threshold=0.8", "lsh.choose=nearest", &out].map(|set| ["--set", set]);
    let said = "is expected to find 20.4 %";
    for command in ["check", "run"] {
        let mut command = program![command, "jobs/quickstart.toml"];
        command.current_dir(repository(".")).args(sets.as_flattened()).assert().shown(&[said]);
    }
    let warnings = manifest(&path("out")).warnings;
    assert!(warnings.iter().any(|warning| warning.contains(said)), "{warnings:?}");
    let sets = ["check", "jobs/quickstart.toml", "--set", "score.threshold=0.8"];
    let checked = resemblance().current_dir(repository(".")).args(sets).assert();
    assert!(!checked.shown(&[]).contains(said));
}
