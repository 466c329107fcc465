//! The commands as a user calls them: what they print where, and how they exit.

use std::path::Path;

use predicates::prelude::*;
use tempfile::tempdir;

use crate::support::needs::{Presence, needs};
use crate::support::*;

/// A small job over JSON lines, as a file; returns its path.
fn job_file(folder: &Path, documents: &[Document], more: &str) -> std::path::PathBuf {
    let lines: Vec<String> =
        documents.iter().map(|(id, text)| serde_json::json!({"id": id, "text": text}).to_string()).collect();
    std::fs::write(folder.join("in.jsonl"), lines.join("\n")).unwrap();
    let path = folder.join("job.toml");
    let text = format!(
        "[source]\nformat = \"jsonl\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n\
         [shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {:?}\n{more}",
        folder.join("in.jsonl"),
        folder.join("out"),
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn run_prints_a_summary_and_json_the_whole_record() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 60, 30), "");
    resemblance()
        .arg("run")
        .arg(&job)
        .assert()
        .success()
        .stdout(
            predicate::str::contains("60 documents compared").and(predicate::str::contains("most similar")),
        )
        .stderr(predicate::str::contains("stage=\"pairs\""));

    let again = resemblance().arg("run").arg(&job).arg("--json").assert().success();
    let record: serde_json::Value = serde_json::from_slice(&again.get_output().stdout).unwrap();
    assert_eq!(record["already_finished"], true);
    assert_eq!(record["manifest"]["counts"]["documents"], 60);
    assert_eq!(record["top_pairs"].as_array().unwrap().len(), 10);
    assert_eq!(record["top_pairs"][0]["jaccard"], 1.0);
}

#[test]
fn another_job_onto_an_output_needs_overwrite() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 20, 30), "");
    resemblance().arg("run").arg(&job).assert().success();
    std::fs::write(folder.path().join("out/notes.txt"), "mine").unwrap();
    let other = ["--set", "score.threshold=0.9"];
    resemblance()
        .arg("run")
        .arg(&job)
        .args(other)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--overwrite"));
    resemblance().arg("run").arg(&job).args(other).arg("--overwrite").assert().success();
    assert_eq!(std::fs::read_to_string(folder.path().join("out/notes.txt")).unwrap(), "mine");
    let files = std::fs::read_dir(folder.path().join("out/pairs")).unwrap().count();
    assert_eq!(files, manifest(&folder.path().join("out")).tables["pairs"].files.len());
    assert!(!folder.path().join("out/_work").exists());
}

#[test]
fn every_kind_of_wrong_input_has_its_exit_code_and_says_what_to_do() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 20, 30), "");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--set", "shingle.sise=3"], 2, "sise"),
        (&["--set", "score.threshold=1.5"], 2, "threshold"),
        (&["--set", "score.threshold=nan"], 2, "threshold"),
        (&["--set", "shingle.size=\"three\""], 2, "size"),
        (&["--set", "lsh.bands=100", "--set", "lsh.rows=2"], 2, "permutations"),
        (&["--set", "source.text=body"], 2, "body"),
        (&["--set", "source.url=no/such/file.jsonl"], 3, "no/such/file.jsonl"),
        (&["--set", "source.url=no-such-*.jsonl"], 3, "no-such-*.jsonl"),
    ];
    for (sets, code, said) in cases {
        let assert = resemblance().arg("run").arg(&job).args(*sets).assert().code(*code);
        assert.stderr(predicate::str::contains(*said)).stdout("");
    }
    resemblance()
        .args(["run", "no-such-job.toml"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("no-such-job"));
    resemblance().arg("run").assert().code(2);
    resemblance()
        .args(["sql", "no-such-output"])
        .assert()
        .code(3)
        .stderr(predicate::str::contains("no-such-output"));
}

