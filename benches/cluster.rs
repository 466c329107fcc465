//! Measures the cost of a cluster. The same job is run by one process with two threads, and by a scheduler and two executors with one core
//! each.
//!
//! ```sh
//! cargo bench --bench cluster -- --documents 1000000 --repeat 3
//! ```
//!
//! All processes run on this machine, which needs two cores. Local runs and cluster runs alternate. For each, the repetition with the
//! fewest seconds counts. The output is Markdown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a measurement that cannot go on ends there, and what it found is printed; there is no runtime whose thread a sleep would block"
)]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use resemblance::lab::corpus::{self, Corpus, CorpusSettings};
use resemblance::output::manifest::Run;
use resemblance::pipeline::OnExisting;

/// Runs one job locally and on a cluster and prints what each stage took.
#[derive(Parser)]
struct Arguments {
    /// Documents of the corpus
    #[arg(long, default_value_t = 100_000)]
    documents: u64,
    /// Number of runs of each
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// The memory of each executor, in GiB; the local run has twice that
    #[arg(long, default_value_t = 2)]
    memory: u64,
    /// Set a key of the job: `--set candidates.method=prefix`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The flag that `cargo bench` passes; without it, as under `cargo test`, only a small job is run
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let mut arguments = Arguments::parse();
    if !arguments.bench {
        (arguments.documents, arguments.repeat) = (200, 1);
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let corpus = Corpus::new(arguments.documents, CorpusSettings::default()).unwrap();
    let files =
        corpus::files::write_documents(&corpus, &folder.path().join("corpus"), 4, OnExisting::Fail, &|_| {})
            .unwrap();
    drop(corpus);
    let job = folder.path().join("job.toml");
    let input = files.files[0].with_file_name("*.parquet");
    let text = format!(
        "[source]\nformat = \"parquet\"\nurl = {input:?}\nid = \"id\"\ntext = \"text\"\n[output]\nurl = \"\"\n"
    );
    std::fs::write(&job, text).unwrap();

    let scheduler = free_port();
    let place = format!("127.0.0.1:{scheduler}");
    let memory = format!("{}GiB", arguments.memory);
    let _scheduler = Member::start(&["scheduler", "--bind", &place], scheduler, &[]);
    let _executors: Vec<Member> = (0..2)
        .map(|i| {
            let (bind, health) = (free_port(), free_port());
            let work = folder.path().join(format!("executor-{i}"));
            let (bind, at) = (format!("127.0.0.1:{bind}"), format!("127.0.0.1:{health}"));
            let mut arguments = vec!["executor", "--scheduler", &place, "--vcores", "1", "--memory", &memory];
            arguments.extend(["--bind", &bind, "--health", &at, "--work-dir", work.to_str().unwrap()]);
            Member::start(&arguments, health, &["--ready"])
        })
        .collect();

    let cluster = [
        "engine.mode=cluster".to_owned(),
        format!("engine.scheduler=df://{place}"),
        "engine.threads=0".into(),
    ];
    let local = ["engine.threads=2".to_owned(), format!("engine.memory={}GiB", 2 * arguments.memory)];
    let mut best: [Option<(f64, Run)>; 2] = [None, None];
    for _ in 0..arguments.repeat.max(1) {
        for (best, sets) in best.iter_mut().zip([&local[..], &cluster[..]]) {
            let measured = run(&job, &folder.path().join("out"), &[sets, &arguments.sets].concat());
            eprintln!("  {}: {:.2} s", sets[0], measured.0);
            if best.as_ref().is_none_or(|(seconds, _)| measured.0 < *seconds) {
                *best = Some(measured);
            }
        }
    }
    let [Some(local), Some(cluster)] = best else { panic!("nothing was run") };
    assert_eq!(local.1.counts, cluster.1.counts, "the rows of a cluster are those of one process");
    println!("\n## {} documents, seconds\n", arguments.documents);
    println!("| stage | two threads | two executors of one core | times |\n|---|---:|---:|---:|");
    for (here, there) in local.1.stages.iter().zip(&cluster.1.stages) {
        let times = there.seconds / here.seconds;
        println!("| {} | {:.3} | {:.3} | {times:.2} |", here.name, here.seconds, there.seconds);
    }
    println!("| whole process | {:.3} | {:.3} | {:.2} |", local.0, cluster.0, cluster.0 / local.0);
}

/// A process of the cluster. It is killed when this value is dropped.
struct Member(Child);

impl Member {
    /// Starts the process, and waits until `resemblance health` succeeds at `port`. `ask` are additional arguments of `health`.
    fn start(arguments: &[&str], port: u16, ask: &[&str]) -> Self {
        let resemblance = || Command::new(env!("CARGO_BIN_EXE_resemblance"));
        let member =
            Self(resemblance().args(arguments).arg("--quiet").stdout(Stdio::null()).spawn().unwrap());
        let place = format!("127.0.0.1:{port}");
        let began = Instant::now();
        let well = || resemblance().args(["health", &place, "--quiet"]).args(ask).output().unwrap();
        while !well().status.success() {
            assert!(began.elapsed() < Duration::from_secs(60), "{arguments:?} does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        member
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Killing fails if the process has already ended, so the error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs the job in a process. Returns the seconds of the process and the manifest of the output.
fn run(job: &Path, out: &Path, sets: &[String]) -> (f64, Run) {
    if out.exists() {
        std::fs::remove_dir_all(out).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_resemblance"));
    command.arg("run").arg(job).arg("--quiet").args(["--top", "0"]).stdout(Stdio::null());
    command.arg("--set").arg(format!("output.url={}", out.display()));
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    let began = Instant::now();
    let status = command.status().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    assert!(status.success(), "the job failed: {status}");
    let manifest = std::fs::read(out.join("manifest.json")).unwrap();
    (seconds, serde_json::from_slice(&manifest).unwrap())
}
