//! The plan of every step, as approved text under `tests/plans/`: a join that begins to hold a side shows in review.
//!
//! Plans are those of data that no task can hold: nothing is small enough to be held whole, and rows are divided among four
//! partitions. `RESEMBLANCE_APPROVE_PLANS=1` writes the texts anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use resemblance::engine::{Engine, Local, Watch, session};
use resemblance::error::Result;
use resemblance::pipeline::{self, Existing};
use resemblance::sink::manifest::File;
use tempfile::tempdir;

use crate::support::*;

/// Keeps the plans that it runs.
struct Recording {
    engine: Local,
    plans: Mutex<BTreeMap<String, String>>,
}

#[async_trait]
impl Engine for Recording {
    fn session(&self) -> &SessionContext {
        self.engine.session()
    }

    fn partitions(&self, bytes: u64) -> usize {
        // A step that shuffles nothing has a partition for each thread.
        if bytes > 0 { 4 } else { 2 }
    }

    fn bucket_bytes(&self) -> u64 {
        self.engine.bucket_bytes()
    }

    async fn run(&self, step: &str, plan: Arc<dyn ExecutionPlan>, watch: &Watch) -> Result<Vec<File>> {
        let text = displayable(plan.as_ref()).indent(false).to_string();
        self.plans.lock().unwrap().insert(step.to_owned(), text);
        self.engine.run(step, plan, watch).await
    }
}

/// What is the same in every run of a plan.
fn normalized(plan: &str) -> String {
    let files = regex::Regex::new(r"file_groups=\{[^}]*\}").unwrap();
    let sizes = regex::Regex::new(r"partition_sizes=\[[^\]]*\]").unwrap();
    sizes.replace_all(&files.replace_all(plan, "file_groups={..}"), "partition_sizes=[..]").into_owned()
}

fn plans(name: &str, sets: &[&str]) {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(3, 300, 40), 50);
    let sets = [&["engine.threads=2", "engine.memory=1GiB"], sets].concat();
    let job = job(&input, &folder.path().join("out"), &sets);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let plans = runtime.block_on(async {
        let mut state = session::session(&job.engine).unwrap().state();
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold = 0;
        optimizer.hash_join_single_partition_threshold_rows = 0;
        let engine = Local::new(SessionContext::new_with_state(state));
        let engine = Recording { engine, plans: Mutex::default() };
        pipeline::run(&job, &engine, &Watch::nobody(), Existing::Keep).await.unwrap();
        engine.plans.into_inner().unwrap()
    });
    // Components are found in this process, from rows that it holds.
    let steps = pipeline::Step::of(&job).into_iter().filter(|step| *step != pipeline::Step::Components);
    for step in steps {
        assert!(plans.contains_key(step.name().as_ref()), "{step} is not among {:?}", plans.keys());
    }
    // Rounds after the second have the same plans.
    let later = regex::Regex::new("_[3-9]$").unwrap();
    for (step, plan) in plans.into_iter().filter(|(step, _)| !later.is_match(step)) {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plans/{name}/{step}.txt"));
        let found = normalized(&plan);
        if std::env::var_os("RESEMBLANCE_APPROVE_PLANS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &found).unwrap();
        }
        let approved = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, approved, "the plan of {step} is not that of {}", file.display());
    }
}

#[test]
fn of_lsh() {
    plans("lsh", &["lsh.hot_bucket=3", "source.duplicate_ids=reject"]);
}

#[test]
fn of_a_prefix_join_over_a_dictionary() {
    plans("prefix", &["candidates.method=prefix", "shingle.hash=dictionary"]);
}

#[test]
fn of_dense_groups() {
    plans("dense", &["lsh.hot_bucket=3", "output.max_expand=3"]);
}

#[test]
fn of_all_pairs() {
    plans("all", &["candidates.method=all"]);
}
