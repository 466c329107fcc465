//! Executors, the scheduler and the driver, killed or stopped in every stage: afterwards the rows are right, nothing else
//! is in the output, and the cluster runs the next job.

use std::sync::{OnceLock, PoisonError};

use super::*;
use crate::pipeline::parts;
use crate::support::cluster::Task;
use crate::support::rows::Rows;

const DEADLINE: u64 = 300;

/// Settings with which a job runs every stage except for the dictionary's stages.
const ALL: [&str; 2] = ["source.duplicate_ids=reject", "lsh.hot_bucket=16"];

const STAGES: &str = "duplicates sketches copies candidates hot_positions hot_sketches frequencies all_candidates positions \
     scores members pairs components ranks represented removals removal_positions losses clusters totals";

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
        let job = job_over(cluster.folder(), &documents, 4);
        let sets = [&ALL[..1], sets].concat();
        let expected = expected(cluster.folder(), &job, count, &sets);
        Self { cluster, job, expected, sets }
    }

    /// A job on two executors that takes every stage that there is.
    fn of_all_stages() -> Self {
        Self::new(Cluster::start(), 2_500, &ALL[1..])
    }

    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }

    pub(crate) fn run(&self, name: &str, sets: &[&str]) -> Driver {
        let sets = [&self.sets[..], sets].concat();
        self.cluster.run(&self.job, self.output(name), &sets)
    }

    pub(crate) fn survives(&self, driver: Driver, name: &str) -> Value {
        let record = driver.succeed(DEADLINE);
        assert_rows(&self.output(name), &self.expected, name);
        record
    }

    fn runs_the_next_job(&self) {
        let record = self.run("next", &[]).succeed(QUIET);
        assert_rows(&self.output("next"), &self.expected, "the next job");
        assert_eq!(recoveries(&record), 0, "{record:#}");
    }
}

/// The rows of one process for a job over `count` documents in `folder`. They are computed once for all scenes of the same job.
fn expected(folder: &Path, job: &Path, count: usize, sets: &[&'static str]) -> Rows {
    type Shared = Arc<OnceLock<(String, Rows)>>;
    static SHARED: Mutex<BTreeMap<(usize, Vec<&str>), Shared>> = Mutex::new(BTreeMap::new());
    let shared = {
        let mut all = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry((count, sets.to_vec())).or_default())
    };
    let here = folder.display().to_string();
    let (there, rows) = shared.get_or_init(|| (here.clone(), rows_alone(job, &folder.join("alone"), sets)));
    moved(rows, there, &here)
}

/// Waits for a stage, whose end the fault must come before.
fn await_stage(scene: &Scene, stage: &str, driver: &mut Driver) {
    assert!(scene.cluster.await_stage(stage, driver), "the run ended before {stage}");
}

/// Times that the run says it lost something and did it again.
fn recoveries(record: &Value) -> u64 {
    record["recoveries"].as_u64().unwrap()
}

/// Times that the scheduler says it does tasks again whose executor is gone.
fn tasks_done_again(scene: &Scene) -> usize {
    scene.cluster.logs().matches("on lost Executor").count()
}

#[test]
fn an_executor_dies_in_stages_and_is_replaced() {
    let mut scene = Scene::of_all_stages();
    all_stages_ran(&mut scene, &["candidates", "scores"]);
    // Clusters are made together with pairs.
    let record = replaced(&mut scene, "clusters", &["clusters"]);
    assert!(recoveries(&record) > 0, "{record:#}");
    scene.runs_the_next_job();
}

/// All stages are the soak's: each costs the run seconds until the executor is missed.
#[test]
#[ignore = "takes minutes"]
fn soak_an_executor_dies_in_every_stage() {
    let mut scene = Scene::of_all_stages();
    // The driver finds the components itself, and totals take no time. Clusters are made at the time of pairs, and may be done by then.
    let others = ["components", "clusters", "totals"];
    let on_executors: Vec<_> = STAGES.split(' ').filter(|stage| !others.contains(stage)).collect();
    all_stages_ran(&mut scene, &on_executors);
}

/// An executor dies in each of these stages, and another one comes; the record.
fn replaced(scene: &mut Scene, name: &str, of: &[&str]) -> Value {
    let mut driver = scene.run(name, &[]);
    for stage in of {
        let place = scene.cluster.kill_in_a_task(stage, &mut driver);
        scene.cluster.spawn_executor(place);
    }
    scene.survives(driver, name)
}

