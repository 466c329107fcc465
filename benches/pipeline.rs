//! Measures whole jobs over generated corpora: the seconds and the time per document of each stage, and the peak memory of the process.
//!
//! ```sh
//! cargo bench --bench pipeline                                        # 10,000 and 100,000 documents
//! cargo bench --bench pipeline -- --documents 10000,100000,1000000 --repeat 3
//! cargo bench --bench pipeline -- --corpus boilerplate,identical --set engine.memory=512MiB
//! cargo bench --bench pipeline -- --corpus boilerplate --without output.max_expand=0
//! ```
//!
//! Each run has a separate process. The repetition with the fewest seconds counts. For memory, the repetition with the highest peak counts.
//! The output is Markdown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on ends there, and what it found is printed"
)]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use resemblance::lab::corpus::{self, Corpus, CorpusSettings};
use resemblance::output::manifest::{Run, StageTime};
use resemblance::pipeline::OnExisting;

/// Runs the whole job over generated corpora and prints what each stage took.
#[derive(Parser)]
struct Arguments {
    /// Sizes of the corpora, each compared with the one before
    #[arg(long, value_delimiter = ',', default_value = "10000,100000")]
    documents: Vec<u64>,
    /// Words in a document, on average
    #[arg(long, default_value_t = 100)]
    words: usize,
    /// Number of runs of each job
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Which corpora; the even one is compared with, where it is among them
    #[arg(long, value_enum, value_delimiter = ',', default_value = "even")]
    corpus: Vec<Kind>,
    /// Share of documents that begin with the boilerplate, and its words
    #[arg(long, default_value_t = 0.3)]
    boilerplate: f64,
    #[arg(long, default_value_t = 30)]
    boilerplate_words: usize,
    /// Share of documents that are all the same, in the corpus of that name
    #[arg(long, default_value_t = 0.05)]
    identical: f64,
    /// Set a key of the job: `--set engine.memory=512MiB`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Measure each corpus again with this key, which turns a mechanism off, and compare what both runs wrote
    #[arg(long, value_name = "KEY=VALUE")]
    without: Vec<String>,
    /// The flag that `cargo bench` passes; without it, as under `cargo test`, only a small job is run
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Planted copies, near-duplicates and passages
    Even,
    /// The same, and many documents begin with the same words
    Boilerplate,
    /// The same, and many documents are one
    Identical,
}

/// The measurements of a corpus, with or without a mechanism.
struct Measured {
    kind: Kind,
    documents: u64,
    /// The `KEY=VALUE` that turned a mechanism off; `None` if all mechanisms were used.
    without: Option<String>,
    manifest: Run,
    /// The wall-clock seconds of the whole process.
    seconds: f64,
    /// The peak memory of the process in bytes, if the system reports it.
    peak: Option<u64>,
}

fn main() {
    let mut arguments = Arguments::parse();
    if !arguments.bench {
        (arguments.documents, arguments.repeat) = (vec![200], 1);
    }
    let mut measured: Vec<Measured> = Vec::new();
    for &kind in &arguments.corpus {
        for &documents in &arguments.documents {
            measured.extend(measure(kind, documents, &arguments));
        }
        let name = name(kind);
        let of_kind: Vec<_> = measured.iter().filter(|m| m.kind == kind && m.without.is_none()).collect();
        println!("\n## {name}, by stage\n\n{}", by_stage(&of_kind));
    }
    println!("\n## Whole processes\n\n{}", wholes(&measured));
    if !arguments.without.is_empty() {
        println!("\n## With and without\n\n{}", with_and_without(&measured));
    }
}

fn name(kind: Kind) -> String {
    clap::ValueEnum::to_possible_value(&kind).map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Writes a corpus, and runs the job over it. The first run uses all mechanisms. Each further run turns off one of the mechanisms in
/// `--without`.
fn measure(kind: Kind, documents: u64, by: &Arguments) -> Vec<Measured> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let even = CorpusSettings { words: by.words, ..CorpusSettings::default() };
    let settings = match kind {
        Kind::Even => even,
        Kind::Boilerplate => CorpusSettings {
            boilerplate: by.boilerplate,
            boilerplate_words: Some(by.boilerplate_words),
            ..even
        },
        Kind::Identical => CorpusSettings { identical: (documents as f64 * by.identical) as u64, ..even },
    };
    eprintln!("{}: {documents} documents", name(kind));
    let corpus = Corpus::new(documents, settings).unwrap();
    let written =
        corpus::files::write_documents(&corpus, &folder.path().join("corpus"), 4, OnExisting::Fail, &|_| {})
            .unwrap();
    drop(corpus);
    let job = folder.path().join("job.toml");
    let text = format!(
        "[source]\nformat = \"parquet\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n[output]\nurl = {:?}\n",
        written.files[0].with_file_name("*.parquet"),
        folder.path().join("out"),
    );
    std::fs::write(&job, text).unwrap();
    let settings = std::iter::once(None).chain(by.without.iter().cloned().map(Some));
    let measured = settings.map(|without| {
        let sets: Vec<_> = by.sets.iter().chain(&without).cloned().collect();
        let runs = (0..by.repeat.max(1)).map(|_| run(&job, &folder.path().join("out"), &sets));
        let (mut best, mut most): (Option<(Run, f64)>, Option<u64>) = (None, None);
        for (manifest, seconds, peak) in runs {
            eprintln!("  {seconds:.2} s");
            most = most.max(peak);
            if best.as_ref().is_none_or(|(_, least)| seconds < *least) {
                best = Some((manifest, seconds));
            }
        }
        let (manifest, seconds) = best.unwrap();
        Measured { kind, documents, without, manifest, seconds, peak: most }
    });
    measured.collect()
}

