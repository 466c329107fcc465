//! Runs that are killed or stopped, and taken up again.

#![allow(clippy::disallowed_methods, reason = "a moment to kill at is a time, so these tests sleep until it")]

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::process::{Process, killed_at, wait_for};
use crate::support::s3::{Fault, S3};
use crate::support::*;

fn spawn(job: &Path, output: &Path) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("resemblance"))
        .arg("run")
        .arg(job)
        .args(["--set", &format!("output.url={}", output.display())])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn job_file(folder: &Path) -> PathBuf {
    write_parquet(&folder.join("in.parquet"), &corpus(11, 1_500, 60), 200);
    let job = folder.join("job.toml");
    let text = job_text(folder.join("in.parquet"), SET_BY_THE_TEST);
    std::fs::write(&job, text).unwrap();
    job
}

/// Starts a run and kills it as soon as it says that `stage` is done: whether it was killed, and did not end before.
fn killed_after(job: &Path, output: &Path, stage: &str, more: &[&str]) -> bool {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    let set = format!("output.url={}", output.display());
    command.arg("run").arg(job).args(["--set", &set, "--log-format", "json"]).args(more);
    killed_at(&mut command, |line| line["fields"]["stage"] == stage && line["fields"]["message"] == "done")
}

/// A kill after each stage, of a first run and of one that replaces a result: the next run continues from that stage, its rows
/// are right, and nothing stays behind. Until then the result that is replaced is whole.
#[test]
fn killed_after_each_stage_and_run_again_the_result_is_the_same() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path());
    let undisturbed = folder.path().join("undisturbed");
    assert!(spawn(&job, &undisturbed).wait().unwrap().success());
    let expected = tables(&undisturbed);
    let stages: Vec<String> = manifest(&undisturbed).stages.into_iter().map(|stage| stage.name).collect();
    assert!(stages.len() >= 8, "{stages:?}");
    let check = |output: &Path, what: &str| {
        assert_eq!(tables(output), expected, "{what}");
        let kept: usize = manifest(output).tables.values().map(|t| t.files.len()).sum();
        let there: usize = ["documents", "rejects", "pairs", "clusters"]
            .iter()
            .map(|table| std::fs::read_dir(output.join(table)).unwrap().count())
            .sum();
        assert_eq!(there, kept, "files that no manifest names stay behind: {what}");
        assert!(!output.join("_work").exists(), "{what}");
    };
    let replaced = folder.path().join("replaced");
    assert!(spawn(&job, &replaced).wait().unwrap().success());
    let mut killed = 0;
    for (number, stage) in stages.iter().enumerate() {
        // Positions are not needed if the stage that reads the texts is finished.
        let needed = stages[..=number].iter().filter(|stage| !stage.ends_with("positions")).count();
        let output = folder.path().join(format!("killed after {stage}"));
        let was_killed = killed_after(&job, &output, stage, &[]);
        // After the last stage there is little left to do, and the run may be faster than the kill.
        assert!(was_killed || number + 1 == stages.len(), "the run ended before it was killed after {stage}");
        killed += usize::from(was_killed);
        if was_killed && !output.join("manifest.json").exists() {
            let record = again(&job, &output, &[]);
            assert!(record["stages_reused"].as_u64().unwrap() as usize >= needed, "{record}");
        }
        check(&output, stage);

        let before = manifest(&replaced);
        if killed_after(&job, &replaced, stage, &["--overwrite"]) && manifest(&replaced) == before {
            assert_eq!(tables(&replaced), expected, "the old result after a kill after {stage}");
            let record = again(&job, &replaced, &["--overwrite"]);
            assert!(record["stages_reused"].as_u64().unwrap() as usize >= needed, "{record}");
            assert!(before.paths().is_disjoint(&manifest(&replaced).paths()));
        }
        check(&replaced, &format!("--overwrite, {stage}"));
    }
    assert!(killed + 1 >= stages.len(), "only {killed} of {} runs were killed", stages.len());
}

/// A run against reference documents continues after a kill after each stage.
#[test]
fn a_run_against_reference_documents_is_taken_up_after_each_stage() {
    let folder = tempdir().unwrap();
    let documents = corpus(12, 2_000, 40);
    for (day, part) in [&documents[..1_500], &documents[1_500..]].into_iter().enumerate() {
        write_parquet(&folder.path().join(format!("day{day}.parquet")), part, 500);
    }
    let reference = folder.path().join("reference");
    run(&crate::support::job(&folder.path().join("day0.parquet"), &reference, &[])).unwrap();
    let job = folder.path().join("job.toml");
    let text = job_text(folder.path().join("day1.parquet"), SET_BY_THE_TEST);
    std::fs::write(&job, format!("{text}[against]\noutput = {reference:?}\n")).unwrap();
    let before = tables(&reference);
    let undisturbed = taken_up_after_each_stage(folder.path(), &job, 11);
    assert!(undisturbed.counts.compared_reference_documents.unwrap() > 100);
    assert_eq!(tables(&reference), before);
}

