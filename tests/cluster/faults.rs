//! Executors, the scheduler and the driver, killed or stopped in every step: afterwards the rows are right, nothing else
//! lies in the output, and the cluster runs the next job.

use std::path::PathBuf;
use std::time::Duration;

use super::{QUIET, job_file, parquet_files};
use crate::support::cluster::{Cluster, Driver};
use crate::support::process::{let_pass, wait_for};
use crate::support::rows::{Rows, assert_rows, rows_alone};
use crate::support::*;

/// Seconds that a run with faults may take.
const DEADLINE: u64 = 300;

/// What makes the job take every step that there is.
const ALL: [&str; 3] = ["source.duplicate_ids=reject", "shingle.hash=dictionary", "lsh.hot_bucket=16"];

/// The steps of that job.
const STEPS: [&str; 13] = [
    "duplicates",
    "cuts",
    "dictionary",
    "sketches",
    "groups",
    "candidates",
    "frequencies",
    "all_candidates",
    "scores",
    "members",
    "pairs",
    "components",
    "clusters",
];

/// A cluster, a job, and the rows that it must have in the end.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) job: PathBuf,
    pub(crate) expected: Rows,
    sets: Vec<&'static str>,
}

impl Scene {
    /// `count` documents, among them some with the same ids.
    pub(crate) fn new(cluster: Cluster, count: usize, sets: &[&'static str]) -> Self {
        let mut documents = corpus(54, count, 60);
        documents.extend_from_within(10..20);
        let job = job_file(cluster.folder(), &parquet_files(cluster.folder(), &documents, 4));
        let sets = [&ALL[..1], sets].concat();
        let expected = rows_alone(&job, &cluster.folder().join("alone"), &sets);
        Self { cluster, job, expected, sets }
    }

    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }

    pub(crate) fn run(&self, name: &str, sets: &[&str]) -> Driver {
        let sets = [&self.sets[..], sets].concat();
        self.cluster.run(&self.job, &self.output(name).display().to_string(), &sets)
    }

    /// The run ends well, and its rows are right.
    pub(crate) fn survives(&self, driver: Driver, name: &str) -> serde_json::Value {
        let record = driver.succeed(DEADLINE);
        assert_rows(&self.output(name), &self.expected, name);
        record
    }

    /// The same cluster runs another job.
    fn runs_the_next_job(&self) {
        let driver = self.run("next", &[]);
        driver.succeed(QUIET);
        assert_rows(&self.output("next"), &self.expected, "the next job");
    }
}

/// Waits for a step, whose end the fault must come before.
fn await_step(scene: &Scene, step: &str, driver: &mut Driver) {
    assert!(scene.cluster.await_step(step, driver), "the run ended before {step}");
}

#[test]
fn an_executor_may_die_in_any_step_and_be_replaced() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &ALL[1..]);
    let mut driver = scene.run("replaced", &[]);
    // The driver finds the components itself, in no time.
    let on_executors = STEPS.iter().filter(|step| **step != "components");
    for (number, step) in on_executors.enumerate() {
        await_step(&scene, step, &mut driver);
        let place = number % 2;
        scene.cluster.executor(place).kill();
        scene.cluster.spawn_executor(place);
    }
    scene.survives(driver, "replaced");
    let stages: Vec<_> = manifest(&scene.output("replaced")).stages.into_iter().map(|s| s.name).collect();
    assert_eq!(stages, STEPS);
    scene.runs_the_next_job();
}

#[test]
fn one_executor_does_the_work_of_a_dead_one() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("one", &[]);
    await_step(&scene, "scores", &mut driver);
    scene.cluster.executor(1).kill();
    scene.survives(driver, "one");
    scene.runs_the_next_job();
}