/// The same for a job that takes every stage.
fn all_stages_ran(scene: &mut Scene, of: &[&str]) {
    let record = replaced(scene, "replaced", of);
    assert!(recoveries(&record) >= of.len() as u64, "{record:#}");
    let stages: Vec<_> = manifest(&scene.output("replaced")).stages.into_iter().map(|s| s.name).collect();
    assert_eq!(stages.join(" "), STAGES);
}

#[test]
fn an_executor_dies_while_a_dictionary_is_made() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &["shingle.hash=dictionary"]);
    let record = replaced(&mut scene, "dictionary", &["cuts", "dictionary"]);
    assert!(recoveries(&record) >= 2, "{record:#}");
}

/// Windows are hashed before documents are compared, and spans are found at the time of pairs.
#[test]
fn an_executor_dies_while_windows_of_words_are_hashed_and_while_spans_are_found() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &["passages.unit=word", "passages.length=6"]);
    assert!(scene.expected["spans"].num_rows() > 1_000, "{}", scene.expected["spans"].num_rows());
    let before = tasks_done_again(&scene);
    let record = replaced(&mut scene, "passages", &["windows", "spans"]);
    // Where all that it had finished lies with the other one, only the task in which it died is done again.
    assert!(recoveries(&record) > 0 || tasks_done_again(&scene) > before, "{record:#}");
}

#[test]
fn one_executor_does_the_work_of_a_dead_one() {
    let mut scene = Scene::of_all_stages();
    let mut driver = scene.run("one", &[]);
    scene.cluster.kill_in_a_task("scores", &mut driver);
    let record = scene.survives(driver, "one");
    assert!(recoveries(&record) > 0, "{record:#}");
}

/// The stage with the most query stages. Rows that were read twice depended on the number of finished query stages.
#[test]
fn an_executor_that_dies_between_two_stages_doubles_no_rows() {
    let mut scene = Scene::of_all_stages();
    for stages in [2, 3] {
        let name = format!("between{stages}");
        let before = tasks_done_again(&scene);
        let mut driver = scene.run(&name, &[]);
        let place = scene.cluster.stop_in_a_task("pairs", &mut driver, |tasks| {
            let ended = tasks.iter().filter(|task| task.ended == Some(true));
            ended.map(Task::stage).collect::<BTreeSet<_>>().len() + 1 >= stages
        });
        let place = place.unwrap();
        scene.cluster.executor(place).kill();
        scene.cluster.spawn_executor(place);
        let record = scene.survives(driver, &name);
        // Where all that it had finished lies with the other one, only the task in which it died is done again.
        assert!(recoveries(&record) > 0 || tasks_done_again(&scene) > before, "{record:#}");
    }
}

