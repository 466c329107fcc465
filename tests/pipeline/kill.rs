//! Runs that are killed, and taken up again. Stops before each stage are in `support::stopping`.

use crate::support::*;

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
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(11, 1_500, 60));
    let job = scene.path("job.toml");
    let undisturbed = scene.path("undisturbed");
    again(&job, &undisturbed, &[]);
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
    let replaced = scene.path("replaced");
    again(&job, &replaced, &[]);
    let run_again = |output: &Path, needed: usize, more: &[&str]| {
        let record = again(&job, output, more);
        assert!(record["stages_reused"].as_u64().unwrap() as usize >= needed, "{record}");
    };
    let mut killed = 0;
    for (number, stage) in stages.iter().enumerate() {
        // Positions are not needed if the stage that reads the texts is finished.
        let needed = stages[..=number].iter().filter(|stage| !stage.ends_with("positions")).count();
        let output = scene.path(&format!("killed after {stage}"));
        let was_killed = killed_after(&job, &output, stage, &[]);
        // After the last stage there is little left to do, and the run may be faster than the kill.
        assert!(was_killed || number + 1 == stages.len(), "the run ended before it was killed after {stage}");
        killed += usize::from(was_killed);
        if was_killed && !output.join("manifest.json").exists() {
            run_again(&output, needed, &[]);
        }
        check(&output, stage);

        let before = manifest(&replaced);
        if killed_after(&job, &replaced, stage, &["--overwrite"]) && manifest(&replaced) == before {
            assert_eq!(tables(&replaced), expected, "the old result after a kill after {stage}");
            run_again(&replaced, needed, &["--overwrite"]);
            assert!(before.paths().is_disjoint(&manifest(&replaced).paths()));
        }
        check(&replaced, &format!("--overwrite, {stage}"));
    }
    assert!(killed + 1 >= stages.len(), "only {killed} of {} runs were killed", stages.len());
}

fn again(job: &Path, output: &Path, more: &[&str]) -> Value {
    let set = format!("output.url={}", output.display());
    program!["run", job, "--set", &set, "--json"].args(more).assert().json()
}

/// A file that was being read may be the reason why the run was killed.
#[test]
fn the_next_run_names_the_file_that_a_killed_one_was_reading() {
    let (folder, s3) = (tempdir().unwrap(), S3::start());
    for name in ["a", "b"] {
        s3.put(&format!("in/{name}.txt"), "one two three four five six seven");
    }
    let (job, output) = (folder.path().join("job.toml"), folder.path().join("out"));
    let source = format!("source = {{ format = \"text\", url = {:?} }}\n", s3.url("in/"));
    std::fs::write(&job, format!("{source}output.url = {output:?}\n")).unwrap();
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
    run().output().unwrap().warned(&[&format!("while it read {}", s3.url("in/b.txt"))]);
    assert!(!output.join("_work").exists());
}
