//! Foreign files are never removed; a result that is replaced is there until the new one is.

mod trial;

use crate::support::*;

fn job_file(folder: &Path, format: &str, source: &str, output: &str) -> PathBuf {
    let path = folder.join("job.toml");
    let text = job_text_of(format, source, output);
    std::fs::write(&path, text).unwrap();
    path
}

/// A folder with `proj/documents/part-00000-abc.snappy.parquet`, as another program would have written it.
fn project() -> TempDir {
    let folder = tempdir().unwrap();
    let documents = folder.path().join("proj/documents");
    std::fs::create_dir_all(&documents).unwrap();
    write_parquet(&documents.join("part-00000-abc.snappy.parquet"), &corpus(1, 20, 20), 10);
    folder
}

#[test]
fn a_source_in_the_output_is_refused_and_stays() {
    let folder = project();
    let before = files(&folder.path().join("proj"));
    let absolute = folder.path().join("proj");
    std::os::unix::fs::symlink(&absolute, folder.path().join("link")).unwrap();
    for (source, output) in [
        ("proj/documents/", "proj"),
        ("proj/documents", "./proj/"),
        ("proj/documents/*.parquet", "proj"),
        ("proj/documents/part-00000-abc.snappy.parquet", "proj/documents/../../proj"),
        ("proj/documents/", absolute.to_str().unwrap()),
        ("proj/documents/", "link"),
        ("link/documents/", "proj"),
        ("proj/documents/", "."),
        ("proj/documents/", "proj/documents"),
    ] {
        for more in [&[][..], &["--overwrite"]] {
            let job = job_file(folder.path(), "parquet", source, output);
            let run = program!["run", &job].current_dir(folder.path()).args(more).assert();
            run.refused(2, &["output"]);
            assert_eq!(files(&absolute), before, "{source} to {output}");
        }
    }
}

#[test]
fn an_output_in_the_source_is_refused() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    write_parquet(&data.join("in.parquet"), &corpus(1, 20, 20), 10);
    std::fs::write(data.join("in.json"), "{\"id\":\"a\",\"text\":\"one two three\"}\n").unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), data.join("linked")).unwrap();
    let before = files(&data);
    for (format, source, output) in [
        ("parquet", "data", "./data/out"),
        ("parquet", "data/", "data"),
        ("parquet", ".", "out"),
        ("parquet", "data/**/*.parquet", "data/out"),
        ("parquet", "data/*", "data/out"),
        // `.json` takes in `manifest.json`.
        ("jsonl", "data", "data/out"),
        ("jsonl", "data/*/*.json", "data/out"),
    ] {
        let job = job_file(folder.path(), format, source, output);
        resemblance().current_dir(folder.path()).arg("run").arg(&job).assert().refused(2, &["output"]);
        assert_eq!(files(&data), before, "{source} to {output}");
        assert!(!folder.path().join("out").exists());
    }
    // By a link inside the source, once there is something behind it.
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    write_parquet(&folder.path().join("elsewhere/in.parquet"), &corpus(2, 20, 20), 10);
    let job = job_file(folder.path(), "parquet", "data", "elsewhere");
    let run = || resemblance().current_dir(folder.path()).arg("run").arg(&job).assert();
    run().refused(2, &["data/linked/in.parquet lies in the output"]);
    let job = job_file(folder.path(), "parquet", "data/*.parquet", "data/out");
    resemblance().current_dir(folder.path()).arg("run").arg(&job).assert().success();
}

#[test]
fn an_overwrite_that_fails_leaves_the_old_result_whole() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(4, 60, 30));
    let (input, output) = (scene.path("in.parquet"), scene.path("out"));
    scene.command(&["run", "job.toml"]).assert().success();
    let (before, whole) = (files(&output), std::fs::read(&input).unwrap());
    let overwrite = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        scene.command(&["run", "job.toml", "--overwrite"]).args(sets).assert()
    };
    overwrite(&["source.text=body"]).refused(2, &["no column `body`"]);
    assert_eq!(files(&output), before);
    overwrite(&["source.url=nowhere.parquet"]).code(3);
    assert_eq!(files(&output), before);
    // A file that cannot be read is found before anything is written.
    std::fs::write(&input, &whole[..whole.len() / 2]).unwrap();
    overwrite(&[]).refused(3, &["in.parquet"]);
    assert_eq!(files(&output), before);
    resemblance().arg("verify").arg(&output).assert().success();
}

