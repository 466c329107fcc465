//! Clusters that are set up wrongly: the error names the mistake at once and what to do.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::support::process::free_ports;

const REFUSAL: Duration = Duration::from_secs(60);

/// The message of a command that ends with this code in time; it has all parts.
fn refused(arguments: &[&str], code: i32, parts: &[&str]) -> String {
    resemblance().args(arguments).timeout(REFUSAL).assert().refused(code, parts)
}

#[test]
fn a_driver_without_a_cluster_says_so() {
    let folder = tempdir().unwrap();
    let job = job_over(folder.path(), &corpus(53, 20, 20), 1).display().to_string();
    let output = format!("output.url={}", folder.path().join("out").display());
    let run = |scheduler: &str, code: i32, parts: &[&str]| {
        let scheduler = format!("engine.scheduler={scheduler}");
        // Much longer than this test may take: a refused connection is not waited for.
        let sets = ["engine.mode=cluster", "engine.wait_seconds=3600", &scheduler, &output];
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        refused(&[&["run", &job], &sets[..]].concat(), code, parts);
    };
    let nobody = format!("df://127.0.0.1:{}", free_ports(1));
    run(&nobody, 4, &["no scheduler listens", &nobody[5..]]);
    let unknown = "the host of the scheduler scheduler.invalid:50050 is unknown";
    run("df://scheduler.invalid:50050", 4, &[unknown]);
    for wrong in ["127.0.0.1", "http://127.0.0.1:50050", "df://", "df://127.0.0.1:notaport"] {
        run(wrong, 2, &["engine.scheduler"]);
    }
    assert!(!folder.path().join("out/manifest.json").exists());
}

#[test]
fn a_cluster_without_executors_is_waited_for_and_then_named() {
    let mut cluster = Cluster::with(Setup { executors: Vec::new(), ..Setup::default() });
    assert_eq!(cluster.get("/readyz").map(|(status, _)| status / 100), Some(5));
    let job = job_over(cluster.folder(), &corpus(53, 20, 20), 1);
    let output = cluster.folder().join("out");
    cluster.run(&job, &output, &["engine.wait_seconds=2"]).end(60).refused(4, &["executor"]);
    assert!(cluster.scheduler().ended().is_none());
}

#[test]
fn wrong_arguments_of_roles_are_refused() {
    let folder = tempdir().unwrap();
    let work = folder.path().display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let free = format!("127.0.0.1:{}", free_ports(3));
    let open = format!("0.0.0.0:{}", free_ports(3));
    let executor = |bind: &str, limits: [&str; 2], code: i32, parts: &[&str]| {
        let place = ["executor", "--scheduler", "127.0.0.1:9", "--bind", bind, "--work-dir", &work];
        refused(&[&place[..], &["--vcores", limits[0], "--memory", limits[1]]].concat(), code, parts)
    };
    for (bind, limits, named) in [
        (free.as_str(), ["1", "much"], "--memory"),
        (&free, ["1", "1KiB"], "--memory"),
        (&free, ["64", "512MiB"], "--memory"),
        (&free, ["many", "512MiB"], "--vcores"),
        ("127.0.0.1", ["1", "512MiB"], "--bind"),
        ("127.0.0.1:0", ["1", "512MiB"], "--bind"),
        (&open, ["1", "512MiB"], "--allow-unauthenticated"),
    ] {
        executor(bind, limits, 2, &[named]);
    }
    refused(&["scheduler", "--bind", "127.0.0.1"], 2, &["--bind"]);
    refused(&["scheduler", "--bind", &open], 2, &["--allow-unauthenticated"]);
    refused(&["scheduler", "--bind", &free, "--executor-timeout", "0"], 2, &["--executor-timeout"]);
    let alone =
        ["executor", "--scheduler", "127.0.0.1:9", "--bind", &free, "--work-dir", &work, "--wait", "1"];
    refused(&alone, 4, &["127.0.0.1:9", "Connection refused"]);
    let listens = [taken.as_str(), "another process listens there"];
    refused(&["scheduler", "--bind", &taken], 3, &listens);
    executor(&taken, ["1", "512MiB"], 3, &listens);
    for role in ["scheduler", "executor"] {
        let help = resemblance().args([role, "--help"]).assert().shown(&[]);
        assert!(help.contains("[default: 127.0.0.1:5005") && !help.contains("0.0.0.0"), "{help}");
    }
}

