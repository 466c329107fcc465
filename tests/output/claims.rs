//! Several processes at one output: one of them has it, the others wait or say so, and no moment gives a wrong row.

#![allow(clippy::disallowed_methods, reason = "a claim must be silent for a time")]

use crate::support::around::{Before, run_around};
use crate::support::*;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    Run,
    Overwrite,
    Clean,
}

pub(crate) const MEETINGS: [(What, What); 4] = [
    (What::Run, What::Run),
    (What::Overwrite, What::Overwrite),
    (What::Overwrite, What::Clean),
    (What::Run, What::Clean),
];

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    job: PathBuf,
    expected: Vec<RecordBatch>,
}

impl Scene {
    pub(crate) fn new(documents: usize) -> Self {
        let folder = tempdir().unwrap();
        let input = folder.path().join("in.parquet");
        write_parquet(&input, &corpus(9, documents, 30), 20);
        let text = job_text(&input, SET_BY_THE_TEST) + "[engine]\nthreads = 1\n";
        let job_file = write_file(&folder, "job.toml", text);
        let undisturbed = folder.path().join("undisturbed");
        run(&job(&input, &undisturbed, &[])).unwrap();
        Self { expected: tables(&undisturbed), job: job_file, folder }
    }

    pub(crate) fn start(&self, name: &str, what: What, output: &Path) -> Process {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.env("NO_COLOR", "1").env_remove("RESEMBLANCE_LOG");
        match what {
            What::Clean => command.arg("clean").arg(output),
            What::Run | What::Overwrite => {
                command.arg("run").arg(&self.job).args(["--set", &format!("output.url={}", output.display())])
            }
        };
        if what == What::Overwrite {
            command.arg("--overwrite");
        }
        Process::start(name, command.stdin(Stdio::null()), self.folder.path())
    }

    /// Holds an output against the undisturbed one, byte for byte against its manifest, and for leftovers.
    pub(crate) fn check(&self, output: &Path, what: &str) {
        assert_eq!(tables(output), self.expected, "{what}");
        resemblance().arg("verify").arg(output).assert().success();
        let named = manifest(output).paths().len();
        let there: usize = ["documents", "rejects", "pairs", "clusters"]
            .iter()
            .map(|table| std::fs::read_dir(output.join(table)).unwrap().count())
            .sum();
        assert_eq!(there, named, "leftovers: {what}");
    }
}

/// While a run stands still at the beginning, in the middle and at the end, another command comes.
#[test]
fn commands_that_meet_at_one_output_wait_for_each_other() {
    let scene = Scene::new(60);
    for (one, two) in MEETINGS {
        for stage in ["sketches", "scores", "clusters"] {
            let what = format!("{two:?} before {stage} of {one:?}");
            let output = scene.folder.path().join(&what);
            let job = Job::load(&scene.job, &[format!("output.url={}", output.display())]).unwrap();
            if one == What::Overwrite {
                run(&job).unwrap();
            }
            let other = Mutex::new(None);
            let action = || {
                let mut process = scene.start(&what, two, &output);
                wait_for("the other command to wait", DEADLINE, || {
                    assert!(process.ended().is_none(), "{what}: {}", process.said());
                    process.said().contains("waits until it has ended").then_some(())
                });
                assert!(other.lock().unwrap().replace(process).is_none(), "{what}: they met twice");
            };
            let existing = if one == What::Overwrite { OnExisting::Overwrite } else { OnExisting::Fail };
            run_around(&job, existing, Before { stage, action }).0.unwrap();
            let mut other = other.into_inner().unwrap().expect("the commands met");
            assert!(other.wait(DEADLINE).success(), "{what}: {}", other.said());
            scene.check(&output, &what);
        }
    }
}

/// Five at one output: while one of them stands still, the others wait. Without the claim, each would win.
#[test]
fn concurrent_runs_wait_for_one_result() {
    let scene = Scene::new(40);
    let output = scene.folder.path().join("out");
    let mut first = scene.start("first", What::Run, &output);
    wait_for("an owner", DEADLINE, || {
        let claim = std::fs::read_to_string(first_claim(&output)?).ok()?;
        claim.contains("\"owner\":true").then_some(())
    });
    first.signal("STOP");
    let mut others: Vec<Process> =
        (0..4).map(|i| scene.start(&format!("other{i}"), What::Run, &output)).collect();
    wait_for("the others to wait", DEADLINE, || {
        others.iter().all(|other| other.said().contains("waits until it has ended")).then_some(())
    });
    first.signal("CONT");
    assert!(first.wait(DEADLINE).success(), "{}", first.said());
    for other in &mut others {
        assert!(other.wait(DEADLINE).success(), "{}", other.said());
        assert!(other.said().contains("is finished already"), "{}", other.said());
    }
    scene.check(&output, "five runs at once");
}

