//! Runs that are killed or stopped while they read the source: what they have read is not read again.

use std::cell::Cell;
use std::io::{BufRead, BufReader};

use arrow::array::BinaryArray;

use crate::support::*;

pub(crate) const WRITTEN: &str = "part written";

/// A command that runs `job` into `output` on so many threads, and logs as JSON.
pub(crate) fn command(job: &Path, output: impl AsRef<Path>, threads: usize, sets: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.arg("run").arg(job).args(["--log-format", "json"]).env("RESEMBLANCE_LOG", "resemblance=debug");
    let (output, engine) =
        (format!("output.url={}", output.as_ref().display()), format!("engine.threads={threads}"));
    command.args(["--set", &output, "--set", &engine]);
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    command
}

/// Runs to the end: the lines of the log with this message.
pub(crate) fn log(mut command: Command, message: &str) -> Vec<Value> {
    let said = command.output().unwrap().warned(&[]);
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["fields"]["message"] == message).collect()
}

pub(crate) fn records(output: &Path, stage: &str) -> Vec<PathBuf> {
    let begin = format!("{stage}-");
    let is_part = |name: &str| name.starts_with(&begin) && name.contains("-of-") && name.ends_with(".json");
    let there = std::fs::read_dir(output.join("_work")).unwrap().map(|entry| entry.unwrap().path());
    there.filter(|path| is_part(path.file_name().unwrap().to_str().unwrap())).collect()
}

/// Kills a run when it has written `parts` parts of `stage`: the number of parts that are recorded then.
pub(crate) fn killed(mut command: Command, output: &Path, stage: &str, parts: usize) -> usize {
    let written = Cell::new(0);
    let killed = killed_at(&mut command, |line| {
        written.set(written.get() + usize::from(line["fields"]["message"] == WRITTEN));
        written.get() == parts
    });
    assert!(killed && !output.join("manifest.json").exists(), "it ended before it was killed");
    records(output, stage).len()
}

/// Holds an output against that of a run without faults.
pub(crate) fn assert_undisturbed(job: &Path, output: &Path, undisturbed: &Path, sets: &[&str]) {
    log(command(job, undisturbed, 2, sets), WRITTEN);
    assert_eq!(tables(output), tables(undisturbed), "{sets:?}");
}

/// A folder of text files, enough for eleven parts of some work, some of them too short.
pub(crate) fn text_files(folder: &Path) -> PathBuf {
    std::fs::create_dir(folder.join("in")).unwrap();
    for (number, (id, text)) in corpus(41, 1_500, 200).into_iter().enumerate() {
        let text = if number % 50 == 0 { "short".to_owned() } else { text };
        std::fs::write(folder.join(format!("in/{id}.txt")), text).unwrap();
    }
    let job = folder.join("job.toml");
    let text = job_text_of("text", folder.join("in"), SET_BY_THE_TEST).replace(COLUMNS, "");
    std::fs::write(&job, text).unwrap();
    job
}

/// One Parquet file of four row groups, which is large by a column that no job reads.
fn one_large_file(folder: &Path) -> PathBuf {
    const ROWS: usize = 400;
    let mut random = Random(5);
    let mut documents = corpus(42, ROWS, 400);
    // An id that comes twice, where duplicates are rejected.
    documents[ROWS - 1].0 = documents[0].0.clone();
    let junk: Vec<Vec<u8>> =
        (0..ROWS).map(|_| (0..22_000).flat_map(|_| random.next().to_le_bytes()).collect()).collect();
    let more: Vec<(&str, ArrayRef)> = vec![
        ("crawl", Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("crawl {}", row % 3))))),
        ("junk", Arc::new(BinaryArray::from_iter_values(junk))),
    ];
    write_columns(&folder.join("in.parquet"), &documents, more, ROWS / 4);
    let job = folder.join("job.toml");
    let text = job_text(folder.join("in.parquet"), SET_BY_THE_TEST);
    let text = text.replace("text = \"text\"", "text = \"text\"\nduplicate_ids = \"reject\"");
    std::fs::write(&job, text).unwrap();
    job
}