/// Runs the job in a process. Returns the manifest of the output, and the seconds and the peak memory of the process.
fn run(job: &Path, out: &Path, sets: &[String]) -> (Run, f64, Option<u64>) {
    if out.exists() {
        std::fs::remove_dir_all(out).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_resemblance"));
    command.arg("run").arg(job).arg("--quiet").args(["--top", "0"]).stdout(Stdio::null());
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = Path::new("/proc").join(child.id().to_string()).join("status");
    let (ended, wait) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        let seconds = start.elapsed().as_secs_f64();
        // Sending fails only if the measurement has already failed.
        let _ = ended.send(());
        (status, seconds)
    });
    let mut peak = None;
    while wait.recv_timeout(Duration::from_millis(10)) == Err(mpsc::RecvTimeoutError::Timeout) {
        peak = peak.max(high_water_mark(&status));
    }
    let (status, seconds) = waiter.join().unwrap();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "the job failed: {status:?}");
    let manifest = std::fs::read(out.join("manifest.json")).unwrap();
    (serde_json::from_slice(&manifest).unwrap(), seconds, peak)
}

/// Returns the peak memory of a running process in bytes. Only Linux reports it. `status` is the path of the process's status file.
fn high_water_mark(status: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Returns a table with a row for each stage and corpus size, and for all stages together.
fn by_stage(measured: &[&Measured]) -> String {
    let all = |m: &Measured| {
        let seconds = m.manifest.stages.iter().map(|stage| stage.seconds).sum();
        let bytes = m.manifest.stages.iter().map(|stage| stage.bytes).sum();
        StageTime { name: "all stages".into(), seconds, rows: m.documents, bytes, join: None }
    };
    let stages = |m: &&Measured| m.manifest.stages.iter().cloned().chain([all(m)]).collect::<Vec<_>>();
    let stages: Vec<_> = measured.iter().map(stages).collect();
    let mut table = String::from(
        "| stage | documents | rows written | seconds | µs per document | times the size before |\n|---|---:|---:|---:|---:|---:|\n",
    );
    // The stages depend only on the settings, so all sizes have the same stages.
    for stage in 0..stages.iter().map(Vec::len).min().unwrap_or(0) {
        let mut before = None;
        for (m, stages) in measured.iter().zip(&stages) {
            let StageTime { name, seconds, rows, .. } = &stages[stage];
            let each = 1e6 * seconds / m.documents as f64;
            let times = before.map_or_else(String::new, |before: f64| format!("{:.2}", each / before));
            let documents = m.documents;
            let _ = writeln!(table, "| {name} | {documents} | {rows} | {seconds:.3} | {each:.2} | {times} |");
            before = Some(each);
        }
    }
    table
}

/// Returns a table with a row for each run with all mechanisms.
fn wholes(measured: &[Measured]) -> String {
    let mut table = String::from(
        "| corpus | documents | candidates | pairs written | seconds | µs per document and pair | times the even one's | peak MiB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let each = |m: &Measured| 1e6 * m.seconds / (m.documents + m.manifest.counts.pairs) as f64;
    for m in measured.iter().filter(|m| m.without.is_none()) {
        let even = measured
            .iter()
            .find(|e| e.kind == Kind::Even && e.documents == m.documents && e.without.is_none());
        let times = even.map_or_else(String::new, |even| format!("{:.2}", each(m) / each(even)));
        let peak = m.peak.map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string());
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.2} | {:.2} | {times} | {peak} |",
            name(m.kind),
            m.documents,
            m.manifest.counts.candidates.unwrap_or(0),
            m.manifest.counts.pairs,
            m.seconds,
            each(m),
        );
    }
    table
}

/// Returns a table with a row for each run. For runs without a mechanism, it also says how many times as much they write as the run with
/// all mechanisms.
fn with_and_without(measured: &[Measured]) -> String {
    let mut table = String::from(
        "| corpus | documents | without | candidates | times | pairs | times | MiB of tables | times |\n\
         |---|---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let numbers = |m: &Measured| {
        let bytes: u64 = m.manifest.files().map(|file| file.bytes).sum();
        let counts = &m.manifest.counts;
        [counts.candidates.unwrap_or(0) as f64, counts.pairs as f64, bytes as f64 / f64::from(1 << 20)]
    };
    let mut with = [0.0; 3];
    for m in measured {
        let numbers = numbers(m);
        if m.without.is_none() {
            with = numbers;
        }
        let [candidates, pairs, bytes] = numbers;
        let [c, p, b] = [0, 1, 2].map(|at| numbers[at] / with[at].max(1.0));
        let (corpus, documents, without) = (name(m.kind), m.documents, m.without.as_deref().unwrap_or("-"));
        let _ = writeln!(
            table,
            "| {corpus} | {documents} | {without} | {candidates} | {c:.2} | {pairs} | {p:.2} | {bytes:.2} | {b:.2} |"
        );
    }
    table
}
