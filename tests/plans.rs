//! The plan of every step, as approved text under `tests/plans/`: a join that begins to hold a side shows in review. For a
//! cluster, `tests/plans/cluster/` has the query stages into which a scheduler cuts it.
//!
//! Plans are those of data that no task can hold: nothing is small enough to be held whole, and rows are divided among four
//! partitions. `RESEMBLANCE_APPROVE_PLANS=1` writes the texts anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_scheduler::planner::{DefaultDistributedPlanner, DistributedPlanner};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use resemblance::engine::{Cluster, Engine, Local, RunControl, session};
use resemblance::error::Result;
use resemblance::job::Job;
use resemblance::output::manifest::File;
use resemblance::pipeline::{self, OnExisting};
use tempfile::tempdir;

use crate::support::around::{Around, Call, Hook};
use crate::support::*;

/// Keeps the plans that another engine has made, and runs them in this process.
struct Recording {
    local: Local,
    show: Show,
    plans: Mutex<BTreeMap<String, String>>,
}

/// A plan as text.
type Show = fn(Arc<dyn ExecutionPlan>, &SessionConfig) -> String;

#[async_trait]
impl Hook for Recording {
    fn partitions(&self, engine: &dyn Engine, bytes: u64) -> usize {
        // A step that shuffles nothing has a partition for each thread, or for each task of a cluster.
        if bytes > 0 { 4 } else { engine.partitions(0) }
    }

    fn runner<'a>(&'a self, _: &'a dyn Engine) -> &'a dyn Engine {
        &self.local
    }

    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        let text = (self.show)(Arc::clone(&call.plan), call.config);
        self.plans.lock().unwrap().insert(call.step.to_owned(), text);
        call.run_on(engine).await
    }
}

fn whole(plan: Arc<dyn ExecutionPlan>, _config: &SessionConfig) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The query stages into which a scheduler cuts the plan.
fn query_stages(plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> String {
    let plan = Arc::new(CoalescePartitionsExec::new(plan));
    let mut planner = DefaultDistributedPlanner::new();
    let stages = planner.plan_query_stages(&JobId::from("job"), plan, config.options()).unwrap();
    let stages = stages.iter().map(|stage| {
        format!("query stage {}\n{}", stage.stage_id(), displayable(stage.as_ref()).indent(false))
    });
    stages.collect::<Vec<_>>().join("\n")
}

/// What is the same in every run of a plan.
fn normalized(plan: &str) -> String {
    let files = regex::Regex::new(r"file_groups=\{[^}]*\}").unwrap();
    let sizes = regex::Regex::new(r"partition_sizes=\[[^\]]*\]").unwrap();
    sizes.replace_all(&files.replace_all(plan, "file_groups={..}"), "partition_sizes=[..]").into_owned()
}

/// The engine of this process, which takes nothing to be small.
async fn local(job: &Job) -> Box<dyn Engine> {
    let session = session::session(&job.engine).unwrap();
    let state = SessionStateBuilder::new_from_existing(session.state());
    let config = session::hold_no_side(session.copied_config());
    Box::new(Local::new(SessionContext::new_with_state(state.with_config(config).build())))
}

/// The engine of a cluster of one executor, of which only its scheduler tells. Its tasks have so little memory that nothing is
/// small.
async fn cluster(job: &Job) -> Box<dyn Engine> {
    let executors = r#"[{"id": "executor-0-1x64", "last_seen": 1}]"#;
    let routes =
        axum::Router::new().route("/api/executors", axum::routing::get(move || async move { executors }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scheduler = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let settings = job.engine.cluster.clone().unwrap();
    let cluster = resemblance::job::Cluster { scheduler, ..settings };
    Box::new(Cluster::connect(&job.engine, &cluster, &RunControl::detached()).await.unwrap())
}

fn plans(name: &str, sets: &[&str]) {
    let approved = |what: &str| format!("{what}{name}");
    let sets = [&["engine.threads=2", "engine.memory=1GiB"], sets].concat();
    compare(&approved(""), &sets, local, whole);
    let sets = [&sets[..], &["engine.mode=cluster", "engine.scheduler=df://127.0.0.1:1"]].concat();
    compare(&approved("cluster/"), &sets, cluster, query_stages);
}

/// Holds the plans of a job against those of a folder.
fn compare(name: &str, sets: &[&str], engine: impl AsyncFn(&Job) -> Box<dyn Engine>, show: Show) {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(3, 300, 40), 50);
    let job = job(&input, &folder.path().join("out"), sets);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let plans = runtime.block_on(async {
        let planner = engine(&job).await;
        let local = Local::new(planner.session().clone());
        let hook = Recording { local, show, plans: Mutex::default() };
        let engine = Around { engine: planner, hook };
        pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Fail).await.unwrap();
        engine.hook.plans.into_inner().unwrap()
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
