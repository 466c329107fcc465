//! The long test of a cluster, by a command of its own:
//!
//! ```sh
//! RESEMBLANCE_SOAK_ROUNDS=20 RESEMBLANCE_SOAK_SEED=1 cargo test --locked --test tests -- --ignored --nocapture soak
//! ```
//!
//! Each round runs a job of some seconds while executors, the scheduler and drivers are killed, stopped and started
//! again at random moments, and holds its rows against those of one process. It prints a line for each round; the same
//! seed gives the same faults.

use std::time::{Duration, Instant};

use crate::cluster::faults::Scene;
use crate::cluster::rows::generated;
use crate::support::Random;
use crate::support::cluster::Cluster;
use crate::support::process::let_pass;
use crate::support::rows::assert_rows;

/// Drivers that one round may need: those that are killed, and those that give up while too much is away.
const DRIVERS: usize = 6;

/// Within this time a round ends.
const ROUND: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy)]
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
    for round in 0..rounds {
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let faults = faults(&mut random, length);
        eprintln!("round {round} of seed {seed}: {faults:?}");
        let began = Instant::now();
        let (drivers, gave_up) = disturbed(&mut scene, &format!("round{round}"), &faults);
        let seconds = began.elapsed().as_secs_f64();
        eprintln!(
            "round {round}: right rows after {seconds:.1} s, {drivers} drivers, {gave_up} of them gave up"
        );
    }
}

/// Runs the job under faults until it is done: the drivers that it took, and those that gave up with an error.
fn disturbed(scene: &mut Scene, name: &str, faults: &[(u64, Fault)]) -> (usize, usize) {
    let mut left = faults.iter().peekable();
    let mut driver = scene.run(name, &["engine.stall_seconds=40"]);
    let (mut drivers, mut gave_up) = (1, 0);
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < ROUND, "{name} does not end");
        if let Some((_, fault)) = left.next_if(|(at, _)| began.elapsed() >= Duration::from_millis(*at)) {
            match fault {
                Fault::KillDriver => driver.0.kill(),
                fault => disturb(&mut scene.cluster, *fault),
            }
        }
        if let Some(ended) = driver.0.ended() {
            if ended.success() {
                break;
            }
            // Without a code it was killed; with this one, it says that the engine is lost.
            assert!(matches!(ended.code(), None | Some(4)), "{name}: {ended}");
            gave_up += usize::from(ended.code().is_some());
            assert!(drivers < DRIVERS, "{drivers} drivers did not finish {name}");
            driver = scene.run(name, &["engine.stall_seconds=40"]);
            drivers += 1;
        }
        let_pass(Duration::from_millis(10));
    }
    assert_rows(&scene.output(name), &scene.expected, name);
    // What is still away comes back for the next round.
    for (_, fault) in left {
        if !matches!(fault, Fault::KillDriver) {
            disturb(&mut scene.cluster, *fault);
        }
    }
    for place in 0..2 {
        if scene.cluster.executor(place).ended().is_some() {
            scene.cluster.spawn_executor(place);
        }
    }
    std::fs::remove_dir_all(scene.output(name)).unwrap();
    (drivers, gave_up)
}

fn disturb(cluster: &mut Cluster, fault: Fault) {
    match fault {
        Fault::KillExecutor(place) => cluster.executor(place).kill(),
        Fault::StartExecutor(place) if cluster.executor(place).ended().is_some() => {
            cluster.spawn_executor(place)
        }
        // Another fault's end started it already, or it still drains.
        Fault::StartExecutor(_) => {}
        Fault::StopExecutor(place) => cluster.executor(place).signal("STOP"),
        Fault::ContinueExecutor(place) => cluster.executor(place).signal("CONT"),
        Fault::DrainExecutor(place) => cluster.executor(place).signal("TERM"),
        Fault::KillScheduler => cluster.scheduler().kill(),
        Fault::StartScheduler if cluster.scheduler().ended().is_some() => cluster.start_scheduler(),
        Fault::StartScheduler => {}
        Fault::StopScheduler => cluster.scheduler().signal("STOP"),
        Fault::ContinueScheduler => cluster.scheduler().signal("CONT"),
        Fault::KillDriver => {}
    }
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_hundred_thousand_documents() {
    generated(100_000);
}