/// A failure before each plan of an `--overwrite`: the old result can be read after each, and the next one continues.
#[test]
fn an_interrupted_overwrite_keeps_the_old_result_and_resumes() {
    let path = paths();
    let (first, second) = (path("first.parquet"), path("second.parquet"));
    write_parquet(&first, &corpus(5, 60, 30), 20);
    write_parquet(&second, &corpus(6, 70, 30), 20);
    let expected = |input: &Path, name: &str| {
        let output = path(name);
        run(&job(input, &output, &[])).unwrap();
        tables(&output)
    };
    let (old, new) = (expected(&first, "old"), expected(&second, "new"));
    let output = path("out");
    let mut ended_early = 0;
    for at in 0.. {
        if at == 0 || manifest(&output).counts.documents != 60 {
            run_until(&job(&first, &output, &[]), OnExisting::Overwrite, usize::MAX).0.unwrap();
        }
        assert_eq!(tables(&output), old, "before plan {at}");
        let over = job(&second, &output, &[]);
        let (_, failed) = run_until(&over, OnExisting::Overwrite, at);
        if !failed {
            break;
        }
        ended_early += 1;
        assert_eq!(tables(&output), old, "after plan {at} failed");
        assert_eq!(std::fs::read_dir(output.join("_work/claims")).map_or(0, Iterator::count), 0);
        let outcome = run_until(&over, OnExisting::Overwrite, usize::MAX).0.unwrap();
        // A stage of each earlier plan, except for the two stages that find texts for a finished stage. The stages losses and pairs have two plans.
        assert!(outcome.stages_reused + 4 >= at, "{} at plan {at}", outcome.stages_reused);
        assert_eq!(tables(&output), new, "taken up at plan {at}");
        let named = manifest(&output).paths().len();
        assert_eq!(files(&output).len(), named + 1, "leftovers after plan {at}");
    }
    assert!(ended_early >= 7, "only {ended_early} plans");
    assert_eq!(tables(&output), new);
}

#[test]
fn an_unfinished_run_of_another_job_stands_in_nobodys_way() {
    let path = paths();
    let input = path("in.parquet");
    let mut documents = corpus(7, 40, 30);
    documents.push(documents[0].clone());
    write_parquet(&input, &documents, 20);
    let output = path("out");
    // Two documents of one id end the run after its first stage, and its own advice has another fingerprint.
    let error = run(&job(&input, &output, &[])).unwrap_err();
    assert!(error.to_string().contains("source.duplicate_ids = \"reject\""), "{error}");
    let outcome = run(&job(&input, &output, &["source.duplicate_ids=reject"])).unwrap();
    assert_eq!(outcome.manifest.counts.documents, 40);
    assert_eq!(files(&output).len(), manifest(&output).paths().len() + 1);
}

#[test]
fn the_manifest_of_somebody_else_is_never_replaced() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(9, 40, 30));
    let output = scene.path("out");
    std::fs::create_dir(&output).unwrap();
    let (other, damaged) = ("was not written by this program", "is not JSON");
    for (text, why) in [
        ("{\"metadata\": {\"dbt_version\": \"1.9.0\", \"project_name\": \"shop\"}, \"nodes\": {}}", other),
        ("{\"short_name\": \"app\", \"icons\": []}", other),
        ("{\n  \"resemblance\": \"0.2.0\",\n  \"fingerpri", damaged),
        ("no JSON at all", damaged),
        ("", damaged),
    ] {
        std::fs::write(output.join("manifest.json"), text).unwrap();
        let before = files(&output);
        for command in [
            &["run", "job.toml"][..],
            &["run", "job.toml", "--overwrite"],
            &["clean", "out"],
            &["verify", "out"],
        ] {
            let said = scene.command(command).assert().refused(3, &[&format!("manifest.json {why}")]);
            assert!(!said.contains("--overwrite"), "{said}");
            assert_eq!(files(&output), before, "{text}");
            assert!(!output.join("_work").exists());
        }
    }
}

