//! Long tests with random events, by a command of their own:
//!
//! ```sh
//! RESEMBLANCE_CASES=20 RESEMBLANCE_SEED=1 cargo test --locked --features cluster --test tests -- --ignored --nocapture soak
//! ```
//!
//! In each round of `soak_random_faults`, executors, the scheduler and drivers are killed, stopped and started again while a job runs, and its
//! rows are those of one process. An executor is struck only in the midst of a task, a scheduler only while a task runs, and a driver only
//! while it does. The same seed gives the same faults.

use std::process::ExitStatus;
use std::time::Instant;

use crate::cluster::faults::Scene;
use crate::cluster::rows::generated;
use crate::output::claims::{self, DEADLINE, MEETINGS, What};
use crate::support::*;

/// The number of drivers that one round may need: killed drivers, and drivers that give up while too much is away.
const DRIVERS: u64 = 6;

const ROUND: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    Kill,
    Stop,
    Drain,
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Executor(usize),
    Scheduler,
    Driver,
}

/// A fault, the number of stages after which it is due, and milliseconds until what it struck is there again.
type Planned = (usize, Blow, Victim, usize);

fn faults(random: &mut Random, stages: usize) -> Vec<Planned> {
    let fault = |random: &mut Random| {
        let (stage, executor) = (random.below(stages), Victim::Executor(random.below(2)));
        match random.below(9) {
            0..=2 => (stage, Blow::Kill, executor, random.below(5_000)),
            3 => (stage, Blow::Drain, executor, random.below(8_000)),
            4 | 5 => (stage, Blow::Stop, executor, random.below(15_000)),
            6 => (stage, Blow::Kill, Victim::Scheduler, random.below(5_000)),
            7 => (stage, Blow::Stop, Victim::Scheduler, random.below(5_000)),
            _ => (stage, Blow::Kill, Victim::Driver, 0),
        }
    };
    (0..1 + random.below(4)).map(|_| fault(random)).collect()
}

#[test]
#[ignore = "takes minutes"]
fn soak_random_faults() {
    let mut scene = Scene::new(Cluster::start(), 6_000, &["lsh.hot_bucket=16"]);
    let driver = scene.run("undisturbed", &[]);
    scene.survives(driver, "undisturbed");
    let stages = manifest(&scene.output("undisturbed")).stages.len();
    let mut all = Happened::default();
    for round in seeds(20) {
        let faults = faults(&mut Random(round), stages);
        eprintln!("round {round}: {faults:?}");
        let began = Instant::now();
        let happened = disturbed(&mut scene, &format!("round{round}"), &faults);
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("round {round}: right rows after {seconds:.1} s, {happened:?}");
        happened.into_iter().for_each(|(name, number)| add(&mut all, &name, number));
    }
    eprintln!("in all: {all:?}");
    assert!(all["faults"] > 0 && all["recoveries"] > 0, "no fault happened");
}

type Happened = BTreeMap<String, u64>;

fn add(happened: &mut Happened, name: &str, number: u64) {
    *happened.entry(name.to_owned()).or_default() += number;
}

fn disturbed(scene: &mut Scene, name: &str, faults: &[Planned]) -> Happened {
    let mut left: Vec<Planned> = faults.to_vec();
    // When it is due, the fault, and the process that was struck.
    let mut mends: Vec<(Instant, Blow, Victim, u32)> = Vec::new();
    let mut driver = scene.run(name, &["engine.stall_seconds=40"]);
    let mut happened = Happened::from([("drivers".to_owned(), 1), ("faults".to_owned(), 0)]);
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < ROUND, "{name} does not end");
        mends.retain(|&(due, blow, victim, id)| Instant::now() < due || !mend(scene, blow, victim, id));
        let said = driver.0.said();
        let stages = said.matches("done stage=").count() + said.matches("an earlier run stage=").count();
        left.retain(|&(stage, blow, victim, away)| {
            let struck = stages >= stage && strike(scene, &mut driver, blow, victim);
            if struck {
                add(&mut happened, "faults", 1);
                add(&mut happened, &format!("{blow:?} {victim:?}"), 1);
                let due = Instant::now() + Duration::from_millis(away as u64);
                let id = struck_process(&mut scene.cluster, victim).map_or(0, |process| process.id());
                mends.push((due, blow, victim, id));
            }
            !struck
        });
        if let Some(ended) = driver.0.ended() {
            if ended.success() {
                break;
            }
            // Without a code it was killed; with this one, it says that the engine is lost.
            assert!(matches!(ended.code(), None | Some(4)), "{name}: {ended}");
            add(&mut happened, "drivers that say that the engine is lost", ended.code().is_some().into());
            assert!(happened["drivers"] < DRIVERS, "{DRIVERS} drivers did not finish {name}");
            driver = scene.run(name, &["engine.stall_seconds=40"]);
            add(&mut happened, "drivers", 1);
        }
        let_pass(Duration::from_millis(5));
    }
    let record = driver.succeed(1);
    add(&mut happened, "recoveries", record["recoveries"].as_u64().unwrap());
    add(&mut happened, "faults that found nothing to strike", left.len() as u64);
    assert_rows(&scene.output(name), &scene.expected, name);
    // All are there and go on for the next round.
    while !mends.is_empty() {
        mends.retain(|&(_, blow, victim, id)| !mend(scene, blow, victim, id));
        let_pass(Duration::from_millis(20));
    }
    std::fs::remove_dir_all(scene.output(name)).unwrap();
    happened
}