/// A run that was killed holds nothing: the next one begins at once, and `clean` too.
#[test]
fn a_dead_run_holds_nothing_up() {
    let scene = Scene::new(40);
    let output = scene.folder.path().join("out");
    let mut first = scene.start("first", What::Run, &output);
    wait_for("a claim", DEADLINE, || first_claim(&output));
    first.signal("STOP");
    let mut clean = scene.start("clean", What::Clean, &output);
    let waits = format!("process {} on", first.id());
    wait_for("a clean that waits", DEADLINE, || clean.said().contains(&waits).then_some(()));
    assert!(clean.ended().is_none() && first_claim(&output).is_some(), "{}", clean.said());
    first.kill();
    assert!(clean.wait(DEADLINE).success(), "{}", clean.said());
    let mut second = scene.start("second", What::Run, &output);
    assert!(second.wait(DEADLINE).success(), "{}", second.said());
    assert!(!second.said().contains("waits"), "{}", second.said());
    scene.check(&output, "after a kill");
}

fn first_claim(output: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(output.join("_work/claims")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "json"))
}

/// A claim of another machine, where a process cannot be looked up: others wait as long as the claim changes, and take it for dead
/// once it has not changed for the seconds that it names.
#[test]
fn a_claim_of_another_machine_holds_until_it_is_silent() {
    let scene = Scene::new(40);
    let output = scene.folder.path().join("out");
    let claim = output.join("_work/claims/00000000000000000000000000000000.json");
    std::fs::create_dir_all(claim.parent().unwrap()).unwrap();
    let put = |beat: u64| {
        let process = json!({ "host": "far", "pid": 1, "place": "elsewhere", "began": 1 });
        let content = json!({"owner": true, "beat": beat, "seconds": 2, "what": "run", "process": process});
        let staged = output.join("_work/staged");
        std::fs::write(&staged, content.to_string()).unwrap();
        std::fs::rename(staged, &claim).unwrap();
    };
    put(0);
    let mut waiting = scene.start("waiting", What::Run, &output);
    wait_for("a word about the claim", DEADLINE, || {
        waiting.said().contains("(process 1 on far) is writing to").then_some(())
    });
    // Four seconds in which it beats: twice as long as it needs to be silent.
    for beat in 1..=8 {
        put(beat);
        std::thread::sleep(Duration::from_millis(500));
        assert!(waiting.ended().is_none(), "{}", waiting.said());
    }
    assert!(waiting.wait(DEADLINE).success(), "{}", waiting.said());
    scene.check(&output, "after a silent claim");
}

#[test]
fn a_run_that_lost_its_output_publishes_nothing() {
    let path = paths();
    let (input, output) = (path("in.parquet"), path("out"));
    write_parquet(&input, &corpus(9, 60, 30), 20);
    let job = job(&input, &output, &[]);
    let action = || std::fs::remove_file(first_claim(&output).expect("its claim")).unwrap();
    let error = run_around(&job, OnExisting::Fail, Before { stage: "clusters", action }).0.unwrap_err();
    assert_eq!(error.kind().exit_code(), 3);
    assert!(error.to_string().contains("took"), "{}", error.one_line());
    assert!(!output.join("manifest.json").exists());
    assert!(!run(&job).unwrap().already_finished);
}

/// A file that went with the output is not called damaged: it is where the other process wants it.
#[test]
fn lost_files_of_a_claimed_output_are_not_called_damaged() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(19, 200, 30), 50);
    for stage in ["candidates", "scores", "pairs", "clusters"] {
        let output = folder.path().join(stage);
        let action = || files(&output).into_keys().for_each(|path| std::fs::remove_file(path).unwrap());
        let taken_over = Before { stage, action };
        let error = run_around(&job(&input, &output, &[]), OnExisting::Fail, taken_over).0.unwrap_err();
        assert!(error.to_string().contains("another process took over"), "{stage}: {}", error.one_line());
        assert!(!output.join("manifest.json").exists());
    }
}
