//! A result whose files are written more than once: by two tasks at the same moment, by an attempt with other memory, and by one
//! after which another program wrote.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::BinaryArray;
use async_trait::async_trait;
use resemblance::apply::{self, ApplySettings, Opened};
use resemblance::error::{Error, Result as OurResult};
use resemblance::output::manifest::File;

use super::*;

/// The fault of the plan that writes the files.
enum What {
    /// It runs twice at the same time, as where a stage is submitted again whose tasks still run.
    Twice,
    /// It runs, and the process dies before it recorded what it wrote.
    Dies(PathBuf),
}

struct Rewrites {
    what: What,
    plans: AtomicUsize,
}

#[async_trait]
impl Hook for Rewrites {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> OurResult<Vec<File>> {
        if call.stage != "rewrite" {
            return call.run_on(engine).await;
        }
        let run = || {
            self.plans.fetch_add(1, Ordering::Relaxed);
            engine.run(call.stage, call.plan.clone(), call.config, call.control)
        };
        match &self.what {
            What::Twice => {
                let (first, second) = futures::join!(run(), run());
                first.and(second)
            }
            What::Dies(to) => {
                run().await?;
                for entry in std::fs::read_dir(to.join("_resemblance/_work/parts")).unwrap() {
                    std::fs::remove_file(entry.unwrap().path()).unwrap();
                }
                Err(Error::engine("the process dies"))
            }
        }
    }
}

/// Applies the output `from` in this process, with so much memory.
fn apply_with(from: &str, to: &str, what: What, memory: u64) -> (OurResult<apply::ApplyOutcome>, usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let inside = Local::new(session::session(&job::EngineSettings::local(memory)).unwrap());
        let hook = Rewrites { what, plans: AtomicUsize::new(0) };
        let engine = Around { engine: Box::new(inside), hook };
        let opened =
            Opened::open(engine.session(), from, Vec::new(), ApplySettings::default()).await.unwrap();
        let control = RunControl::detached();
        let ended = apply::apply(&engine, opened, to, &control).await;
        (ended, engine.hook.plans.load(Ordering::Relaxed))
    })
}

#[test]
fn a_stage_that_is_submitted_again_while_its_tasks_run_gives_the_same_files() {
    let applied = Applied::new();
    for (id, text) in corpus(71, 400, 8) {
        applied.put(&format!("{id}.txt"), text);
    }
    applied.run("text", "");
    applied.apply("once", &[]);
    let path = |name: &str| applied.path(name).display().to_string();
    let (ended, plans) = apply_with(&path("out"), &path("to"), What::Twice, 1 << 30);
    assert_eq!((ended.unwrap().already_finished, plans), (false, 2));
    assert_eq!(result(&applied.path("to"))["files"], result(&applied.path("once"))["files"]);
    assert_eq!(kept(&applied.path("to")), kept(&applied.path("once")));
}

/// Documents with a column of bytes in which there is nothing to compress: one row group of 12 MiB.
fn large(path: &Path) {
    let documents = corpus(72, 240, 12);
    let mut random = Random(72);
    let bytes: Vec<Vec<u8>> =
        (0..240).map(|_| (0..6_400).flat_map(|_| random.next().to_le_bytes()).collect()).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.0)))),
        ("text", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.1)))),
        ("bytes", Arc::new(BinaryArray::from_iter_values(bytes))),
    ];
    let batch = RecordBatch::try_from_iter(columns);
    write_batch(path, &batch.unwrap(), 1_000);
}

#[test]
fn a_killed_attempt_goes_on_with_other_memory() {
    let applied = Applied::new();
    large(&applied.path("in/a.parquet"));
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    let path = |name: &str| applied.path(name).display().to_string();
    let (died, _) = apply_with(&path("out"), &path("to"), What::Dies(applied.path("to")), 4 << 30);
    assert!(died.unwrap_err().to_string().contains("dies"));
    let written = kept(&applied.path("to"));
    assert_eq!(written.len(), 1);
    applied.apply("to", &["--memory", "64MiB"]);
    result(&applied.path("to"));
    assert_eq!(kept(&applied.path("to")), written);
}