/// A run that finds passages of reference documents continues after a kill after each stage.
#[test]
fn a_run_that_finds_passages_of_reference_documents_is_taken_up_after_each_stage() {
    let folder = tempdir().unwrap();
    let documents = super::word_runs::texts(&mut Random(13), 240, 1_000);
    let [new, reference] = ["new", "reference"].map(|name| folder.path().join(format!("{name}.parquet")));
    write_parquet(&new, &documents[..120], 30);
    write_parquet(&reference, &documents[120..], 30);
    let job = folder.path().join("job.toml");
    let text = job_text(new, SET_BY_THE_TEST);
    let sections = format!(
        "[passages]\nunit = \"word\"\nlength = 6\n\
         [against]\nsource = {{ format = \"parquet\", url = {reference:?}, id = \"id\", text = \"text\" }}\n"
    );
    std::fs::write(&job, format!("{text}{sections}")).unwrap();
    let undisturbed = taken_up_after_each_stage(folder.path(), &job, 20);
    assert!(undisturbed.tables["spans"].rows > 100 && undisturbed.tables["passages"].rows > 20);
}

/// Kills a run after each of its stages, of which there are at least `least`. Runs it again and compares the rows. Returns the manifest of
/// a run that was not killed.
fn taken_up_after_each_stage(folder: &Path, job: &Path, least: usize) -> resemblance::output::manifest::Run {
    let undisturbed = folder.join("undisturbed");
    assert!(spawn(job, &undisturbed).wait().unwrap().success());
    let (expected, undisturbed) = (tables(&undisturbed), manifest(&undisturbed));
    let stages: Vec<&str> = undisturbed.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert!(stages.len() >= least, "{stages:?}");
    let mut killed = 0;
    for stage in &stages {
        let output = folder.join(format!("killed after {stage}"));
        killed += usize::from(killed_after(job, &output, stage, &[]));
        again(job, &output, &[]);
        assert_eq!(tables(&output), expected, "{stage}");
        assert!(!output.join("_work").exists(), "{stage}");
    }
    assert!(killed + 2 >= stages.len(), "only {killed} of {} runs were killed", stages.len());
    undisturbed
}

/// Runs again, to the end: the record.
fn again(job: &Path, output: &Path, more: &[&str]) -> Value {
    let set = format!("output.url={}", output.display());
    let mut command = resemblance();
    let ended = command.arg("run").arg(job).args(["--set", &set, "--json"]).args(more).output().unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_so_and_goes_on() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path());
    let output = folder.path().join("out");
    let child = spawn(&job, &output);
    // The first stage has begun when its folder is there.
    let began = Instant::now();
    while !output.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait_with_output().unwrap().refused(130, &["run the same command again"]);
    assert!(!output.join("manifest.json").exists());
    assert!(spawn(&job, &output).wait().unwrap().success());
    let undisturbed = folder.path().join("undisturbed");
    assert!(spawn(&job, &undisturbed).wait().unwrap().success());
    assert_eq!(tables(&output), tables(&undisturbed));
}

/// A file that was being read may be the reason why the run was killed.
#[test]
fn the_next_run_names_the_file_that_a_killed_one_was_reading() {
    let (folder, s3) = (tempdir().unwrap(), S3::start());
    for name in ["a", "b"] {
        s3.put(&format!("in/{name}.txt"), "one two three four five six seven");
    }
    let (job, output) = (folder.path().join("job.toml"), folder.path().join("out"));
    let text =
        format!("source = {{ format = \"text\", url = {:?} }}\noutput.url = {output:?}\n", s3.url("in/"));
    std::fs::write(&job, text).unwrap();
    let run = || {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.envs(s3.env()).arg("run").arg(&job);
        command
    };
    s3.faults.add("GET /data/in/b.txt", 1, Fault::Stall(5));
    let mut killed = Process::start("killed", &mut run(), folder.path());
    wait_for("a claim that names the file", Duration::from_secs(60), || {
        let claims = std::fs::read_dir(output.join("_work/claims")).ok()?.flatten();
        let names = |claim: String| claim.contains("b.txt") && !claim.contains("a.txt");
        claims.map(|claim| std::fs::read_to_string(claim.path()).unwrap_or_default()).any(names).then_some(())
    });
    killed.kill();
    let next = run().output().unwrap();
    let said = stderr(&next);
    assert!(
        next.status.success() && said.contains(&format!("while it read {}", s3.url("in/b.txt"))),
        "{said}"
    );
    assert!(!output.join("_work").exists());
}
