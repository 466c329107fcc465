//! Delta tables in a bucket, and runs that end between the manifest and the logs.

#![allow(clippy::disallowed_methods, reason = "another process is waited for by looking again and again")]

use super::*;

/// How long a run may take until it puts a log.
const DEADLINE: Duration = Duration::from_secs(180);

struct Bucket {
    scene: Scene,
    s3: S3,
}

impl Bucket {
    fn new() -> Self {
        let (scene, s3) = (Scene::new(), S3::start());
        let text = job_text(scene.path("in.parquet"), s3.url("out"));
        std::fs::write(scene.path("job.toml"), text).unwrap();
        Bucket { scene, s3 }
    }

    fn output(&self) -> PathBuf {
        self.s3.file("out")
    }

    fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> assert_cmd::assert::Assert {
        let own = std::env::vars().filter(|(name, _)| !name.starts_with("AWS_"));
        let mut command = resemblance();
        command.env_clear().envs(own).envs(self.s3.env()).env_remove("RESEMBLANCE_LOG");
        command.args(arguments).assert()
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let mut arguments = vec!["run".to_owned(), self.scene.path("job.toml").to_str().unwrap().to_owned()];
        arguments.extend(["--json", "--set", DELTA].map(str::to_owned));
        arguments.extend(more.iter().map(|argument| argument.to_string()));
        arguments
    }

    fn run(&self, more: &[&str]) -> assert_cmd::assert::Assert {
        self.command(&self.arguments(more))
    }

    /// Runs the job until it puts a commit, which the store does not take, and kills it there.
    fn run_until_a_commit(&self, more: &[&str]) {
        let put = "PUT /data/out/pairs/_delta_log/";
        let before = self.s3.faults.requests(put).len();
        for name in TABLES {
            self.s3.faults.add(&format!("PUT /data/out/{name}/_delta_log/"), usize::MAX, Fault::Unavailable);
        }
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
        command.envs(self.s3.env()).env("RESEMBLANCE_RETRY_SECONDS", "600").args(self.arguments(more));
        let mut run = Process::start("run", &mut command, &self.scene.path(""));
        wait_for("the put of a commit", DEADLINE, || {
            assert!(run.ended().is_none(), "{}", run.said());
            (self.s3.faults.requests(put).len() > before).then_some(())
        });
        run.kill();
        self.s3.faults.clear();
    }
}

#[test]
fn the_next_run_writes_the_logs_of_a_killed_one() {
    let bucket = Bucket::new();
    bucket.run_until_a_commit(&[]);
    let published = std::fs::read(bucket.output().join("manifest.json")).unwrap();
    assert!(bucket.s3.keys("out/pairs/_delta_log").is_empty());
    let record = bucket.run(&[]).json();
    assert_eq!(record["already_finished"], true);
    assert_eq!(std::fs::read(bucket.output().join("manifest.json")).unwrap(), published);
    check_in_bucket(&bucket, 0);
}

/// The files of the result before are there as long as a log names them.
#[test]
fn until_a_log_follows_its_readers_see_the_result_before() {
    let bucket = Bucket::new();
    bucket.run(&[]).success();
    let read = |name: &str| Table::read(&bucket.output().join(name));
    let before = TABLES.map(|name| sorted(&read(name).rows()));
    let files: Vec<PathBuf> = TABLES
        .iter()
        .flat_map(|name| read(name).files.into_keys().map(move |path| PathBuf::from(name).join(path)))
        .collect();
    bucket.run_until_a_commit(&["--overwrite", "--set", "score.threshold=0.9"]);
    let published = manifest(&bucket.output());
    assert!(published.paths().is_disjoint(&files.iter().map(|file| file.to_str().unwrap()).collect()));
    assert_eq!(TABLES.map(|name| sorted(&read(name).rows())), before);
    assert_ne!(sorted(&table(&bucket.output(), "pairs")), before[2]);
    // Two commands bring the logs up: the next run of the job, and `clean`, which removes files too.
    let counted = bucket.command(&["clean", &bucket.s3.url("out"), "--dry-run"]).success();
    assert_eq!(read("pairs").version, 0);
    let cleaned = bucket.command(&["clean", &bucket.s3.url("out")]).success();
    let counts = [counted, cleaned].map(|ended| {
        let text = stdout(ended.get_output());
        text.split(" file").next().unwrap().parse::<i64>().unwrap()
    });
    // The claim of the killed run goes as soon as another one takes its place.
    assert!((0..=1).contains(&(counts[0] - counts[1])), "{counts:?}");
    assert!(counts[1] >= files.len() as i64, "{counts:?}");
    check_in_bucket(&bucket, 1);
    assert!(files.iter().all(|file| !bucket.output().join(file).exists()));
    bucket.run(&["--set", "score.threshold=0.9"]).success();
    check_in_bucket(&bucket, 1);
}

#[test]
fn a_failed_write_of_a_log_is_reported_and_keeps_its_files() {
    let bucket = Bucket::new();
    bucket.run(&[]).success();
    let before = Table::read(&bucket.output().join("pairs"));
    bucket.s3.faults.add("PUT /data/out/pairs/_delta_log/", usize::MAX, Fault::Answer(403, String::new()));
    bucket.run(&["--overwrite"]).refused(3, &["is published", "without --overwrite"]);
    bucket.s3.faults.clear();
    assert_eq!(Table::read(&bucket.output().join("pairs")).rows(), before.rows());
    bucket.run(&[]).success();
    check_in_bucket(&bucket, 1);
}

#[test]
fn a_commit_whose_answer_is_lost_is_known_as_ones_own() {
    let bucket = Bucket::new();
    bucket.s3.faults.add("PUT /data/out/pairs/_delta_log/", 1, Fault::Silent);
    bucket.run(&[]).success();
    assert_eq!(bucket.s3.faults.left(), 0);
    check_in_bucket(&bucket, 0);
}

/// Another process commits between the reading of a log and the next commit.
#[test]
fn a_commit_that_comes_second_is_made_anew_behind_the_first() {
    let bucket = Bucket::new();
    bucket.run(&[]).success();
    let foreign =
        "{\"commitInfo\":{\"operation\":\"OPTIMIZE\"}}\n{\"txn\":{\"appId\":\"other\",\"version\":7}}\n";
    let second = "out/pairs/_delta_log/00000000000000000001.json";
    bucket.s3.faults.add(&format!("PUT /data/{second}"), 1, Fault::Put(second.to_owned(), foreign.into()));
    bucket.run(&["--overwrite"]).success();
    assert_eq!(bucket.s3.faults.left(), 0);
    assert_eq!(std::fs::read_to_string(bucket.s3.file(second)).unwrap(), foreign);
    let read = Table::read(&bucket.output().join("pairs"));
    assert_eq!(read.version, 2);
    assert_eq!(sorted(&read.rows()), sorted(&table(&bucket.output(), "pairs")));
    assert_eq!(Table::read(&bucket.output().join("clusters")).version, 1);
}

/// Holds every table in the bucket against the manifest there.
fn check_in_bucket(bucket: &Bucket, version: usize) {
    for (name, written) in &manifest(&bucket.output()).tables {
        let read = Table::read(&bucket.output().join(name));
        assert_eq!(read.version, version, "{name}");
        assert_eq!(read.files.len(), written.files.len(), "{name}");
        assert_eq!(sorted(&read.rows()), sorted(&table(&bucket.output(), name)), "{name}");
        check_schema(&read);
    }
    bucket.command(&["verify", &bucket.s3.url("out")]).success();
}