/// The process that a fault strikes; none for the driver, which nothing brings back.
fn struck_process(cluster: &mut Cluster, victim: Victim) -> Option<&mut Process> {
    match victim {
        Victim::Executor(place) => Some(cluster.executor(place)),
        Victim::Scheduler => Some(cluster.scheduler()),
        Victim::Driver => None,
    }
}

/// Does a fault; whether there was something to strike now.
fn strike(scene: &mut Scene, driver: &mut Driver, blow: Blow, victim: Victim) -> bool {
    let cluster = &mut scene.cluster;
    if driver.0.ended().is_some() {
        return false;
    }
    match victim {
        Victim::Executor(place) => {
            if cluster.executor(place).ended().is_some() || !cluster.is_busy(place) {
                return false;
            }
            cluster.executor(place).stop();
            // Its task may have ended just before; what still stood from an earlier fault stays so.
            if !cluster.is_busy(place) {
                cluster.executor(place).signal("CONT");
                return false;
            }
        }
        // Where no task runs, the run may need no scheduler any more.
        Victim::Scheduler => {
            if cluster.scheduler().ended().is_some() || !(0..2).any(|place| cluster.is_busy(place)) {
                return false;
            }
        }
        Victim::Driver => {}
    }
    let struck = struck_process(cluster, victim).unwrap_or(&mut driver.0);
    match blow {
        Blow::Kill => struck.kill(),
        Blow::Stop => struck.signal("STOP"),
        Blow::Drain => {
            struck.signal("TERM");
            struck.signal("CONT");
        }
    }
    true
}

/// Brings back what a fault struck, the process `id`; whether that could be done now.
fn mend(scene: &mut Scene, blow: Blow, victim: Victim, id: u32) -> bool {
    let cluster = &mut scene.cluster;
    // The end of another fault may have put a new process in its place already.
    let Some(struck) = struck_process(cluster, victim).filter(|struck| struck.id() == id) else {
        return true;
    };
    // It still drains.
    if blow == Blow::Drain && struck.ended().is_none() {
        return false;
    }
    match (blow, victim) {
        (Blow::Stop, _) => struck.signal("CONT"),
        (_, Victim::Executor(place)) => cluster.spawn_executor(place),
        _ => cluster.start_scheduler(),
    }
    true
}

/// Random moments of two commands at one output.
#[test]
#[ignore = "takes minutes"]
fn soak_two_commands_at_one_output() {
    let scene = claims::Scene::new(60);
    let folder = scene.folder.path();
    let start = |name: &str, what: What, output: &Path| scene.start(name, what, output);
    let began = Instant::now();
    assert!(start("length", What::Run, &folder.join("length")).wait(DEADLINE).success());
    let length = began.elapsed();
    let (mut waited, mut overlapped) = (0, 0);
    for round in seeds(100) {
        let (one, two) = MEETINGS[(round % 4) as usize];
        let offset = length.mul_f64(Random(round).below(1_000) as f64 / 1_000.0);
        let what = format!("round {round}: {two:?} {offset:?} after {one:?}");
        let output = folder.join(format!("out{round}"));
        if one == What::Overwrite {
            assert!(start(&format!("before{round}"), What::Run, &output).wait(DEADLINE).success(), "{what}");
        }
        let mut first = start(&format!("first{round}"), one, &output);
        let_pass(offset);
        overlapped += usize::from(first.ended().is_none());
        let mut second = start(&format!("second{round}"), two, &output);
        let ended = [first.wait(DEADLINE), second.wait(DEADLINE)];
        assert!(ended.iter().all(ExitStatus::success), "{what}: {}{}", first.said(), second.said());
        let waits = |process: &Process| usize::from(process.said().contains("waits until it has ended"));
        waited += waits(&first) + waits(&second);
        scene.check(&output, &what);
        std::fs::remove_dir_all(&output).unwrap();
    }
    eprintln!("{overlapped} rounds overlapped, and {waited} commands waited");
    assert!(waited > 0, "no two commands met");
}

/// Sorts of several tasks that need memory at the same time.
#[test]
#[ignore = "takes minutes"]
fn soak_sorts_of_a_dictionary_meet() {
    let path = paths();
    let (input, job) = (path("in.parquet"), path("job.toml"));
    write_parquet(&input, &corpus(11, 4_000, 100), 500);
    let text = job_text(&input, SET_BY_THE_TEST).replace("[shingle]\n", "[shingle]\nhash = \"dictionary\"\n");
    std::fs::write(&job, text).unwrap();
    let expected = rows_alone(&job, &path("roomy"), &["engine.memory=1GiB"]);
    let mut planned_again = 0;
    for round in seeds(20) {
        let output = path(&format!("narrow{round}"));
        let assert = program![
            "run",
            &job,
            "--set",
            &format!("output.url={}", output.display()),
            "--set",
            "engine.memory=32MiB",
            "--set",
            "engine.threads=16"
        ]
        .assert()
        .success();
        let log = stderr(assert.get_output());
        assert_rows(&output, &expected, "one sort");
        planned_again += usize::from(log.contains("the stage is planned again stage=dictionary"));
    }
    eprintln!("the sorts met in {planned_again} runs");
    assert!(planned_again > 0, "the sorts never met");
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_hundred_thousand_documents() {
    generated(100_000);
}
