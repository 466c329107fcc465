//! A cluster that reads from and writes to S3, also when that fails for a while; and executors whose disks are full.

use super::faults::Scene;
use super::*;
use crate::support::needs::permitted;
use crate::support::process::free_ports;
use crate::support::rows::Rows;
use crate::support::s3::SECRET_KEY;

/// A cluster that knows the server, a job over documents in its bucket, and the rows that it must have.
fn stored(s3: &S3, count: usize) -> (Cluster, PathBuf, Rows) {
    let environment = [s3.env(), variables(&[("RESEMBLANCE_RETRY_SECONDS", "2")])].concat();
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let source = parquet_files(cluster.folder(), &corpus(55, count, 60), 4);
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        s3.put(&format!("in/{}", path.file_name().unwrap().display()), std::fs::read(&path).unwrap());
    }
    let alone = rows_alone(
        &job_file(cluster.folder(), &source),
        &cluster.folder().join("alone"),
        &["shingle.size=4"],
    );
    let expected = moved(&alone, &source.display().to_string(), &s3.url("in"));
    let job = job_file(cluster.folder(), Path::new(&s3.url("in/")));
    (cluster, job, expected)
}

#[test]
fn a_cluster_on_s3_survives_outages_of_the_store() {
    let s3 = S3::start();
    let (cluster, job, expected) = stored(&s3, 1_000);
    s3_that_answers(&s3, &cluster, &job, &expected);
    s3_that_is_away(&s3, &cluster, &job, &expected);
}

fn s3_that_answers(s3: &S3, cluster: &Cluster, job: &Path, expected: &Rows) {
    cluster.run(job, s3.url("quiet"), &["shingle.size=4"]).succeed(QUIET);
    assert_rows(&s3.file("quiet"), expected, "a run from S3 to S3");
    assert!(!cluster.logs().contains(SECRET_KEY), "a log holds the secret key");
    // The scheduler's answers are open to everybody.
    let jobs: Vec<Value> = serde_json::from_str(&cluster.get("/api/jobs").unwrap().1).unwrap();
    assert!(!jobs.is_empty());
    for job in jobs {
        for part in ["", "/config", "/stages", "/dot"] {
            let path = format!("/api/job/{}{part}", job["job_id"].as_str().unwrap());
            let (_, body) = cluster.get(&path).unwrap();
            assert!(!body.contains(SECRET_KEY), "{path} holds the secret key");
        }
    }
}

/// An S3 that is out of reach for a while costs time and no rows.
fn s3_that_is_away(s3: &S3, cluster: &Cluster, job: &Path, expected: &Rows) {
    let mut driver = cluster.run(job, s3.url("out"), &["shingle.size=4"]);
    // Stages that are planned alone, since planning has the patience of a single request.
    for (outage, stage) in ["sketches", "candidates", "members"].into_iter().enumerate() {
        assert!(cluster.await_stage(stage, &mut driver), "the run ended before {stage}");
        s3.faults.add("/data/in/", usize::MAX / 4, Fault::Unavailable);
        s3.faults.add("/part-", usize::MAX / 4, Fault::Unavailable);
        // It lasts until it has outlasted the patience of a stage.
        wait_for("a stage to be submitted anew", Duration::from_secs(60), || {
            assert!(driver.0.ended().is_none(), "the run ended though its storage was away");
            (driver.0.said().matches("the stage is submitted again").count() > outage).then_some(())
        });
        s3.faults.clear();
    }
    let record = driver.succeed(QUIET);
    assert!(record["recoveries"].as_u64() >= Some(3), "{record:#}");
    assert_rows(&s3.file("out"), expected, "an S3 that was away");
    // Executors put with several attempts; the driver puts its own claim once, with its own patience.
    s3.faults.add("PUT /data/cut/documents/part-", 20, Fault::Unavailable);
    s3.faults.add("GET /data/in/", 5, Fault::Cut(1_000));
    s3.faults.add("PUT /data/cut/documents/part-", 3, Fault::Silent);
    cluster.run(job, s3.url("cut"), &["shingle.size=4"]).succeed(QUIET);
    assert_eq!(s3.faults.left(), 0, "not every fault was met");
    assert_rows(&s3.file("cut"), expected, "connections that were cut");
}