/// The bytes of a file that is not what it says it is: exit code 3, and the file's name.
#[test]
fn broken_files_are_named() {
    let folder = tempdir().unwrap();
    let whole = folder.path().join("whole.parquet");
    write_parquet(&whole, &corpus(1, 200, 40), 50);
    let bytes = std::fs::read(&whole).unwrap();
    let cases: &[(&str, &str, &[u8])] = &[
        ("parquet", "cut.parquet", &bytes[..bytes.len() / 2]),
        ("parquet", "empty.parquet", b""),
        ("csv", "ragged.csv", b"id,text\n1,one two three\n2,a,b,c\n"),
        ("csv", "latin1.csv", b"id,text\n1,caf\xe9 noir et blanc\n"),
        ("jsonl", "broken.jsonl", b"{\"id\": \"1\", \"text\": \"a b c\"}\n{\"id\": \"2\", \"te"),
    ];
    for (format, name, bytes) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let job = job_file(folder.path(), &[], "");
        let url = format!("source.url={}", path.display());
        let out = format!("output.url={}", folder.path().join(format!("out-{name}")).display());
        let format = format!("source.format={format}");
        resemblance()
            .arg("run")
            .arg(&job)
            .args(["--set", &url, "--set", &out, "--set", &format])
            .assert()
            .code(3)
            .stderr(predicate::str::contains(*name).and(predicate::str::contains("panic").not()));
    }
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 20, 30), "");
    // A file stands where the folder should be; permissions would not stop root.
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let url = folder.path().join("taken/out");
    resemblance()
        .arg("run")
        .arg(&job)
        .args(["--set", &format!("output.url={}", url.display())])
        .assert()
        .code(3)
        .stderr(predicate::str::contains("taken"));
}

/// A file system of 1 MiB, where this machine lets us mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_the_run_goes_on_when_there_is_room() {
    let folder = tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |size: &str, options: &str| {
        let options = format!("size={size}{options}");
        std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&disk)
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !mount("256k", "") {
        needs::<()>(None, "the permission to mount a tmpfs", Presence::Optional);
        return;
    }
    let job = job_file(folder.path(), &corpus(1, 400, 60), "");
    let out = format!("output.url={}", disk.join("out").display());
    let run = || {
        let mut command = resemblance();
        command.arg("run").arg(&job).args(["--set", &out]);
        command
    };
    let full = run().assert();
    let enlarged = mount("64m", ",remount");
    let after = run().assert();
    std::process::Command::new("umount").arg(&disk).status().unwrap();
    full.code(3).stderr(predicate::str::contains("No space left on device"));
    assert!(enlarged);
    after.success();
}

#[test]
fn check_prints_choice_curve_and_recall_without_data() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &[], "");
    std::fs::remove_file(folder.path().join("in.jsonl")).unwrap();
    resemblance()
        .arg("check")
        .arg(&job)
        .args(["--no-data", "--set", "score.threshold=0.8"])
        .assert()
        .success()
        .stdout(predicate::str::contains("16 bands of 6 rows").and(predicate::str::contains("<- threshold")));
    let json = resemblance()
        .arg("check")
        .arg(&job)
        .args(["--no-data", "--set", "score.threshold=0.8", "--json"])
        .assert()
        .success();
    let checked: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    // 1 - (1 - 0.8^6)^16
    let recall = checked["expected_recall_at_threshold"].as_f64().unwrap();
    assert!((recall - 0.992_281_3).abs() < 1e-6, "{recall}");
}

#[test]
fn check_counts_what_estimates_drop() {
    let check = |sets: &[&str]| {
        let mut command = resemblance();
        command.current_dir(repository(".")).args(["check", "jobs/recipes/newsgroups.toml", "--no-data"]);
        sets.iter().for_each(|set| {
            command.args(["--set", set]);
        });
        String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
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

#[test]
fn find_prints_which_file_is_similar_to_which() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let text = "The quick brown fox jumps over the lazy dog while the sun goes down behind the hills.";
    write("one.txt", text);
    write("two.txt", &text.replace("fox", "cat"));
    write(
        "three.txt",
        "Nothing of the kind is written here, as anybody can see who looks at it for long enough.",
    );
    write("bytes.bin", "");
    resemblance()
        .arg("find")
        .arg(folder.path())
        .args(["-t", "0.5"])
        .assert()
        .success()
        .stdout(predicate::str::contains("one.txt").and(predicate::str::contains("three.txt").not()));
    let json = resemblance()
        .arg("find")
        .arg(folder.path())
        .args(["-t", "0.5", "--json", "--all"])
        .assert()
        .success();
    let pair: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert!(pair["id_a"].as_str().unwrap().ends_with("one.txt"));
    assert!(pair["id_b"].as_str().unwrap().ends_with("two.txt"));
    for bad in [["-t", "0"], ["-t", "1.5"], ["-k", "0"]] {
        resemblance()
            .arg("find")
            .arg(folder.path())
            .args(bad)
            .assert()
            .code(2)
            .stderr(predicate::str::is_empty().not());
    }
}

#[test]
fn sql_answers_queries_with_the_functions() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 60, 30), "");
    resemblance().arg("run").arg(&job).args(["--set", "output.keep=shingles"]).assert().success();
    let out = folder.path().join("out");
    let query = "SELECT count(*) AS n, min(jaccard(a.shingles, b.shingles) - p.jaccard) AS low, \
                 max(jaccard(a.shingles, b.shingles) - p.jaccard) AS high \
                 FROM pairs p JOIN documents a ON a.id = p.id_a JOIN documents b ON b.id = p.id_b";
    let answer = resemblance().arg("sql").arg(&out).arg(query).arg("--json").assert().success();
    let row: serde_json::Value = serde_json::from_slice(&answer.get_output().stdout).unwrap();
    assert_eq!(row["n"], pairs(&out).len());
    assert_eq!((row["low"].as_f64(), row["high"].as_f64()), (Some(0.0), Some(0.0)));
    resemblance()
        .arg("sql")
        .arg(&out)
        .arg("SELECT nonsense FROM pairs")
        .assert()
        .code(2)
        .stderr(predicate::str::contains("nonsense"));
    resemblance()
        .arg("sql")
        .arg(&out)
        .write_stdin("SELECT count(*) AS documents\nFROM documents;\nSELECT x;\n\\q\n")
        .assert()
        .code(2)
        .stdout(predicate::str::contains("60"))
        .stderr(predicate::str::contains("error:"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(1, 60, 30), "");
    resemblance().arg("run").arg(&job).assert().success();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("resemblance"))
        .arg("sql")
        .arg(folder.path().join("out"))
        .arg("SELECT a.id, b.id FROM documents a, documents b, documents c")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The README's first command, in an output of its own. The pairs come from a few lines of Python over the same files.