#[test]
fn generate_replaces_only_generated_files() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("many");
    let generate = |out: &Path, more: &[&str]| {
        program!["generate", out, "--documents", "50", "--words", "9", "--overwrite"].args(more).assert()
    };
    generate(&out, &["--files", "3"]).success();
    // The program's own corpus, as another program wrote it again, and one under another name.
    let (part, foreign) = (out.join("part-00000.parquet"), out.join("part-00007.parquet"));
    let own = std::fs::read(&part).unwrap();
    write_parquet(&foreign, &corpus(1, 9, 9), 9);
    for bytes in [std::fs::read(&foreign).unwrap(), own.clone(), b"PAR1".to_vec()] {
        std::fs::write(&foreign, bytes).unwrap();
        let before = files(&out);
        generate(&out, &["--files", "2"]).refused(2, &["part-00007.parquet was not written by generate"]);
        assert_eq!(files(&out), before);
    }
    std::fs::remove_file(&foreign).unwrap();
    generate(&out, &["--files", "2"]).success();
    assert_eq!(files(&out).len(), 2);

    let (one, truth) = (folder.path().join("one.parquet"), folder.path().join("truth.parquet"));
    let with_truth = ["--truth", truth.to_str().unwrap()];
    generate(&one, &with_truth).success();
    generate(&one, &with_truth).success();
    for path in [&one, &truth] {
        let whole = std::fs::read(path).unwrap();
        write_parquet(path, &corpus(1, 9, 9), 9);
        let before = files(folder.path());
        generate(&one, &with_truth).refused(2, &["was not written by generate"]);
        assert_eq!(files(folder.path()), before);
        std::fs::write(path, whole).unwrap();
    }
}

fn untouched(folder: &Path, command: impl FnOnce()) {
    let listed = || -> BTreeMap<PathBuf, (bool, Vec<u8>)> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let entries = entries.filter(|path| path.is_file());
        entries.map(|path| (path.clone(), (path.is_symlink(), std::fs::read(&path).unwrap()))).collect()
    };
    let before = listed();
    command();
    assert_eq!(listed(), before);
}

#[test]
fn records_and_metrics_replace_only_files_of_earlier_runs() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(1, 20, 20));
    std::fs::write(scene.path("notes.json"), "{\n  \"record\": \"mine\"\n}").unwrap();
    std::os::unix::fs::symlink("notes.json", scene.path("link")).unwrap();
    std::os::unix::fs::symlink("missing", scene.path("dangling")).unwrap();
    let run = |argument: &str, file: &str, code: i32| {
        scene.command(&["run", "job.toml", argument, file]).assert().code(code);
    };
    for argument in ["--record", "--metrics"] {
        for mine in ["job.toml", "in.parquet", "notes.json", "link", "dangling"] {
            untouched(&scene.path(""), || run(argument, mine, 2));
        }
        let own = format!("own{argument}");
        run(argument, &own, 0);
        let first = std::fs::read(scene.path(&own)).unwrap();
        run(argument, &own, 0);
        assert_ne!(std::fs::read(scene.path(&own)).unwrap(), first);
        untouched(&scene.path("out"), || run(argument, "out/manifest.json", 2));
    }
    untouched(&scene.path(""), || run("--record", "own--metrics", 2));
    untouched(&scene.path(""), || run("--metrics", "own--record", 2));
}

#[test]
fn charts_replace_only_charts() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(1, 60, 20));
    let plots = scene.path("plots");
    let compare = |code: i32| {
        let compare = ["compare", "job.toml", "--documents", "20,40", "--plots", "plots"];
        scene.command(&compare).assert().code(code);
    };
    compare(0);
    compare(0);
    let names: Vec<PathBuf> = std::fs::read_dir(&plots).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.len() > 2, "{names:?}");
    std::fs::write(scene.path("mine"), "mine").unwrap();
    for path in names {
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, "<svg>mine</svg>").unwrap();
        untouched(&plots, || compare(2));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(scene.path("mine"), &path).unwrap();
        untouched(&plots, || compare(2));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, whole).unwrap();
    }
}
