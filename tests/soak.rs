//! The long test of a cluster, by a command of its own:
//!
//! ```sh
//! RESEMBLANCE_SOAK_ROUNDS=20 RESEMBLANCE_SOAK_SEED=1 cargo test --locked --test tests -- --ignored --nocapture soak
//! ```
//!
//! Each round runs a job of some seconds while executors, the scheduler and drivers are killed, stopped and started
//! again from random moments on, and holds its rows against those of one process. An executor is struck only in the midst
//! of a task, however long that is waited for, a scheduler only while a task runs, and a driver only while it does: a fault
//! that finds nothing to strike is not counted. It prints a line for each round and the faults that happened in all; the same seed
//! gives the same faults.

use std::time::{Duration, Instant};

use crate::cluster::faults::Scene;
use crate::cluster::rows::generated;
use crate::support::Random;
use crate::support::cluster::{Cluster, Driver};
use crate::support::process::let_pass;
use crate::support::rows::assert_rows;

/// Drivers that one round may need: those that are killed, and those that give up while too much is away.
const DRIVERS: usize = 6;

/// Within this time a round ends.
const ROUND: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillExecutor(usize),
    StartExecutor(usize),
    StopExecutor(usize),
    ContinueExecutor(usize),
    DrainExecutor(usize),
    KillScheduler,
    StartScheduler,
    StopScheduler,
    ContinueScheduler,
    KillDriver,
}

/// One to four faults, each with what mends it, by milliseconds from the start of a round.
fn faults(random: &mut Random, length: Duration) -> Vec<(u64, Fault)> {
    let length = length.as_millis() as usize;
    let mut faults = Vec::new();
    for _ in 0..1 + random.below(4) {
        let at = random.below(length) as u64;
        let place = random.below(2);
        let later = |random: &mut Random, most: usize| at + random.below(most) as u64;
        match random.below(9) {
            0..=2 => {
                faults.push((at, Fault::KillExecutor(place)));
                faults.push((later(random, 5_000), Fault::StartExecutor(place)));
            }
            3 => {
                faults.push((at, Fault::DrainExecutor(place)));
                faults.push((later(random, 8_000), Fault::StartExecutor(place)));
            }
            4 | 5 => {
                faults.push((at, Fault::StopExecutor(place)));
                faults.push((later(random, 15_000), Fault::ContinueExecutor(place)));
            }
            6 => {
                faults.push((at, Fault::KillScheduler));
                faults.push((later(random, 5_000), Fault::StartScheduler));
            }
            7 => {
                faults.push((at, Fault::StopScheduler));
                faults.push((later(random, 5_000), Fault::ContinueScheduler));
            }
            _ => faults.push((at, Fault::KillDriver)),
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
#[ignore = "takes minutes"]
fn soak_random_faults() {
    let rounds = number("RESEMBLANCE_SOAK_ROUNDS", 20);
    let seed = number("RESEMBLANCE_SOAK_SEED", 1);
    let mut scene = Scene::new(Cluster::start(), 6_000, &["lsh.hot_bucket=16"]);
    let began = Instant::now();
    let driver = scene.run("undisturbed", &[]);
    scene.survives(driver, "undisturbed");
    let length = began.elapsed();
    let mut all = Happened::default();
    for round in 0..rounds {
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let faults = faults(&mut random, length);
        eprintln!("round {round} of seed {seed}: {faults:?}");
        let began = Instant::now();
        let happened = disturbed(&mut scene, &format!("round{round}"), &faults);
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("round {round}: right rows after {seconds:.1} s, {happened}");
        all.add(&happened);
    }
    eprintln!("{rounds} rounds of seed {seed}: {all}");
    assert!(all.struck() > 0 && all.recoveries > 0, "no fault happened");
}

/// What really happened.
#[derive(Default)]
struct Happened {
    executors_killed: usize,
    executors_stopped: usize,
    executors_drained: usize,
    schedulers_killed: usize,
    schedulers_stopped: usize,
    drivers_killed: usize,
    /// Found nothing to strike before the run ended.
    too_late: usize,
    drivers: usize,
    /// Drivers that ended with an error, which says that the engine is lost.
    gave_up: usize,
    /// By the record of the driver that came to the end.
    recoveries: u64,
}

impl Happened {
    fn struck(&self) -> usize {
        let executors = self.executors_killed + self.executors_stopped + self.executors_drained;
        executors + self.schedulers_killed + self.schedulers_stopped + self.drivers_killed
    }

    fn note(&mut self, fault: Fault) {
        match fault {
            Fault::KillExecutor(_) => self.executors_killed += 1,
            Fault::StopExecutor(_) => self.executors_stopped += 1,
            Fault::DrainExecutor(_) => self.executors_drained += 1,
            Fault::KillScheduler => self.schedulers_killed += 1,
            Fault::StopScheduler => self.schedulers_stopped += 1,
            Fault::KillDriver => self.drivers_killed += 1,
            _ => {}
        }
    }

    fn add(&mut self, other: &Self) {
        self.executors_killed += other.executors_killed;
        self.executors_stopped += other.executors_stopped;
        self.executors_drained += other.executors_drained;
        self.schedulers_killed += other.schedulers_killed;
        self.schedulers_stopped += other.schedulers_stopped;
        self.drivers_killed += other.drivers_killed;
        self.too_late += other.too_late;
        self.drivers += other.drivers;
        self.gave_up += other.gave_up;
        self.recoveries += other.recoveries;
    }
}

impl std::fmt::Display for Happened {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "{} faults: {} executors killed in a task, {} stopped, {} drained, {} schedulers killed, {} stopped, \
             {} drivers killed; {} faults found nothing to strike; {} drivers, of which {} gave up; {} recoveries",
            self.struck(),
            self.executors_killed,
            self.executors_stopped,
            self.executors_drained,
            self.schedulers_killed,
            self.schedulers_stopped,
            self.drivers_killed,
            self.too_late,
            self.drivers,
            self.gave_up,
            self.recoveries,
        )
    }
}

/// Runs the job under faults until it is done.
fn disturbed(scene: &mut Scene, name: &str, faults: &[(u64, Fault)]) -> Happened {
    let mut left: Vec<_> = faults.to_vec();
    let mut driver = scene.run(name, &["engine.stall_seconds=40"]);
    let mut happened = Happened { drivers: 1, ..Happened::default() };
    let mut draining = [false; 2];
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < ROUND, "{name} does not end");
        let goes_on = driver.0.ended().is_none();
        let mut waiting: Vec<usize> = Vec::new();
        left.retain(|(at, fault)| {
            let place = fault.place();
            // What mends a fault comes after it, so the later faults of a place wait for the first one.
            let due = began.elapsed() >= Duration::from_millis(*at) && !waiting.contains(&place);
            let end = if due && goes_on {
                strike(scene, &mut driver, *fault, &mut draining)
            } else {
                Strike::Later
            };
            match end {
                Strike::Done => happened.note(*fault),
                Strike::Nothing => happened.too_late += usize::from(fault.strikes()),
                Strike::Later => waiting.push(place),
            }
            end == Strike::Later
        });
        if let Some(ended) = driver.0.ended() {
            if ended.success() {
                break;
            }
            // Without a code it was killed; with this one, it says that the engine is lost.
            assert!(matches!(ended.code(), None | Some(4)), "{name}: {ended}");
            happened.gave_up += usize::from(ended.code().is_some());
            assert!(happened.drivers < DRIVERS, "{} drivers did not finish {name}", happened.drivers);
            driver = scene.run(name, &["engine.stall_seconds=40"]);
            happened.drivers += 1;
        }
        let_pass(Duration::from_millis(5));
    }
    let record = driver.succeed(1);
    happened.recoveries = record["recoveries"].as_u64().unwrap();
    assert_rows(&scene.output(name), &scene.expected, name);
    happened.too_late += left.iter().filter(|(_, fault)| fault.strikes()).count();
    // All are there and go on for the next round.
    for place in 0..2 {
        scene.cluster.executor(place).signal("CONT");
        if scene.cluster.executor(place).ended().is_some() {
            scene.cluster.spawn_executor(place);
        }
    }
    scene.cluster.scheduler().signal("CONT");
    if scene.cluster.scheduler().ended().is_some() {
        scene.cluster.start_scheduler();
    }
    std::fs::remove_dir_all(scene.output(name)).unwrap();
    happened
}

