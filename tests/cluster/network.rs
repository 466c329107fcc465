//! Executors that cannot reach each other, though the scheduler reaches both: in network namespaces of the test's own.

use super::faults::Scene;
use crate::support::cluster::turn;
use crate::support::needs::permitted;
use crate::support::*;

/// Set for the process that has a network of its own.
const INSIDE: &str = "RESEMBLANCE_TEST_NETWORK";

/// Gives a process namespaces that end with it.
const OWN: [&str; 3] = ["unshare", "--net", "--mount"];

/// By hand: `cargo test --features cluster --test tests -- --ignored --exact cluster::network::executors_that_cannot_reach_each_other`
#[test]
#[ignore = "waits minutes for tasks whose network is cut"]
fn executors_that_cannot_reach_each_other() {
    let tries =
        [&OWN[..], &["sh", "-c", "mount -t tmpfs tmpfs /run && ip netns add a && ip link add v type veth"]];
    if !permitted(&tries.concat(), "the permission to make a network namespace") {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(OWN[0]);
    command.args(&OWN[1..]).arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
    command.args(["--exact", "cluster::network::in_a_network_of_its_own", "--ignored", "--nocapture"]);
    let mut inside = Process::start("network", &mut command, folder.path());
    let ended = inside.wait(Duration::from_secs(400));
    assert!(ended.success(), "{ended}");
}

/// The test proper, which the one above starts.
#[test]
#[ignore = "is started in namespaces of its own by executors_that_cannot_reach_each_other"]
fn in_a_network_of_its_own() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    shell("mount -t tmpfs tmpfs /run && ip link set lo up");
    for (number, name) in NAMES.iter().enumerate() {
        shell(&format!(
            "ip netns add {name}
             ip link add to-{name} type veth peer name eth0 netns {name}
             ip address add 10.99.{number}.1/24 dev to-{name}
             ip link set to-{name} up
             ip -n {name} link set lo up
             ip -n {name} address add 10.99.{number}.2/24 dev eth0
             ip -n {name} link set eth0 up
             ip -n {name} route add default via 10.99.{number}.1"
        ));
    }
    connect(true);
    let place = |number: usize| ExecutorHost {
        host: format!("10.99.{number}.2"),
        inside: ["ip", "netns", "exec", NAMES[number]].map(str::to_owned).to_vec(),
    };
    let executors = (0..NAMES.len()).map(place).collect();
    let scene = Scene::new(
        Cluster::with(Setup { host: "10.99.0.1".into(), executors, ..Setup::default() }),
        2_500,
        &[],
    );
    let driver = scene.run("whole", &[]);
    scene.survives(driver, "whole");

    mended(&scene);
    cut_for_good(&scene);
}

/// Cut until a stage could not go on, and mended.
fn mended(scene: &Scene) {
    let record = struck(|round| {
        let name = format!("mended {round}");
        let mut driver = scene.run(&name, &["engine.deadline_seconds=10"]);
        assert!(scene.cluster.await_stage("sketches", &mut driver));
        connect(false);
        wait_for("a stage to be submitted anew, or the end", Duration::from_secs(120), || {
            (driver.0.ended().is_some() || driver.0.said().contains(ANEW)).then_some(())
        });
        connect(true);
        let record = scene.survives(driver, &name);
        (record["recoveries"].as_u64() > Some(0)).then_some(record)
    });
    eprintln!("mended after {} recoveries", record["recoveries"]);
    // Packets that they wait for were lost on the way, without an error on either side.
    wait_for("tasks of the cancelled stage to give their slots back", Duration::from_secs(90), || {
        (0..NAMES.len()).all(|place| !scene.cluster.is_busy(place)).then_some(())
    });
}

/// Cut for good: either the run finds a way, or it says so and can be taken up when the network is mended.
fn cut_for_good(scene: &Scene) {
    struck(|round| {
        let name = format!("cut {round}");
        let mut driver = scene.run(&name, &["engine.deadline_seconds=10", "engine.attempts=2"]);
        assert!(scene.cluster.await_stage("sketches", &mut driver));
        connect(false);
        let ended = driver.end(200);
        eprintln!("with the network cut the run ended with {:?}", ended.status);
        connect(true);
        if ended.status.success() {
            assert_rows(&scene.output(&name), &scene.expected, &name);
        } else {
            ended.refused(4, &[]);
            let driver = scene.run(&name, &[]);
            scene.survives(driver, &name);
        }
        stderr(&ended).contains(ANEW).then_some(())
    });
}

const ANEW: &str = "the stage is submitted again";

/// Tries until the cut cost a run something. It costs nothing if the scheduler gave all that was left to one executor.
fn struck<T>(mut attempt: impl FnMut(usize) -> Option<T>) -> T {
    (0..24).find_map(&mut attempt).expect("no cut of the network ever cost a run anything")
}

const NAMES: [&str; 2] = ["a", "b"];

/// Lets packets pass between the executors, or drops them without a word.
fn connect(whole: bool) {
    std::fs::write(Path::new("/proc/sys/net/ipv4/ip_forward"), if whole { "1" } else { "0" }).unwrap();
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}