/// Changes a byte in each finished shuffle file of a task, and says how many there are.
fn damage(cluster: &Cluster, place: usize, task: &Task) -> usize {
    // The name is `TID job/stage.attempt/task.attempt`.
    let name = task.name.trim_start_matches("TID ");
    let parts: Vec<&str> = name.split('/').map(|part| part.split('.').next().unwrap()).collect();
    let [job, stage, number] = parts[..] else { panic!("{name}") };
    let ends = [format!("/{job}/{stage}/{number}/data.arrow"), format!("/data-{number}.arrow")];
    let of_stage = format!("/{job}/{stage}/");
    let mut damaged = 0;
    for (path, mut bytes) in files::files(&cluster.folder().join(format!("work{place}"))) {
        let name = path.display().to_string();
        if name.contains(&of_stage) && ends.iter().any(|end| name.ends_with(end)) {
            // Not in the header, which is small.
            let at = bytes.len() * 3 / 4;
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    damaged
}

/// One executor reads its own files, and of two executors each reads files of the other one.
#[test]
fn a_shuffle_file_that_a_disk_damages_is_named_and_its_stage_is_done_again() {
    for (count, stage) in [(1, "scores"), (2, "candidates")] {
        // Little memory, and so many tasks for each query stage.
        let executors = vec![ExecutorHost::default(); count];
        let setup = Setup { executors, memory: "128MiB", ..Setup::default() };
        let mut scene = Scene::new(Cluster::with(setup), 2_500, &[]);
        let name = format!("damaged_{stage}");
        let mut driver = scene.run(&name, &[]);
        // Nothing reads the output of a query stage before all of its tasks have ended.
        let finished = |tasks: &[Task]| -> Vec<Task> {
            let running: Vec<&Task> = tasks.iter().filter(|task| task.ended.is_none()).collect();
            let beside = |task: &&Task| running.iter().any(|other| other.stage() == task.stage());
            tasks.iter().filter(|task| task.ended == Some(true)).filter(beside).cloned().collect()
        };
        let wanted = |tasks: &[Task]| !finished(tasks).is_empty();
        let place = scene.cluster.stop_in_a_task(stage, &mut driver, wanted).unwrap();
        let tasks = finished(&scene.cluster.tasks(place, stage));
        let damaged: usize = tasks.iter().map(|task| damage(&scene.cluster, place, task)).sum();
        assert!(damaged > 0, "{tasks:?}");
        scene.cluster.executor(place).signal("CONT");
        let said = driver.end(DEADLINE).warned(&[]);
        assert_rows(&scene.output(&name), &scene.expected, &name);
        let again = |line: &&str| line.contains("a shuffled file on") && line.contains("is damaged");
        let line = said.lines().find(again).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(&format!("/work{place}/")) && line.contains(".arrow"), "{line}");
    }
}

#[test]
fn both_executors_die_and_one_comes_back() {
    let mut scene = Scene::of_all_stages();
    let mut driver = scene.run("both", &[]);
    let place = scene.cluster.kill_in_a_task("candidates", &mut driver);
    scene.cluster.executor(1 - place).kill();
    scene.cluster.start_executor(1 - place);
    let record = scene.survives(driver, "both");
    assert!(recoveries(&record) > 0, "{record:#}");
}

/// A file that ends its readers does not end every executor.
#[test]
fn a_task_in_which_two_executors_died_ends_the_run() {
    let mut cluster = Cluster::with(Setup { executors: vec![ExecutorHost::default()], ..Setup::default() });
    // One file of one row group is read by one task.
    let file = cluster.folder().join("deadly.parquet");
    write_parquet(&file, &corpus(54, 20_000, 60), 20_000);
    let job = job_file(cluster.folder(), &file);
    let mut driver = cluster.run(&job, cluster.folder().join("out"), &[]);
    let reads = |task: &Task| task.ended.is_none() && task.stage().starts_with("1.");
    for _ in 0..2 {
        let place = cluster.stop_in_a_task("sketches", &mut driver, |tasks| tasks.iter().any(reads)).unwrap();
        cluster.executor(place).kill();
        cluster.spawn_executor(place);
    }
    // The third executor cannot end the task before the driver looks.
    cluster.executor(0).stop();
    let reads = format!("of stage sketches, which reads {}: look at these files", file.display());
    driver.end(DEADLINE).refused(4, &["two executors were lost", &reads]);
}

#[test]
fn a_stopped_executor_is_replaced_and_may_return() {
    let mut scene = Scene::of_all_stages();
    let mut driver = scene.run("still", &[]);
    let place = scene.cluster.stop_in_a_task("sketches", &mut driver, |_| true).unwrap();
    wait_for("the scheduler to give an executor up", Duration::from_secs(60), || {
        (scene.cluster.known_executors() == 1).then_some(())
    });
    scene.cluster.executor(place).signal("CONT");
    let record = scene.survives(driver, "still");
    assert!(recoveries(&record) > 0, "{record:#}");
}

#[test]
fn an_executor_that_gets_a_signal_to_end_finishes_its_tasks_first() {
    let mut scene = Scene::of_all_stages();
    // Tasks of the first stage read the source. One of a later stage may be cancelled, when what it reads is gone with an executor.
    let runs = |task: &Task| task.ended.is_none() && task.stage().starts_with("1.");
    let mut tries = (0..20).map(|at| format!("drained{at}"));
    let (name, driver, place) = loop {
        let name = tries.next().expect("a task that is seen before it ends");
        let mut driver = scene.run(&name, &[]);
        let stopped = scene.cluster.stop_in_a_task("duplicates", &mut driver, |tasks| tasks.iter().any(runs));
        // On a quick machine these tasks may end before they are seen.
        match stopped {
            Some(place) => break (name, driver, place),
            None => scene.survives(driver, &name),
        };
    };
    let running: Vec<Task> = scene.cluster.tasks(place, "duplicates").into_iter().filter(runs).collect();
    scene.cluster.executor(place).signal("TERM");
    scene.cluster.executor(place).signal("CONT");
    let ended = scene.cluster.executor(place).wait(Duration::from_secs(60));
    assert_eq!(ended.code(), Some(0));
    for task in running {
        let at_the_end = scene.cluster.tasks(place, "duplicates").into_iter().find(|t| t.name == task.name);
        assert_eq!(at_the_end.unwrap().ended, Some(true), "{task:?}");
    }
    scene.survives(driver, &name);
}

#[test]
fn the_scheduler_dies_and_the_driver_sends_its_stage_again() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("scheduler", &[]);
    for stage in ["sketches", "scores"] {
        // While it stands still its task cannot end, so neither can the stage.
        let place = scene.cluster.stop_in_a_task(stage, &mut driver, |_| true).unwrap();
        scene.cluster.scheduler().kill();
        scene.cluster.executor(place).signal("CONT");
        scene.cluster.start_scheduler();
    }
    let record = scene.survives(driver, "scheduler");
    assert!(recoveries(&record) >= 2, "{record:#}");
    scene.runs_the_next_job();
}