/// The step with the most stages, of which some are done and some are not when the executor dies. What was read twice then
/// depends on the moment.
#[test]
fn an_executor_that_dies_between_two_stages_doubles_no_rows() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    for milliseconds in [300, 450] {
        let name = format!("between{milliseconds}");
        let mut driver = scene.run(&name, &[]);
        await_step(&scene, "pairs", &mut driver);
        let_pass(Duration::from_millis(milliseconds));
        scene.cluster.executor(1).kill();
        scene.cluster.spawn_executor(1);
        scene.survives(driver, &name);
    }
}

#[test]
fn both_executors_die_and_one_comes_back() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("both", &[]);
    await_step(&scene, "candidates", &mut driver);
    scene.cluster.executor(0).kill();
    scene.cluster.executor(1).kill();
    let_pass(Duration::from_secs(2));
    scene.cluster.start_executor(1);
    scene.survives(driver, "both");
    scene.runs_the_next_job();
}

#[test]
fn the_scheduler_dies_and_the_driver_sends_its_step_again() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("scheduler", &[]);
    for step in ["sketches", "scores"] {
        await_step(&scene, step, &mut driver);
        scene.cluster.scheduler().kill();
        let_pass(Duration::from_secs(1));
        scene.cluster.start_scheduler();
    }
    scene.survives(driver, "scheduler");
    scene.runs_the_next_job();
}

#[test]
fn a_scheduler_that_stays_away_ends_in_an_error_and_the_output_can_be_taken_up() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("away", &["engine.wait_seconds=3"]);
    await_step(&scene, "candidates", &mut driver);
    scene.cluster.scheduler().kill();
    let ended = driver.end(DEADLINE);
    assert_eq!(ended.code, Some(4), "{}", ended.said);
    assert!(ended.said.contains(&scene.cluster.url()[5..]), "{}", ended.said);
    assert!(!scene.output("away").join("manifest.json").exists());
    scene.cluster.start_scheduler();
    let driver = scene.run("away", &[]);
    assert!(scene.survives(driver, "away")["steps_reused"].as_u64() > Some(0));
}

#[test]
fn the_driver_dies_and_a_new_one_goes_on() {
    let scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("driver", &[]);
    await_step(&scene, "scores", &mut driver);
    driver.0.kill();
    let driver = scene.run("driver", &[]);
    assert!(scene.survives(driver, "driver")["steps_reused"].as_u64() > Some(0));
    scene.runs_the_next_job();
}

#[test]
fn a_driver_that_is_interrupted_leaves_no_work_behind() {
    let scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("interrupted", &[]);
    await_step(&scene, "sketches", &mut driver);
    driver.0.signal("INT");
    let ended = driver.end(60);
    assert_eq!(ended.code, Some(130), "{}", ended.said);
    wait_for("the scheduler to be idle", Duration::from_secs(60), || {
        scene.cluster.running().is_empty().then_some(())
    });
    let driver = scene.run("interrupted", &[]);
    scene.survives(driver, "interrupted");
}

#[test]
fn an_executor_stands_still_until_it_is_given_up_and_then_goes_on() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("still", &[]);
    await_step(&scene, "sketches", &mut driver);
    scene.cluster.executor(0).signal("STOP");
    let_pass(Duration::from_secs(10));
    scene.cluster.executor(0).signal("CONT");
    scene.survives(driver, "still");
    scene.runs_the_next_job();
}

#[test]
fn an_executor_that_is_told_to_end_finishes_its_tasks_first() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("drained", &[]);
    await_step(&scene, "sketches", &mut driver);
    scene.cluster.executor(0).signal("TERM");
    let ended = scene.cluster.executor(0).wait(Duration::from_secs(60));
    assert_eq!(ended.code(), Some(0));
    scene.survives(driver, "drained");
    scene.runs_the_next_job();
}

/// Whether a command does as it is told here.
pub(crate) fn works(command: &[&str]) -> bool {
    let mut process = std::process::Command::new(command[0]);
    process.args(&command[1..]).output().is_ok_and(|output| output.status.success())
}
