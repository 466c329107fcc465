//! A result whose files are written more than once: by two tasks at the same moment, by an attempt with other memory, and by one
//! after which another program wrote.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::BinaryArray;
use async_trait::async_trait;
use resemblance::apply::{self, ApplySettings, Opened};
use resemblance::error::{Error, Result as OurResult};
use resemblance::output::manifest::File;

use super::*;

enum What {
    /// It runs twice at the same time, as where a stage is submitted again whose tasks still run.
    Twice,
    /// It runs, and the process dies before it recorded what it wrote.
    Dies,
}

struct Rewrites {
    what: What,
    to: PathBuf,
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
        match self.what {
            What::Twice => {
                let (first, second) = futures::join!(run(), run());
                first.and(second)
            }
            What::Dies => {
                run().await?;
                for entry in std::fs::read_dir(self.to.join("_resemblance/_work/parts")).unwrap() {
                    std::fs::remove_file(entry.unwrap().path()).unwrap();
                }
                Err(Error::engine("the process dies"))
            }
        }
    }
}

fn apply_with(applied: &Applied, what: What, memory: u64) -> (OurResult<apply::ApplyOutcome>, usize) {
    let [from, to] = ["out", "to"].map(|name| applied.path(name).display().to_string());
    block_on(async {
        let inside = Local::new(session::session(&job::EngineSettings::local(memory)).unwrap());
        let hook = Rewrites { what, to: applied.path("to"), plans: AtomicUsize::new(0) };
        let engine = Around { engine: Box::new(inside), hook };
        let opened = Opened::open(engine.session(), &from, Vec::new(), ApplySettings::default()).await;
        let ended = apply::apply(&engine, opened.unwrap(), &to, &RunControl::detached()).await;
        (ended, engine.hook.plans.load(Ordering::Relaxed))
    })
}

#[test]
fn a_stage_that_is_submitted_again_while_its_tasks_run_gives_the_same_files() {
    let applied = Applied::of_texts(&corpus(71, 400, 8));
    applied.apply("once", &[]);
    let (ended, plans) = apply_with(&applied, What::Twice, 1 << 30);
    assert_eq!((ended.unwrap().already_finished, plans), (false, 2));
    assert_eq!(result(&applied.path("to"))["files"], result(&applied.path("once"))["files"]);
    assert_eq!(kept(&applied.path("to")), kept(&applied.path("once")));
}

#[test]
fn a_killed_attempt_goes_on_with_other_memory() {
    let applied = Applied::new();
    // Bytes in which there is nothing to compress, in one row group of 12 MiB.
    let mut random = Random(72);
    let bytes = (0..240).map(|_| (0..6_400).flat_map(|_| random.next().to_le_bytes()).collect::<Vec<u8>>());
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(bytes));
    write_columns(&applied.path("in/a.parquet"), &corpus(72, 240, 12), vec![("bytes", bytes)], 1_000);
    applied.run("parquet", COLUMNS);
    let (died, _) = apply_with(&applied, What::Dies, 4 << 30);
    assert!(died.unwrap_err().to_string().contains("dies"));
    let written = kept(&applied.path("to"));
    assert_eq!(written.len(), 1);
    applied.apply("to", &["--memory", "64MiB"]);
    result(&applied.path("to"));
    assert_eq!(kept(&applied.path("to")), written);
}

#[test]
fn a_log_that_something_follows_is_not_begun_anew() {
    let applied = Applied::of_rows(&corpus(73, 60, 15));
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
        write_file(&applied.folder, "to/_resemblance/_work/apply.json", begun);
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

fn result_of_delta(to: &Path) -> Value {
    for folder in ["", "_resemblance/removed"] {
        assert!(!Table::read(&to.join(folder)).batches().is_empty());
    }
    manifest_of(to)
}

/// Files that killed attempts left in `removed/` are cleaned up, and a foreign copy stays.
#[test]
fn only_leftovers_of_attempts_leave_the_removed_table() {
    let applied = Applied::of_rows(&corpus(74, 60, 15));
    applied.apply("once", &[]);
    assert!(apply_with(&applied, What::Dies, 1 << 30).0.is_err());
    // The stage that wrote the table did not end either.
    let work = applied.path("to/_resemblance/_work");
    let of_stage = files(&work).into_keys().find(|path| path.starts_with("removed."));
    std::fs::remove_file(work.join(of_stage.unwrap())).unwrap();
    let (removed, once) =
        (applied.path("to/_resemblance/removed"), applied.path("once/_resemblance/removed"));
    let left: Vec<String> = files(&removed).into_keys().collect();
    let other = files(&once).into_keys().next().unwrap();
    let mine = [format!("backup/{}", left[0]), other.clone(), format!("{}.bak", left[0])];
    std::fs::create_dir(removed.join("backup")).unwrap();
    std::fs::copy(removed.join(&left[0]), removed.join(&mine[0])).unwrap();
    std::fs::copy(once.join(other), removed.join(&mine[1])).unwrap();
    std::fs::write(removed.join(&mine[2]), "mine").unwrap();
    applied.apply("to", &[]);
    let there = files(&removed);
    assert!(mine.iter().all(|name| there.contains_key(name)), "{:?}", there.keys());
    assert!(left.iter().all(|name| !there.contains_key(name)), "{:?}", there.keys());
}