impl Fault {
    /// What it strikes or mends.
    fn place(self) -> usize {
        match self {
            Fault::KillExecutor(place)
            | Fault::StartExecutor(place)
            | Fault::StopExecutor(place)
            | Fault::ContinueExecutor(place)
            | Fault::DrainExecutor(place) => place,
            Fault::KillDriver => 3,
            _ => 2,
        }
    }

    /// Whether it does harm, and does not only mend it.
    fn strikes(self) -> bool {
        use Fault::{ContinueExecutor, ContinueScheduler, StartExecutor, StartScheduler};
        !matches!(self, StartExecutor(_) | ContinueExecutor(_) | StartScheduler | ContinueScheduler)
    }
}

/// What came of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    Done,
    /// What it strikes is not there.
    Nothing,
    /// An executor is in no task now, or has not ended yet.
    Later,
}

/// Does a fault, or what mends one.
fn strike(scene: &mut Scene, driver: &mut Driver, fault: Fault, draining: &mut [bool; 2]) -> Strike {
    let cluster = &mut scene.cluster;
    match fault {
        Fault::KillExecutor(place) | Fault::StopExecutor(place) | Fault::DrainExecutor(place) => {
            if cluster.executor(place).ended().is_some() {
                return Strike::Nothing;
            }
            if !cluster.is_busy(place) {
                return Strike::Later;
            }
            cluster.executor(place).stop();
            if !cluster.is_busy(place) {
                cluster.executor(place).signal("CONT");
                return Strike::Later;
            }
        }
        Fault::KillScheduler | Fault::StopScheduler => {
            if cluster.scheduler().ended().is_some() {
                return Strike::Nothing;
            }
            // Where no task runs, the run may need no scheduler any more.
            if !(0..2).any(|place| cluster.is_busy(place)) {
                return Strike::Later;
            }
        }
        Fault::StartExecutor(place) if draining[place] && cluster.executor(place).ended().is_none() => {
            return Strike::Later;
        }
        _ => {}
    }
    match fault {
        Fault::KillExecutor(place) => cluster.executor(place).kill(),
        Fault::StopExecutor(_) => {}
        Fault::DrainExecutor(place) => {
            cluster.executor(place).signal("TERM");
            cluster.executor(place).signal("CONT");
            draining[place] = true;
        }
        Fault::StartExecutor(place) if cluster.executor(place).ended().is_some() => {
            cluster.spawn_executor(place);
            draining[place] = false;
        }
        Fault::ContinueExecutor(place) => cluster.executor(place).signal("CONT"),
        Fault::KillScheduler => cluster.scheduler().kill(),
        Fault::StartScheduler if cluster.scheduler().ended().is_some() => cluster.start_scheduler(),
        // Another fault's end started it already.
        Fault::StartExecutor(_) | Fault::StartScheduler => {}
        Fault::StopScheduler => cluster.scheduler().signal("STOP"),
        Fault::ContinueScheduler => cluster.scheduler().signal("CONT"),
        Fault::KillDriver => driver.0.kill(),
    }
    Strike::Done
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_hundred_thousand_documents() {
    generated(100_000);
}