#[test]
fn a_killed_run_reads_only_the_other_parts_again() {
    let folder = tempdir().unwrap();
    let job = text_files(folder.path());
    let undisturbed = folder.path().join("undisturbed");
    let all = log(command(&job, &undisturbed, 2, &[]), WRITTEN).len();
    assert_eq!(all, 11);
    // The log has lines of stages alone.
    let mut without_details = command(&job, folder.path().join("without_details"), 2, &[]);
    without_details.env_remove("RESEMBLANCE_LOG");
    assert!(log(without_details, WRITTEN).is_empty());
    let Run { counts, inputs, .. } = manifest(&undisturbed);
    assert!(counts.rejects > 20 && counts.pairs > 100);

    let output = folder.path().join("out");
    let first = killed(command(&job, &output, 1, &[]), &output, "sketches", 2);
    assert!((2..all - 2).contains(&first), "{first} of {all}");
    // Killed again, on other threads.
    let second = killed(command(&job, &output, 3, &[]), &output, "sketches", 1);
    assert!(first < second && second < all, "{first}, {second} of {all}");
    // One that was damaged since is read again.
    let record: Value =
        serde_json::from_slice(&std::fs::read(&records(&output, "sketches")[0]).unwrap()).unwrap();
    let damaged = output.join(record["files"][0]["path"].as_str().unwrap());
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let written = log(command(&job, &output, 5, &[]), WRITTEN);
    assert_eq!(written.len(), all - second + 1);
    assert_eq!(tables(&output), tables(&undisturbed));
    assert!(!output.join("_work").exists());
    assert!(manifest(&output).inputs == inputs, "checksums of files that an earlier attempt read");
    assert!(inputs.iter().all(|file| file.crc32.is_some()));
}

#[test]
fn parts_are_recorded_in_an_object_store_too() {
    let s3 = S3::start();
    let folder = tempdir().unwrap();
    let job = text_files(folder.path());
    let run = |threads| {
        let mut command = command(&job, s3.url("out"), threads, &[]);
        command.envs(s3.env());
        command
    };
    let parts = killed(run(1), &s3.file("out"), "sketches", 2);
    assert!((2..11).contains(&parts), "{parts}");
    assert_eq!(log(run(2), WRITTEN).len(), 11 - parts);
    assert_undisturbed(&job, &s3.file("out"), &folder.path().join("undisturbed"), &[]);
    assert!(s3.keys("out/_work").is_empty());
}

#[test]
fn row_groups_of_one_file_are_parts() {
    let folder = tempdir().unwrap();
    let job = one_large_file(folder.path());
    let grouped = ["source.columns=[\"crawl\"]", "source.group=\"crawl\"", "output.keep=\"shingles\""];
    for (number, stage, sets) in
        [(0, "sketches", &[][..]), (1, "cuts", &["shingle.hash=\"dictionary\""]), (2, "sketches", &grouped)]
    {
        let output = folder.path().join(format!("out {number}"));
        let parts = killed(command(&job, &output, 1, sets), &output, stage, 1);
        assert!((1..4).contains(&parts), "{parts} parts of {stage}");
        let written = log(command(&job, &output, 4, sets), WRITTEN);
        let of_stage = written.iter().filter(|line| line["fields"]["stage"] == stage).count();
        assert_eq!(of_stage, 4 - parts, "{stage}");
        assert_undisturbed(&job, &output, &folder.path().join(format!("undisturbed {number}")), sets);
        assert!(manifest(&output).rejects.contains_key("duplicate_id"));
    }
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_keeps_its_parts() {
    let folder = tempdir().unwrap();
    let job = text_files(folder.path());
    let output = folder.path().join("out");
    let mut child =
        command(&job, &output, 1, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains(WRITTEN)));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.last().unwrap().contains("run the same command again"), "{said:?}");
    assert!(!output.join("manifest.json").exists());
    let parts = records(&output, "sketches").len();
    assert!((1..11).contains(&parts), "{parts}");
    let taken = log(command(&job, &output, 2, &[]), "parts that an earlier run read are taken over");
    let fields = &taken[0]["fields"];
    assert_eq!((taken.len(), &fields["reused"], &fields["of"]), (1, &parts.into(), &11.into()));
    assert_undisturbed(&job, &output, &folder.path().join("undisturbed"), &[]);
}
