//! A result that is taken up where an attempt was killed.

use std::cell::Cell;

use super::*;

/// Files of the source: enough for several parts.
const FILES: usize = 1_500;

fn applied_of(files: usize) -> Applied {
    Applied::of_texts(&corpus(15, files, 8))
}

/// Kills the command as soon as it says that some files are done.
fn kill(applied: &Applied, to: &str) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.args(["-vv", "--log-format", "json", "apply"]).arg(applied.path("out"));
    command.arg("--to").arg(applied.path(to));
    let killed = killed_at(&mut command, |line| line["fields"]["message"] == "files written");
    assert!(killed, "it ended before it was killed");
    assert!(!applied.path(to).join("_resemblance/manifest.json").exists());
    assert!(std::fs::read_dir(applied.path(to).join("_resemblance/_work/parts")).unwrap().count() > 0);
}

#[test]
fn a_killed_apply_resumes() {
    let applied = applied_of(FILES);
    applied.apply("undisturbed", &[]);
    let expected = result(&applied.path("undisturbed"));
    kill(&applied, "to");
    // The rest of a file after a kill, a foreign file of such a name, and a foreign file in the place of a result's.
    let begun = std::fs::read(applied.path("to/_resemblance/_work/apply.json")).unwrap();
    let fingerprint = serde_json::from_slice::<Value>(&begun).unwrap()["fingerprint"].clone();
    let staged = format!("to/.resemblance-{}-Ab12cd.tmp", fingerprint.as_str().unwrap());
    std::fs::write(applied.path(&staged), "half").unwrap();
    let mine = applied.path("to/.resemblance-Ab12cd.tmp");
    std::fs::write(&mine, "mine").unwrap();
    let files = expected["files"].as_array().unwrap();
    let written = files.iter().rev().find_map(|file| file["written"][0]["path"].as_str()).unwrap();
    assert!(!applied.path("to").join(written).exists(), "the last file was written before the kill");
    std::fs::write(applied.path("to").join(written), "somebody else's").unwrap();
    applied.refused("to", &[], 3, &[written, "other bytes"]);
    assert_eq!(std::fs::read(applied.path("to").join(written)).unwrap(), b"somebody else's");
    std::fs::remove_file(applied.path("to").join(written)).unwrap();
    assert!(!applied.path(&staged).exists() && std::fs::read(&mine).unwrap() == b"mine");
    std::fs::remove_file(mine).unwrap();

    let spelled = format!("{}/./", applied.path("in/../out").display());
    let printed = program!["apply", spelled, "--json", "--to", applied.path("to")].assert().json();
    let reused = printed["files_reused"].as_u64().unwrap();
    assert!(reused >= 100, "{printed}");
    let found = result(&applied.path("to"));
    for part in ["files", "counts", "fingerprint"] {
        assert_eq!(found[part], expected[part], "{part}");
    }
    assert_eq!(printed["already_finished"], false);
    // The state after a kill between the manifest and the end.
    write_file(&applied.folder, "to/_resemblance/_work/apply.json", begun);
    assert_eq!(applied.apply("to", &[])["already_finished"], true);
    assert!(!applied.path("to/_resemblance/_work").exists());
}

/// A limit of the size of files ends the process inside of the manifest, which names more files than any record before it.
#[cfg(target_os = "linux")]
#[test]
fn the_rest_of_a_manifest_that_was_cut_off_goes_with_the_next_attempt() {
    use std::os::unix::process::ExitStatusExt;

    let applied = applied_of(800);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 160; exec \"$0\" apply \"$@\""]);
    shell.arg(assert_cmd::cargo::cargo_bin("resemblance")).arg(applied.path("out"));
    let ended = shell.arg("--to").arg(applied.path("to")).output().unwrap();
    let sigxfsz = 25;
    assert_eq!(ended.status.signal(), Some(sigxfsz), "{}", stderr(&ended));
    let rest = || {
        let names = files(&applied.path("to")).into_keys();
        names.filter(|name| name.ends_with(".tmp")).count()
    };
    assert!(rest() == 1 && !applied.path("to/_resemblance/manifest.json").exists());
    applied.apply("to", &[]);
    assert_eq!(rest(), 0);
}

