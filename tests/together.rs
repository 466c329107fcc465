//! Several processes at one output: one of them has it, the others wait or say so, and no moment gives a wrong row.

#![allow(clippy::disallowed_methods, reason = "the second process starts at a random moment of the first")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use resemblance::engine::{Engine, Local, RunControl, session};
use resemblance::error::Result as OurResult;
use resemblance::output::manifest::File;
use resemblance::pipeline::{self, OnExisting};
use tempfile::tempdir;

use crate::support::around::{Around, Call, Hook};
use crate::support::files::files;
use crate::support::process::{Process, wait_for};
use crate::support::*;

/// Within this time everything here ends.
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Run,
    Overwrite,
    Clean,
}

/// Both commands of a round; the second begins at a random moment of the first.
const ROUNDS: [(What, What); 4] = [
    (What::Run, What::Run),
    (What::Overwrite, What::Overwrite),
    (What::Overwrite, What::Clean),
    (What::Run, What::Clean),
];

struct Scene {
    folder: tempfile::TempDir,
    job: PathBuf,
    expected: Vec<RecordBatch>,
}

impl Scene {
    fn new(documents: usize) -> Self {
        let folder = tempdir().unwrap();
        let input = folder.path().join("in.parquet");
        write_parquet(&input, &corpus(9, documents, 30), 20);
        let job_file = folder.path().join("job.toml");
        let text = job_text(&input, SET_BY_THE_TEST) + "[engine]\nthreads = 1\n";
        std::fs::write(&job_file, text).unwrap();
        let undisturbed = folder.path().join("undisturbed");
        run(&job(&input, &undisturbed, &[])).unwrap();
        Self { expected: tables(&undisturbed), job: job_file, folder }
    }

    fn start(&self, name: &str, what: What, output: &Path) -> Process {
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

    /// Holds an output against the undisturbed one, byte for byte against its manifest, and for what lies beside it.
    fn check(&self, output: &Path, what: &str) {
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

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// Random moments by a seed (RESEMBLANCE_OFFSETS says how many, RESEMBLANCE_OFFSETS_SEED which), a quarter of them for each
/// two commands.
#[test]
fn no_moment_of_two_commands_at_one_output_gives_a_wrong_row() {
    let scene = Scene::new(60);
    let began = Instant::now();
    let mut first = scene.start("length", What::Run, &scene.folder.path().join("length"));
    assert!(first.wait(DEADLINE).success());
    let length = began.elapsed();
    let mut random = Random(number("RESEMBLANCE_OFFSETS_SEED", 2026));
    let (mut waited, mut cleaned_late, mut overlapped) = (0, 0, 0);
    for round in 0..number("RESEMBLANCE_OFFSETS", 100) {
        let (one, two) = ROUNDS[(round % 4) as usize];
        let offset = length.mul_f64(random.below(1_000) as f64 / 1_000.0);
        let what = format!("round {round}: {two:?} {offset:?} after {one:?}");
        let output = scene.folder.path().join(format!("out{round}"));
        if one == What::Overwrite {
            let mut before = scene.start(&format!("before{round}"), What::Run, &output);
            assert!(before.wait(DEADLINE).success(), "{what}");
        }
        let mut a = scene.start(&format!("a{round}"), one, &output);
        std::thread::sleep(offset);
        overlapped += usize::from(a.ended().is_none());
        let mut b = scene.start(&format!("b{round}"), two, &output);
        let (a_ended, b_ended) = (a.wait(DEADLINE), b.wait(DEADLINE));
        assert!(a_ended.success() && b_ended.success(), "{what}: {}{}", a.said(), b.said());
        for process in [&a, &b] {
            waited += usize::from(process.said().contains("this run waits until it has ended"));
            cleaned_late += usize::from(process.said().contains("this clean waits until it has ended"));
        }
        scene.check(&output, &what);
        std::fs::remove_dir_all(&output).unwrap();
    }
    eprintln!("{overlapped} rounds overlapped: {waited} runs and {cleaned_late} cleans waited");
    assert!(waited > 0 && cleaned_late > 0, "no two commands met");
}

/// Five at once, of which each would win if nobody looked.
#[test]
fn of_many_runs_at_once_one_works_and_the_others_find_its_result() {
    let scene = Scene::new(40);
    let output = scene.folder.path().join("out");
    let mut runs: Vec<Process> =
        (0..5).map(|i| scene.start(&format!("run{i}"), What::Run, &output)).collect();
    for run in &mut runs {
        assert!(run.wait(DEADLINE).success(), "{}", run.said());
    }
    let finished = runs.iter().filter(|run| run.said().contains("is finished already")).count();
    assert_eq!(finished, 4);
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

/// The claim that is there.
fn first_claim(output: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(output.join("_work/claims")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "json"))
}

/// A claim of another machine, of which nobody knows whether its process lives: it is waited for as long as it changes, and
/// taken for dead when it did not change for the seconds that it names.
#[test]
fn a_claim_of_another_machine_holds_until_it_is_silent() {
    let scene = Scene::new(40);
    let output = scene.folder.path().join("out");
    let claim = output.join("_work/claims/00000000000000000000000000000000.json");
    std::fs::create_dir_all(claim.parent().unwrap()).unwrap();
    let put = |beat: u64| {
        let process = serde_json::json!({ "host": "far", "pid": 1, "place": "elsewhere", "began": 1 });
        let content = serde_json::json!({
            "owner": true, "beat": beat, "seconds": 2, "what": "run", "process": process,
        });
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

/// A run whose claim somebody took away does not publish.
#[test]
fn a_run_that_lost_its_output_publishes_nothing() {
    let scene = Scene::new(3_000);
    let output = scene.folder.path().join("out");
    let mut run = scene.start("run", What::Run, &output);
    let claim = wait_for("a claim", DEADLINE, || first_claim(&output));
    // It becomes the owner with its second put.
    wait_for("an owner", DEADLINE, || {
        std::fs::read_to_string(&claim).is_ok_and(|content| content.contains("\"owner\":true")).then_some(())
    });
    std::fs::remove_file(&claim).unwrap();
    assert_eq!(run.wait(DEADLINE).code(), Some(3), "{}", run.said());
    assert!(run.said().contains("took"), "{}", run.said());
    assert!(!output.join("manifest.json").exists());
    let mut again = scene.start("again", What::Run, &output);
    assert!(again.wait(DEADLINE).success(), "{}", again.said());
}

/// Before a plan, another process takes the output over and removes what the run wrote.
struct TakenOver {
    output: PathBuf,
    before: &'static str,
}

#[async_trait]
impl Hook for TakenOver {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> OurResult<Vec<File>> {
        if call.step == self.before {
            for path in files(&self.output).into_keys() {
                std::fs::remove_file(path).unwrap();
            }
        }
        call.run_on(engine).await
    }
}

/// What is missing then is not called damaged: it is where the other process wants it.
#[test]
fn a_run_whose_files_went_with_its_output_says_that_it_lost_the_output() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(19, 200, 30), 50);
    for before in ["candidates", "scores", "pairs", "clusters"] {
        let output = folder.path().join(before);
        let job = job(&input, &output, &[]);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let error = runtime.block_on(async {
            let inside = Box::new(Local::new(session::session(&job.engine).unwrap()));
            let engine = Around { engine: inside, hook: TakenOver { output: output.clone(), before } };
            pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Fail).await.unwrap_err()
        });
        assert!(error.to_string().contains("another process took over"), "{before}: {}", error.one_line());
        assert!(!output.join("manifest.json").exists());
    }
}