#[test]
fn a_log_that_something_follows_is_not_begun_anew() {
    let applied = Applied::new();
    write_parquet(&applied.path("in/a.parquet"), &corpus(73, 60, 15), 30);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    let delta = ["--tables", "delta"];
    applied.apply("to", &delta);
    let manifest = result_of_delta(&applied.path("to"));
    // The state after a kill between the logs and the manifest.
    let half = || {
        let begun = format!(
            "{{\n  \"fingerprint\": {},\n  \"output\": {}\n}}\n",
            manifest["fingerprint"], manifest["output"]
        );
        std::fs::remove_file(applied.path("to/_resemblance/manifest.json")).unwrap();
        std::fs::create_dir(applied.path("to/_resemblance/_work")).unwrap();
        std::fs::write(applied.path("to/_resemblance/_work/apply.json"), begun).unwrap();
    };
    half();
    applied.apply("to", &delta);
    assert_eq!(result_of_delta(&applied.path("to"))["files"], manifest["files"]);
    // Another program wrote to the table meanwhile.
    half();
    let log = applied.path("to/_delta_log");
    std::fs::write(log.join("00000000000000000001.json"), "{\"txn\":{\"appId\":\"other\",\"version\":7}}\n")
        .unwrap();
    let before = files(&log);
    let said = ["_delta_log/00000000000000000001.json was not written by this program"];
    applied.refused("to", &delta, 3, &said);
    assert_eq!(files(&log), before);
    assert!(!applied.path("to/_resemblance/manifest.json").exists());
}

/// The manifest of a result whose folders are Delta tables: every `add` of the logs is there.
fn result_of_delta(to: &Path) -> Value {
    for folder in ["", "_resemblance/removed"] {
        assert!(!Table::read(&to.join(folder)).batches().is_empty());
    }
    serde_json::from_slice(&std::fs::read(to.join("_resemblance/manifest.json")).unwrap()).unwrap()
}

/// Files that killed attempts left in `removed/` are cleaned up, and a foreign copy stays.
#[test]
fn only_leftovers_of_attempts_leave_the_removed_table() {
    let applied = Applied::new();
    write_parquet(&applied.path("in/a.parquet"), &corpus(74, 60, 15), 30);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    applied.apply("once", &[]);
    let path = |name: &str| applied.path(name).display().to_string();
    let (died, _) = apply_with(&path("out"), &path("to"), What::Dies(applied.path("to")), 1 << 30);
    assert!(died.is_err());
    // The stage that wrote the table did not end either.
    let of_stage = |path: &PathBuf| path.to_str().unwrap().contains("_work/removed.");
    let there: Vec<PathBuf> = files(&applied.path("to/_resemblance/_work"))
        .into_keys()
        .map(|inside| applied.path("to/_resemblance/_work").join(inside))
        .collect();
    std::fs::remove_file(there.iter().find(|path| of_stage(path)).unwrap()).unwrap();
    let left: Vec<String> = files(&applied.path("to/_resemblance/removed")).into_keys().collect();
    let other = files(&applied.path("once/_resemblance/removed")).into_keys().next().unwrap();
    let mine = [format!("backup/{}", left[0]), other.clone(), format!("{}.bak", left[0])];
    for (from, to) in [
        (format!("to/_resemblance/removed/{}", left[0]), &mine[0]),
        (format!("once/_resemblance/removed/{other}"), &mine[1]),
    ] {
        std::fs::create_dir_all(applied.path("to/_resemblance/removed/backup")).unwrap();
        std::fs::copy(applied.path(&from), applied.path("to/_resemblance/removed").join(to)).unwrap();
    }
    std::fs::write(applied.path("to/_resemblance/removed").join(&mine[2]), "mine").unwrap();
    applied.apply("to", &[]);
    let there = files(&applied.path("to/_resemblance/removed"));
    assert!(mine.iter().all(|name| there.contains_key(name)), "{:?}", there.keys());
    assert!(left.iter().all(|name| !there.contains_key(name)), "{:?}", there.keys());
}

/// In a bucket too, unrecorded files equal the files of the next attempt, or they are refused.
#[test]
fn a_file_of_somebody_else_in_a_bucket_is_not_replaced() {
    let s3 = S3::start();
    let lines: String = corpus(75, 60, 12).iter().map(|(id, text)| format!("{id},{text}\n")).collect();
    s3.put("in/a.csv", format!("id,text\n{lines}"));
    let folder = tempdir().unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(&job, job_text_of("csv", s3.url("in/"), s3.url("out/"))).unwrap();
    resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
    let (from, to) = (s3.url("out"), s3.url("to"));
    let apply = || resemblance().envs(s3.env()).args(["apply", &from, "--to", &to]).assert();
    // It comes between the look at the name and the put.
    let fault = Fault::Put("to/a.csv".into(), b"mine".to_vec());
    std::fs::create_dir_all(s3.file("to")).unwrap();
    s3.faults.add("PUT /data/to/a.csv", 1, fault);
    apply().refused(3, &["a.csv is there already and holds other bytes"]);
    assert_eq!((s3.faults.left(), std::fs::read(s3.file("to/a.csv")).unwrap()), (0, b"mine".to_vec()));
    std::fs::remove_file(s3.file("to/a.csv")).unwrap();
    apply().success();
    result(&s3.file("to"));
}