#[test]
fn a_lost_scheduler_is_an_error_and_the_run_can_resume() {
    let mut scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("away", &["engine.wait_seconds=3"]);
    await_stage(&scene, "candidates", &mut driver);
    scene.cluster.scheduler().kill();
    driver.end(DEADLINE).refused(4, &[&scene.cluster.url()[5..], "Connection refused"]);
    assert!(!scene.output("away").join("manifest.json").exists());
    scene.cluster.start_scheduler();
    let driver = scene.run("away", &[]);
    assert!(scene.survives(driver, "away")["stages_reused"].as_u64() > Some(0));
}

#[test]
fn the_driver_dies_and_a_new_one_goes_on() {
    let scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("driver", &[]);
    await_stage(&scene, "scores", &mut driver);
    driver.0.kill();
    assert!(!driver.done("scores"), "the driver was killed too late");
    let driver = scene.run("driver", &[]);
    assert!(scene.survives(driver, "driver")["stages_reused"].as_u64() > Some(0));
}

/// One machine, a cluster and one machine again each read only the parts that are left.
#[test]
fn parts_of_the_first_stage_outlive_a_driver_on_any_engine() {
    let one = Setup { executors: vec![ExecutorHost::default()], ..Setup::default() };
    let mut cluster = Cluster::with(one);
    let job = parts::text_files(cluster.folder());
    let output = cluster.folder().join("out");
    let read = |cluster: &mut Cluster| cluster.executor(0).said().matches(parts::WRITTEN).count();
    let alone = |output: &Path| parts::command(&job, output, 1, &[]);
    let first = parts::killed(alone(&output), &output, "sketches", 2);

    let mut driver = cluster.run(&job, &output, &[]);
    let parts_read =
        |tasks: &[Task]| tasks.iter().filter(|task| task.ended == Some(true)).count() >= first + 2;
    cluster.stop_in_a_task("sketches", &mut driver, parts_read).expect("a part that is not read yet");
    driver.0.kill();
    // The scheduler would go on with the job.
    cluster.executor(0).kill();
    let (second, here) = (parts::records(&output, "sketches").len(), read(&mut cluster));
    assert!(first < second && second < 11, "{first}, {second}");
    assert!(here > 0 && here <= second - first, "{here} parts were read for {first} to {second} records");

    assert_eq!(parts::log(alone(&output), parts::WRITTEN).len(), 11 - second);
    parts::assert_undisturbed(&job, &output, &cluster.folder().join("undisturbed"), &[]);
}

#[test]
fn a_driver_that_is_interrupted_leaves_no_work_behind() {
    let scene = Scene::new(Cluster::start(), 2_500, &[]);
    let mut driver = scene.run("interrupted", &[]);
    await_stage(&scene, "sketches", &mut driver);
    driver.0.signal("INT");
    driver.end(60).refused(130, &[]);
    wait_for("the scheduler to be idle", Duration::from_secs(60), || {
        scene.cluster.running().is_empty().then_some(())
    });
    let driver = scene.run("interrupted", &[]);
    scene.survives(driver, "interrupted");
}