#[test]
fn files_that_were_lost_after_a_kill_are_written_again() {
    let applied = applied_of(FILES);
    kill(&applied, "to");
    let mut parts = files(&applied.path("to/_resemblance/_work/parts"));
    parts.retain(|path, _| path.ends_with(".json"));
    let part: Value = serde_json::from_slice(parts.values().next().unwrap()).unwrap();
    let files = part["files"].as_array().unwrap();
    let lost = files.iter().find_map(|file| file["written"][0]["path"].as_str()).unwrap();
    std::fs::remove_file(applied.path("to").join(lost)).unwrap();
    // Other options are another result, which has no place there.
    applied.refused("to", &["--rejects", "drop"], 2, &["unfinished result of apply"]);
    applied.apply("to", &[]);
    result(&applied.path("to"));
    assert!(applied.path("to").join(lost).exists());
}

/// The claim of a process of another machine, which cannot be looked up, is waited for as in a run. It is not renewed.
#[test]
fn a_dead_process_of_another_machine_blocks_neither_apply_nor_clean() {
    let applied = applied_of(20);
    let (out, to) = (applied.path("out"), applied.path("to"));
    for (name, work) in [("apply", to.join("_resemblance/_work")), ("clean", out.join("_work"))] {
        let claim = work.join("claims/00000000000000000000000000000000.json");
        std::fs::create_dir_all(claim.parent().unwrap()).unwrap();
        let process = json!({"host": "far", "pid": 1, "place": "elsewhere", "began": 1});
        let dead = json!({"owner": true, "beat": 7, "seconds": 2, "what": "apply", "process": process});
        std::fs::write(&claim, dead.to_string()).unwrap();
        let mut command = program![name, &out];
        let ended = if name == "apply" { command.arg("--to").arg(&to).assert() } else { command.assert() };
        let waits = format!("this {name} waits until it has ended");
        ended.warned(&["(process 1 on far) is writing to", &waits]);
        assert!(!claim.exists());
    }
    result(&to);
}

const PART: u64 = 100;

/// The parts that two results of one application share.
struct Same {
    /// The files, without tables.
    bytes: BTreeMap<String, Vec<u8>>,
    /// The lines of the tables `removed` and `removed_spans`, sorted: which task writes which rows is open, and so are the names of
    /// files.
    rows: [Vec<String>; 2],
    manifest: [Value; 5],
}

impl Same {
    /// The parts of the result in `to`, which has no other files.
    fn of(to: &Path) -> Self {
        let manifest = result(to);
        let mut bytes = files(to);
        bytes.remove("_resemblance/manifest.json").unwrap();
        bytes.retain(|path, _| !path.starts_with("_resemblance/removed"));
        let rows = ["removed", "removed_spans"].map(|table| {
            let batch = parquet(&to.join("_resemblance").join(table));
            let text = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string();
            let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
            rows.sort();
            rows
        });
        let parts = ["files", "counts", "passage_counts", "fingerprint", "warnings"];
        Self { bytes, rows, manifest: parts.map(|part| manifest[part].clone()) }
    }

    fn assert_is(&self, expected: &Self, what: &str) {
        let names = |same: &Self| same.bytes.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(expected), "files {what}");
        let differ: Vec<&String> =
            self.bytes.keys().filter(|path| self.bytes[*path] != expected.bytes[*path]).collect();
        assert!(differ.is_empty(), "files of other bytes {what}: {differ:?}");
        assert_eq!(self.rows, expected.rows, "rows {what}");
        assert_eq!(self.manifest, expected.manifest, "the manifest {what}");
    }
}

fn texts_with_shared_lines(seed: u64, count: usize) -> Vec<Document> {
    let shared = ["each page has this line at its end", "and some have this one, with a café"];
    let texts = corpus(seed, count, 8).into_iter().enumerate();
    texts.map(|(at, (id, text))| (format!("{id}.txt"), format!("{text}\n{}\n", shared[at % 2]))).collect()
}

const PASSAGES: &str = "[passages]\nunit = \"line\"\nmin_words = 3\n";

/// Messages at which a cut is killed: three about each of its three tables, one before the first file, and
/// one after the first part of the files.
const MESSAGES: usize = 11;

/// Files of its source: when the first part is done, several are still to be written.
const FILES_OF_SOME_PARTS: usize = 800;

