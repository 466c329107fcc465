//! Runs that are killed or stopped, and taken up again.

#![allow(clippy::disallowed_methods, reason = "a moment to kill at is a time, so these tests sleep until it")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::tempdir;

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

fn job_file(folder: &Path) -> std::path::PathBuf {
    write_parquet(&folder.join("in.parquet"), &corpus(11, 4_000, 60), 500);
    let job = folder.join("job.toml");
    let text = format!(
        "[source]\nformat = \"parquet\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n\
         [shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = \"set by the test\"\n",
        folder.join("in.parquet")
    );
    std::fs::write(&job, text).unwrap();
    job
}

/// Ten kills at moments spread by a seed over the length of a run, each on an output of its own.
#[test]
fn killed_at_ten_moments_and_run_again_the_result_is_the_same() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path());
    let undisturbed = folder.path().join("undisturbed");
    let began = Instant::now();
    assert!(spawn(&job, &undisturbed).wait().unwrap().success());
    let whole_run = began.elapsed();
    let expected = tables(&undisturbed);

    let mut random = Random(2026);
    let mut killed = 0;
    for round in 0..10 {
        let output = folder.path().join(format!("killed{round}"));
        let mut child = spawn(&job, &output);
        std::thread::sleep(whole_run.mul_f64((round as f64 + random.below(1_000) as f64 / 1_000.0) / 10.0));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        assert!(spawn(&job, &output).wait().unwrap().success());
        assert_eq!(tables(&output), expected, "killed in round {round}");
        let kept: usize = manifest(&output).tables.values().map(|t| t.files.len()).sum();
        let there: usize = ["documents", "rejects", "pairs", "clusters"]
            .iter()
            .map(|table| std::fs::read_dir(output.join(table)).unwrap().count())
            .sum();
        assert_eq!(there, kept, "files that no manifest names stay behind after round {round}");
    }
    assert!(killed >= 5, "only {killed} of ten runs were killed before their end");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_so_and_goes_on() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path());
    let output = folder.path().join("out");
    let child = spawn(&job, &output);
    // The first step has begun when its folder is there.
    let began = Instant::now();
    while !output.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("run the same command again"), "{said}");
    assert!(!output.join("manifest.json").exists());
    assert!(spawn(&job, &output).wait().unwrap().success());
    let undisturbed = folder.path().join("undisturbed");
    assert!(spawn(&job, &undisturbed).wait().unwrap().success());
    assert_eq!(tables(&output), tables(&undisturbed));
}