#[test]
fn an_executor_without_a_work_folder_takes_a_new_one_that_is_its_users() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    // Everybody can make a folder of a known name there.
    let known = temporary.join("resemblance-executor");
    std::fs::create_dir_all(&known).unwrap();
    let address = format!("127.0.0.1:{}", free_ports(3));
    let executor = |name: &str| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.env("TMPDIR", &temporary);
        command.args(["executor", "--scheduler", "127.0.0.1:9", "--bind", &address]);
        Process::start(name, command.args(["--memory", "64MiB", "--vcores", "1"]), folder.path())
    };
    let made = |but: &[PathBuf]| -> Vec<PathBuf> {
        let all = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| *path != known && path.join("lock").exists() && !but.contains(path)).collect()
    };
    let until =
        |but: &[PathBuf]| wait_for("a work folder", Duration::from_secs(60), || made(but).into_iter().next());
    let mut killed = executor("killed");
    let first = until(&[]);
    assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
    killed.kill();
    std::fs::create_dir(first.join("job")).unwrap();
    let mut second = executor("second");
    until(std::slice::from_ref(&first));
    wait_for("the end of what a killed executor left", Duration::from_secs(60), || {
        (!first.exists()).then_some(())
    });
    second.kill();
    assert_eq!(std::fs::read_dir(&known).unwrap().count(), 0, "a folder of somebody else is used");
}

/// Starts a server on 127.0.0.1 and returns its address. It answers every connection with the same bytes, or not at all.
fn start_server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut connection in listener.incoming().flatten() {
            if !answer.is_empty() {
                // The other side may have stopped listening.
                let _ =
                    connection.read(&mut [0; 4_096]).and_then(|_| connection.write_all(answer.as_bytes()));
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
            open.push(connection);
        }
    });
    address
}

#[test]
fn an_executor_that_is_sent_to_something_else_than_a_scheduler_ends_and_says_so() {
    let folder = tempdir().unwrap();
    let work = folder.path().display().to_string();
    for (answer, named) in [
        ("", "did not answer"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", "404"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello", "as a scheduler does"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "no scheduler answered"),
        // The answer of a scheduler about itself, to every request.
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 48\r\nconnection: close\r\n\r\n\
             {\"version\":\"55.0.0\",\"datafusion_version\":\"55.2\"}",
            "took no request for tasks",
        ),
    ] {
        let server = start_server(answer);
        let bind = format!("127.0.0.1:{}", free_ports(3));
        let arguments = ["executor", "--scheduler", &server, "--bind", &bind, "--work-dir", &work];
        let limits = ["--memory", "512MiB", "--vcores", "1", "--wait", "2"];
        refused(&[&arguments[..], &limits].concat(), 4, &[&server, named]);
    }
}

#[test]
fn an_executor_of_many_more_vcores_than_cores_does_a_small_job() {
    let setup =
        Setup { executors: vec![ExecutorHost::default()], vcores: 64, memory: "4GiB", ..Setup::default() };
    let mut cluster = Cluster::with(setup);
    assert!(cluster.executor(0).said().contains("there are more vcores than cores"));
    let job = job_over(cluster.folder(), &corpus(56, 300, 40), 2);
    let expected = rows_alone(&job, &cluster.folder().join("alone"), &[]);
    let output = cluster.folder().join("out");
    let record = cluster.run(&job, &output, &[]).succeed(QUIET);
    assert_rows(&output, &expected, "64 vcores");
    assert_eq!(record["recoveries"], 0, "{record:#}");
}

#[test]
fn a_scheduler_forgets_jobs_that_ended() {
    let cluster = Cluster::start();
    let job = job_over(cluster.folder(), &corpus(57, 40, 20), 2);
    let output = cluster.folder().join("out");
    cluster.run(&job, &output, &[]).succeed(QUIET);
    let jobs = || cluster.get("/api/jobs").unwrap().1;
    assert_ne!(jobs(), "[]");
    wait_for("the scheduler to forget all jobs", Duration::from_secs(60), || (jobs() == "[]").then_some(()));
}