/// Each attempt is killed at a later message, and taken up at once.
#[test]
fn a_cut_that_was_killed_at_any_message_has_the_bytes_of_an_undisturbed_one() {
    let applied = Applied::new();
    for (name, text) in texts_with_shared_lines(18, FILES_OF_SOME_PARTS) {
        applied.put(&name, text);
    }
    applied.run("text", PASSAGES);
    let cut = ["--passages", "cut"];
    applied.apply("undisturbed", &cut);
    let expected = Same::of(&applied.path("undisturbed"));
    assert!(expected.rows.iter().all(|rows| rows.len() > 100));
    for number in 1..=MESSAGES {
        let to = format!("killed{number}");
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.args(["-vv", "--log-format", "json", "apply"]).arg(applied.path("out"));
        command.arg("--to").arg(applied.path(&to)).args(cut);
        let seen = Cell::new(0);
        let killed = killed_at(&mut command, |line| {
            let message = line["fields"]["message"].as_str().unwrap_or_default();
            let counts = ["begins", "planned", "done", "files written"].contains(&message);
            seen.set(seen.get() + usize::from(counts));
            seen.get() == number
        });
        assert!(killed && seen.get() == number, "it ended before it was killed at message {number}");
        assert!(!applied.path(&to).join("_resemblance/manifest.json").exists());
        let printed = applied.apply(&to, &cut);
        assert!(number < MESSAGES || printed["files_reused"].as_u64() >= Some(PART), "{printed}");
        Same::of(&applied.path(&to)).assert_is(&expected, &format!("after a kill at message {number}"));
    }
}

/// Milliseconds for which the server does not answer a put: the command cannot end before, and is killed long before that.
const HELD: u64 = 600_000;

const TEXTS: usize = 48;

/// In a bucket the moment of a kill can be chosen: the server keeps what is put, but does not answer, so that the command waits at
/// that put until it is killed.
#[test]
fn a_cut_that_was_killed_at_any_put_has_the_bytes_of_an_undisturbed_one() {
    let s3 = S3::start();
    for (name, text) in texts_with_shared_lines(17, TEXTS) {
        s3.put(&format!("in/{name}"), text);
    }
    let folder = tempdir().unwrap();
    let job = format!(
        "[source]\nformat = \"text\"\nurl = {:?}\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n{PASSAGES}\
         [output]\nurl = {:?}\n",
        s3.url("in/"),
        s3.url("out/")
    );
    std::fs::write(folder.path().join("job.toml"), job).unwrap();
    resemblance().envs(s3.env()).arg("run").arg(folder.path().join("job.toml")).assert().success();
    let arguments = |to: &str| {
        ["apply", &s3.url("out"), "--to", &s3.url(to), "--passages", "cut", "--json"].map(str::to_owned)
    };
    let apply = |to: &str| -> Value { resemblance().envs(s3.env()).args(arguments(to)).assert().json() };
    apply("undisturbed");
    let expected = Same::of(&s3.file("undisturbed"));
    // Four of the lines are the frame of a table and the names of its columns.
    assert!(expected.rows.iter().all(|rows| rows.len() > 10), "{:?}", expected.rows);
    let names: Vec<&str> = expected.bytes.keys().map(String::as_str).collect();
    let moments = [
        "_resemblance/_work/claims/",
        "_resemblance/_work/apply.json",
        "_resemblance/_work/attempts/",
        "_resemblance/removed/",
        "_resemblance/_work/removed.",
        "_resemblance/removed_spans/",
        names[0],
        names[names.len() / 2],
        "_resemblance/_work/parts/000000.json",
        "_resemblance/manifest.json",
    ];
    for (number, moment) in moments.into_iter().enumerate() {
        let to = format!("killed{number}");
        s3.faults.add(&format!("PUT /data/{to}/{moment}"), 1, Fault::Slow(HELD));
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        let mut killed =
            Process::start_apart(&to, command.envs(s3.env()).args(arguments(&to)), folder.path());
        wait_for(moment, Duration::from_secs(60), || {
            assert!(killed.ended().is_none(), "it ended before it put {moment}");
            let is_put = s3.faults.left() == 0 && !s3.keys(&format!("{to}/{moment}")).is_empty();
            is_put.then_some(())
        });
        killed.kill();
        let ended = killed.wait(Duration::from_secs(60));
        assert_eq!(ended.code(), None, "it ended before it was killed at {moment}");
        let is_last = number + 1 == moments.len();
        let manifest = s3.file(&format!("{to}/_resemblance/manifest.json"));
        assert_eq!(manifest.exists(), is_last, "{moment}");

        let printed = apply(&to);
        assert_eq!(printed["already_finished"], is_last, "{moment}");
        let reused = if moment.contains("/parts/") { TEXTS } else { 0 };
        assert_eq!(printed["files_reused"], reused, "{moment}");
        Same::of(&s3.file(&to)).assert_is(&expected, &format!("after a kill at {moment}"));
    }
}
