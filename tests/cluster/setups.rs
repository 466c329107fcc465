//! Clusters that are set up wrongly: said at once, by name, with what to do.

use std::net::TcpListener;
use std::time::Duration;

use tempfile::tempdir;

use super::{job_file, parquet_files};
use crate::support::cluster::{Cluster, Setup};
use crate::support::process::free_ports;
use crate::support::*;

/// Seconds that a refusal may take.
const REFUSAL: Duration = Duration::from_secs(60);

/// Runs the command with a deadline; its exit code and what it said.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = resemblance().args(arguments).timeout(REFUSAL).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_driver_without_a_cluster_says_so() {
    let folder = tempdir().unwrap();
    let source = parquet_files(folder.path(), &corpus(53, 20, 20), 1);
    let job = job_file(folder.path(), &source).display().to_string();
    let output = format!("output.url={}", folder.path().join("out").display());
    let run = |scheduler: &str| {
        let scheduler = format!("engine.scheduler={scheduler}");
        let sets = ["engine.mode=cluster", "engine.wait_seconds=2", &scheduler, &output];
        let mut arguments = vec!["run", &job];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        refused(&arguments)
    };
    let nobody = format!("df://127.0.0.1:{}", free_ports(1));
    let (code, said) = run(&nobody);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&nobody[5..]), "{said}");
    for wrong in ["127.0.0.1", "http://127.0.0.1:50050", "df://", "df://127.0.0.1:notaport"] {
        let (code, said) = run(wrong);
        assert_eq!(code, Some(2), "{wrong}: {said}");
        assert!(said.contains("engine.scheduler"), "{wrong}: {said}");
    }
    assert!(!folder.path().join("out/manifest.json").exists());
}

#[test]
fn a_cluster_without_executors_is_waited_for_and_then_named() {
    let mut cluster = Cluster::with(Setup { executors: Vec::new(), ..Setup::default() });
    assert_eq!(cluster.get("/readyz").map(|(status, _)| status / 100), Some(5));
    let source = parquet_files(cluster.folder(), &corpus(53, 20, 20), 1);
    let job = job_file(cluster.folder(), &source);
    let output = cluster.folder().join("out").display().to_string();
    let ended = cluster.run(&job, &output, &["engine.wait_seconds=2"]).end(60);
    assert_eq!(ended.code, Some(4), "{}", ended.said);
    assert!(ended.said.contains("executor"), "{}", ended.said);
    assert!(cluster.scheduler().ended().is_none());
}

#[test]
fn roles_refuse_what_they_cannot_be() {
    let folder = tempdir().unwrap();
    let work = folder.path().display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let free = format!("127.0.0.1:{}", free_ports(3));
    let executor = |bind: &str, vcores: &str, memory: &str| {
        let place = ["executor", "--scheduler", "127.0.0.1:9", "--bind", bind, "--work-dir", &work];
        refused(&[&place[..], &["--vcores", vcores, "--memory", memory]].concat())
    };
    for (what, named, (code, said)) in [
        ("no number", "--memory", executor(&free, "1", "much")),
        ("too little", "--memory", executor(&free, "1", "1KiB")),
        ("too little for so many", "--memory", executor(&free, "64", "512MiB")),
        ("no number", "--vcores", executor(&free, "-1", "512MiB")),
        ("no port", "--bind", executor("127.0.0.1", "1", "512MiB")),
        ("no port", "--bind", refused(&["scheduler", "--bind", "127.0.0.1"])),
        (
            "no seconds",
            "--executor-timeout",
            refused(&["scheduler", "--bind", &free, "--executor-timeout", "0"]),
        ),
    ] {
        assert_eq!(code, Some(2), "{what} for {named}: {said}");
        assert!(said.contains(named), "{what} for {named}: {said}");
    }
    let alone =
        ["executor", "--scheduler", "127.0.0.1:9", "--bind", &free, "--work-dir", &work, "--wait", "1"];
    let (code, said) = refused(&alone);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("127.0.0.1:9"), "{said}");
    for (code, said) in [refused(&["scheduler", "--bind", &taken]), executor(&taken, "1", "512MiB")] {
        assert!(matches!(code, Some(2..=4)), "{code:?}: {said}");
        assert!(said.contains(&taken), "{said}");
    }
}