/// An executor with a mount namespace of its own, whose work folder has so many kilobytes. None without the permission to mount.
fn small_disk(kilobytes: usize) -> Option<ExecutorHost> {
    let mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    if !permitted(&mount, "the permission to mount a tmpfs") {
        return None;
    }
    // Its own mounts go with the process.
    let mount = format!("mount -t tmpfs -o size={kilobytes}k tmpfs \"$WORK\" && exec \"$@\"");
    let inside = ["unshare", "--mount", "sh", "-c", &mount, "sh"].map(str::to_owned).to_vec();
    Some(ExecutorHost { inside, ..ExecutorHost::default() })
}

#[test]
fn an_executor_whose_disk_is_full_leaves_the_job_to_another() {
    let Some(small) = small_disk(128) else { return };
    let setup = Setup { executors: vec![ExecutorHost::default(), small], ..Setup::default() };
    let mut scene = Scene::new(Cluster::with(setup), 2_500, &[]);
    let driver = scene.run("full", &[]);
    let record = scene.survives(driver, "full");
    assert!(record["recoveries"].as_u64() > Some(0), "{record:#}");
    let executor = scene.cluster.executor(1);
    let ended = executor.wait(Duration::from_secs(60));
    let said = executor.said();
    assert_eq!(ended.code(), Some(4), "{said}");
    assert!(said.contains("no space is left on the disk") && said.contains("--work-dir"), "{said}");
    wait_for("the scheduler to be idle", Duration::from_secs(30), || {
        scene.cluster.running().is_empty().then_some(())
    });
}

#[test]
fn where_the_only_executors_disk_is_full_the_driver_says_so() {
    let Some(small) = small_disk(128) else { return };
    let setup = Setup { executors: vec![small], ..Setup::default() };
    let scene = Scene::new(Cluster::with(setup), 2_500, &[]);
    let ended = scene.run("full", &["engine.wait_seconds=3"]).end(QUIET);
    ended.refused(4, &["127.0.0.1:", "no space is left on its disk", "No space left on device"]);
}

/// An executor that cannot reach a store reports its name, the object and the innermost cause.
#[test]
fn a_store_that_refuses_an_executors_connections_is_named_by_the_driver() {
    let s3 = S3::start();
    let nobody = format!("http://127.0.0.1:{}", free_ports(1));
    let environment = [s3.env(), variables(&[("RESEMBLANCE_RETRY_SECONDS", "1")])].concat();
    let mut setup = Setup { environment, ..Setup::default() };
    setup.executors.truncate(1);
    setup.executors[0].inside = vec!["env".into(), format!("AWS_ENDPOINT={nobody}")];
    let cluster = Cluster::with(setup);
    let source = parquet_files(cluster.folder(), &corpus(58, 50, 20), 1);
    s3.put("in/0.parquet", std::fs::read(source.join("0.parquet")).unwrap());
    let job = job_file(cluster.folder(), Path::new(&s3.url("in/")));
    let ended = cluster.run(&job, s3.url("out"), &["engine.attempts=2"]).end(QUIET);
    ended.refused(4, &["a task failed on the executor 127.0.0.1:", "in/0.parquet", "Connection refused"]);
}

/// A fault in an executor's environment is reported with the executor's name, since the driver's environment is another one.
#[test]
fn variables_and_credentials_of_an_executor_are_told_as_its_own() {
    let s3 = S3::start();
    let environment = [s3.env(), variables(&[("RESEMBLANCE_RETRY_SECONDS", "1")])].concat();
    let with = |changes: &[&str]| ExecutorHost {
        inside: std::iter::once("env").chain(changes.iter().copied()).map(str::to_owned).collect(),
        ..ExecutorHost::default()
    };
    let without_keys =
        ["AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_METADATA_ENDPOINT=http://127.0.0.1:1"];
    let executors = vec![with(&["AWS_REGION=no region"])];
    let mut cluster = Cluster::with(Setup { environment, executors, ..Setup::default() });
    let source = parquet_files(cluster.folder(), &corpus(58, 50, 20), 1);
    s3.put("in/0.parquet", std::fs::read(source.join("0.parquet")).unwrap());
    let job = job_file(cluster.folder(), Path::new(&s3.url("in/")));
    for (executor, code, named) in [(0, 2, "AWS_REGION"), (1, 3, "there are no credentials")] {
        let ended = cluster.run(&job, s3.url("out"), &[]).end(QUIET);
        ended.refused(code, &["the executor 127.0.0.1:", "its environment", named]);
        cluster.executor(executor).kill();
        if executor == 0 {
            cluster.add_executor(with(&without_keys));
        }
    }
}
