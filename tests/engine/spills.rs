//! Leftovers of commands that are stopped or killed: no spills and no uploads.

use crate::support::*;

const DEADLINE: Duration = Duration::from_secs(120);

fn spill_folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap());
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("resemblance-spill-"));
    ours.map(|entry| entry.path()).collect()
}

/// Whether something was spilled there. The lock alone is nothing: a process may be killed before it has locked its folder.
fn holds_spills(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.path().is_dir() {
        true => holds_spills(&entry.path()),
        false => {
            let is_lock = entry.file_name().to_string_lossy().ends_with("lock");
            !is_lock && entry.metadata().is_ok_and(|file| file.len() > 0)
        }
    })
}

/// A query that sorts more than it may hold, and takes long.
const SORT: &str = "SELECT max(v), max(r) FROM (SELECT v, row_number() OVER (ORDER BY v, w) AS r FROM \
                    (SELECT value * 7919 % 1000003 AS v, value AS w FROM range(0, 200000000)))";

/// The query over the output, with `temporary` as the folder for temporary files, once it has spilled.
fn spilling(name: &str, out: &Path, temporary: &Path) -> Process {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.env("TMPDIR", temporary).arg("sql").arg(out).args([SORT, "--memory", "32MiB"]);
    let before = spill_folders(temporary);
    let process = Process::start(name, &mut command, out);
    wait_for("a spill", DEADLINE, || {
        let new = spill_folders(temporary).into_iter().filter(|folder| !before.contains(folder));
        new.filter(|folder| holds_spills(folder)).count().checked_sub(1)
    });
    process
}

#[cfg(unix)]
#[test]
fn spills_go_with_a_stop_and_after_a_kill_with_the_next_command() {
    let path = paths();
    write_parquet(&path("in.parquet"), &corpus(1, 20, 30), 100);
    let out = path("out");
    run(&job(&path("in.parquet"), &out, &[])).unwrap();
    let temporary = path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    for signal in ["TERM", "INT"] {
        let mut query = spilling(signal, &out, &temporary);
        query.signal(signal);
        assert_eq!(query.wait(DEADLINE).code(), Some(130), "{signal}");
        assert_eq!(spill_folders(&temporary), [""; 0].map(PathBuf::from), "{signal}");
    }
    let mut killed = spilling("killed", &out, &temporary);
    killed.kill();
    let dead = spill_folders(&temporary);
    assert!(dead.len() == 1 && holds_spills(&dead[0]), "{dead:?}");
    // Folders of live processes stay; folders of dead processes are removed.
    let mut living = spilling("living", &out, &temporary);
    let left = spill_folders(&temporary);
    assert!(left.len() == 1 && left != dead, "{left:?}");
    let clean = || resemblance().env("TMPDIR", &temporary).arg("clean").arg(&out).assert().success();
    clean();
    assert_eq!(spill_folders(&temporary), left);
    living.kill();
    clean();
    assert_eq!(spill_folders(&temporary), [""; 0].map(PathBuf::from));
}

/// A job whose table of documents goes up in parts, to a server that takes no part.
#[cfg(unix)]
#[test]
fn no_upload_stays_after_a_stop() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(7, 700, 1_700), 100);
    let path = folder.path().join("job.toml");
    let more = "keep = \"shingles\"\n[engine]\nthreads = 1\n";
    std::fs::write(&path, job_text(&input, "s3://data/out") + more).unwrap();
    let s3 = S3::start();
    s3.faults.add("partNumber=", usize::MAX, Fault::Unavailable);
    for signal in ["TERM", "INT"] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.envs(s3.env()).env("RESEMBLANCE_RETRY_SECONDS", "100").arg("run").arg(&path);
        let tried = s3.faults.requests("partNumber=").len();
        let mut run = Process::start(signal, &mut command, folder.path());
        wait_for("a part", DEADLINE, || s3.faults.requests("partNumber=").len().checked_sub(tried + 1));
        run.signal(signal);
        assert_eq!(run.wait(DEADLINE).code(), Some(130), "{signal}: {}", run.said());
        let begun = s3.faults.requests("?uploads").len();
        let given_up = s3.faults.requests("DELETE /data/out/").len();
        assert!(begun > 0 && begun == given_up, "{signal}: {begun} uploads begun, {given_up} given up");
    }
}