#[test]
fn the_quickstart_runs() {
    let folder = tempdir().unwrap();
    let out = format!("output.url={}", folder.path().join("out").display());
    resemblance()
        .current_dir(repository("."))
        .args(["run", "jobs/quickstart.toml", "--set", &out])
        .assert()
        .success()
        .stdout(predicate::str::contains("most similar"));
    let rejects = table(&folder.path().join("out"), "rejects");
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
    assert_eq!(pairs(&folder.path().join("out")), expected.into());
}

#[test]
fn completions_and_manual_pages_are_those_of_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = resemblance().args(["completions", shell]).assert().success();
        let script = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
        assert!(script.contains("neighbors") && script.contains("overwrite"), "{shell}");
    }
    let folder = tempdir().unwrap();
    let pages = folder.path().join("man");
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
        resemblance()
            .arg("man")
            .arg(&pages)
            .assert()
            .code(2)
            .stderr(predicate::str::contains("resemblance-sql.1"));
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        std::fs::remove_file(&sql).unwrap();
    }
}

/// Of three copies of a short title, none is lost and all are found.
#[test]
fn copies_of_short_texts_are_found() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(
        path("in.csv"),
        "id,t\n1,Red running shoes\n2,red  running shoes\n3,Blue shoes\n4,Red running shoes\n",
    )
    .unwrap();
    let job = "source = { format = 'csv', url = '$in.csv', id = 'id', text = 't' }\noutput.url = '$out'\n";
    std::fs::write(path("job.toml"), job.replace('$', &path(""))).unwrap();
    let run = |more: &[&str]| resemblance().arg("run").arg(path("job.toml")).args(more).assert().success();
    run(&[]).stdout(predicate::str::contains(
        "4 texts have 5 words or fewer: texts of fewer match only equal ones",
    ));
    let out = folder.path().join("out");
    let found: Vec<_> = pairs(&out).into_keys().collect();
    let expected = [("1", "2"), ("1", "4"), ("2", "4")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(table(&out, "rejects").num_rows(), 0);
    run(&["--overwrite", "--set", "shingle.short=reject"]).stdout(predicate::str::contains("4 too_short"));
}

/// A job whose bands miss many pairs at the threshold says so before the run, in its summary and in its manifest.
#[test]
fn a_low_recall_is_warned_of() {
    let folder = tempdir().unwrap();
    let out = format!("output.url={}", folder.path().join("out").display());
    let sets = [
        "jobs/quickstart.toml",
        "--set",
        &out,
        "--set",
        "score.threshold=0.8",
        "--set",
        "lsh.choose=nearest",
    ];
    let said = predicate::str::contains("is expected to find 20.4 %");
    let command = |name: &str| {
        let mut command = resemblance();
        command.current_dir(repository(".")).arg(name).args(sets);
        command.assert().success()
    };
    command("check").stdout(said.clone());
    command("run").stdout(said.clone());
    let warnings = manifest(&folder.path().join("out")).warnings;
    assert!(warnings.iter().any(|warning| said.eval(warning)), "{warnings:?}");
    let sets = ["check", "jobs/quickstart.toml", "--set", "score.threshold=0.8"];
    resemblance().current_dir(repository(".")).args(sets).assert().success().stdout(said.not());
}
