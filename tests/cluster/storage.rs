//! A cluster that reads from and writes to S3, also when that fails for a while; and executors whose disks are full.

use std::path::Path;
use std::time::Duration;

use super::faults::{Scene, works};
use super::{QUIET, job_file, parquet_files};
use crate::support::cluster::{Cluster, Place, Setup};
use crate::support::process::{let_pass, wait_for};
use crate::support::rows::{Rows, assert_rows, rows_alone};
use crate::support::s3::{Fault, S3, SECRET_KEY};
use crate::support::*;

/// A cluster that knows the server, a job over documents in its bucket, and the rows that it must have.
fn stored(s3: &S3, count: usize) -> (Cluster, std::path::PathBuf, Rows) {
    let mut environment = s3.env();
    environment.push(("RESEMBLANCE_RETRY_SECONDS".into(), "2".into()));
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let source = parquet_files(cluster.folder(), &corpus(55, count, 60), 4);
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        s3.put(&format!("in/{}", path.file_name().unwrap().display()), std::fs::read(&path).unwrap());
    }
    let expected = rows_alone(
        &job_file(cluster.folder(), &source),
        &cluster.folder().join("alone"),
        &["shingle.size=4"],
    );
    let job = job_file(cluster.folder(), Path::new(&s3.url("in/")));
    (cluster, job, expected)
}

#[test]
fn from_s3_to_s3_the_rows_are_those_of_one_process() {
    let s3 = S3::start();
    let (cluster, job, expected) = stored(&s3, 1_500);
    cluster.run(&job, &s3.url("out"), &["shingle.size=4"]).succeed(QUIET);
    assert_rows(&s3.file("out"), &expected, "a run from S3 to S3");
    assert!(!cluster.logs().contains(SECRET_KEY), "a log holds the secret key");
    // The scheduler's answers are open to everybody.
    let jobs: Vec<serde_json::Value> = serde_json::from_str(&cluster.get("/api/jobs").unwrap().1).unwrap();
    assert!(!jobs.is_empty());
    for job in jobs {
        for part in ["", "/config", "/stages", "/dot"] {
            let path = format!("/api/job/{}{part}", job["job_id"].as_str().unwrap());
            let (_, body) = cluster.get(&path).unwrap();
            assert!(!body.contains(SECRET_KEY), "{path} holds the secret key");
        }
    }
}

#[test]
fn s3_that_is_out_of_reach_for_a_while_costs_time_and_no_rows() {
    let s3 = S3::start();
    let (cluster, job, expected) = stored(&s3, 1_500);
    let mut driver = cluster.run(&job, &s3.url("out"), &["shingle.size=4"]);
    for (step, part) in [("sketches", "/data/in/"), ("candidates", "/part-"), ("pairs", "/part-")] {
        assert!(cluster.await_step(step, &mut driver), "the run ended before {step}");
        // Longer than one request is tried for.
        s3.faults.add(part, usize::MAX / 2, Fault::Unavailable);
        let_pass(Duration::from_secs(4));
        s3.faults.clear();
    }
    driver.succeed(QUIET);
    assert_rows(&s3.file("out"), &expected, "an S3 that was away");
    s3.faults.add("PUT /data/cut", 20, Fault::Unavailable);
    s3.faults.add("GET /data/in/", 5, Fault::Cut(1_000));
    s3.faults.add("PUT /data/cut", 3, Fault::Silent);
    cluster.run(&job, &s3.url("cut"), &["shingle.size=4"]).succeed(QUIET);
    assert_rows(&s3.file("cut"), &expected, "connections that were cut");
}

#[test]
fn an_executor_whose_disk_is_full_costs_no_rows() {
    if !works(&["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]) {
        eprintln!("SKIPPED: nothing can be mounted here, so no disk was full");
        return;
    }
    // Its own mounts go with the process.
    let mount = "mount -t tmpfs -o size=128k tmpfs \"$WORK\" && exec \"$@\"";
    let inside = ["unshare", "--mount", "sh", "-c", mount, "sh"].map(str::to_owned).to_vec();
    let small = Place { inside, ..Place::default() };
    let setup = Setup { executors: vec![Place::default(), small], ..Setup::default() };
    let mut scene = Scene::new(Cluster::with(setup), 2_500, &[]);
    let mut ended = scene.run("full", &[]).end(QUIET);
    if ended.code != Some(0) {
        assert!(matches!(ended.code, Some(3 | 4)), "{}", ended.said);
        assert!(ended.said.contains("No space left"), "{}", ended.said);
        // Without that executor the run goes on.
        scene.cluster.executor(1).signal("TERM");
        scene.cluster.executor(1).wait(Duration::from_secs(60));
        ended = scene.run("full", &[]).end(QUIET);
    }
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert_rows(&scene.output("full"), &scene.expected, "a full disk");
    wait_for("the scheduler to be idle", Duration::from_secs(30), || {
        scene.cluster.running().is_empty().then_some(())
    });
}
