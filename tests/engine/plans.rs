//! The plans of all stages. Properties hold for each: nothing is joined, sorted or aggregated as a whole. Those that show a shape
//! of their own are approved as text under `tests/engine/plans/`; for a cluster, `tests/engine/plans/cluster/` has the query stages into which
//! a scheduler cuts them.
//!
//! Plans are made as for data larger than a task: nothing is small enough to be held whole, and rows are divided among four
//! partitions. `RESEMBLANCE_APPROVE_PLANS=1` writes the texts again.

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_scheduler::planner::{DefaultDistributedPlanner, DistributedPlanner};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, displayable};
use resemblance::engine::ClusterEngine;
use resemblance::error::Result;
use resemblance::output::manifest::File;

use crate::support::*;

/// Keeps the plans that another engine has made, and runs them in this process.
struct Recording {
    local: Local,
    show: Show,
    plans: Mutex<BTreeMap<String, Planned>>,
}

impl Recording {
    /// Adds a plan of a stage, which can have several.
    fn record(&self, stage: &str, text: String, unbounded: Vec<String>) {
        let mut plans = self.plans.lock().unwrap();
        let planned = plans.entry(stage.to_owned()).or_default();
        planned.text += &text;
        planned.unbounded.extend(unbounded);
    }
}

#[derive(Default)]
struct Planned {
    text: String,
    /// The nodes that break a rule for all plans.
    unbounded: Vec<String>,
}

type Show = fn(Arc<dyn ExecutionPlan>, &SessionConfig) -> String;

#[async_trait]
impl Hook for Recording {
    fn partitions(&self, engine: &dyn Engine, bytes: u64) -> usize {
        // A stage that shuffles nothing has a partition for each thread, or for each task of a cluster.
        if bytes > 0 { 4 } else { engine.partitions(0) }
    }

    fn runner<'a>(&'a self, _: &'a dyn Engine) -> &'a dyn Engine {
        &self.local
    }

    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        let mut unbounded = Vec::new();
        find_unbounded(&call.plan, call.stage, &mut unbounded);
        let text = (self.show)(Arc::clone(&call.plan), call.config);
        self.record(call.stage, text, unbounded);
        call.run_on(engine).await
    }
}

/// Finds the nodes for which a task would need a whole table: joins that hold a side, sorts and aggregates of all rows at once.
/// Rows are exchanged by the hash of a key.
fn find_unbounded(node: &Arc<dyn ExecutionPlan>, stage: &str, found: &mut Vec<String>) {
    let is_bounded = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.partition_mode() == PartitionMode::Partitioned
    } else if let Some(sort) = node.downcast_ref::<SortExec>() {
        sort.preserve_partitioning()
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        // Without groups, there is one row.
        aggregate.group_expr().is_empty()
            || matches!(
                aggregate.mode(),
                AggregateMode::Partial | AggregateMode::FinalPartitioned | AggregateMode::SinglePartitioned
            )
    } else if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        // Scans and numbered rows may go to idle threads first.
        matches!(exchange.partitioning(), Partitioning::Hash(..))
            || exchange.input().children().is_empty()
            || stage == ORDERED
    } else {
        match node.name() {
            "CrossJoinExec" | "NestedLoopJoinExec" | "WindowAggExec" => false,
            "SortPreservingMergeExec" => stage == ORDERED,
            _ => true,
        }
    };
    if !is_bounded {
        found.push(displayable(node.as_ref()).one_line().to_string());
    }
    node.children().into_iter().for_each(|child| find_unbounded(child, stage, found));
}

/// The only stage that brings all rows into one order: it numbers the shingles.
const ORDERED: &str = "dictionary";

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

/// The part of a plan that is the same in every run.
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

/// The engine of a cluster whose scheduler reports one executor. Its tasks have so little memory that nothing is small.
async fn cluster(job: &Job) -> Box<dyn Engine> {
    let executors = r#"[{"id": "executor-0-1x64", "last_seen": 1}]"#;
    let routes =
        axum::Router::new().route("/api/executors", axum::routing::get(move || async move { executors }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scheduler = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Box::new(ClusterEngine::connect(&job.engine, &scheduler, &RunControl::detached()).await.unwrap())
}

/// Plans the stages of a job in this process and for a cluster. `approved` names those whose text is approved: of a stage here, or
/// with `cluster/` before it, of the query stages of a cluster.
fn plans(name: &str, sets: &[&str], approved: &[&str]) {
    let sets = [&["engine.threads=2", "engine.memory=1GiB"], sets].concat();
    let here = planned(&sets, local, whole);
    let sets = [&sets[..], &["engine.mode=cluster", "engine.scheduler=df://127.0.0.1:1"]].concat();
    let cluster = planned(&sets, cluster, query_stages);
    for (stage, plan) in here.iter().chain(&cluster) {
        assert!(plan.unbounded.is_empty(), "{stage}: {:#?}\n{}", plan.unbounded, plan.text);
    }
    for path in approved {
        let (plans, folder, stage) = match path.strip_prefix("cluster/") {
            Some(stage) => (&cluster, format!("cluster/{name}"), stage),
            None => (&here, name.to_owned(), *path),
        };
        let file = repository("tests/engine/plans").join(folder).join(format!("{stage}.txt"));
        let found = normalized(&plans[stage].text);
        if std::env::var_os("RESEMBLANCE_APPROVE_PLANS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &found).unwrap();
        }
        let approved = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, approved, "the plan of {stage} differs from {}", file.display());
    }
}

fn planned(
    sets: &[&str],
    engine: impl AsyncFn(&Job) -> Box<dyn Engine>,
    show: Show,
) -> BTreeMap<String, Planned> {
    let path = paths();
    let input = path("in.parquet");
    write_parquet(&input, &corpus(3, 300, 40), 50);
    let job = job(&input, &path("out"), sets);
    let plans = block_on(async {
        let planner = engine(&job).await;
        let local = Local::new(planner.session().clone());
        let hook = Recording { local, show, plans: Mutex::default() };
        let engine = Around { engine: planner, hook };
        pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Fail).await.unwrap();
        engine.hook.plans.into_inner().unwrap()
    });
    // This process may run stages that read rows in memory or small tables.
    let is_planned = |name: &str| !["components", "totals"].contains(&name);
    let stages = pipeline::stage::describe(&job).into_iter().filter(|stage| is_planned(&stage.name));
    for stage in stages {
        assert!(plans.contains_key(&stage.name), "{} is not among {:?}", stage.name, plans.keys());
    }
    plans
}

#[test]
fn plan_of_lsh() {
    let sets = ["lsh.hot_bucket=3", "source.duplicate_ids=reject"];
    let on_a_cluster = ["sketches", "candidates", "scores", "pairs", "represented", "clusters"];
    let on_a_cluster = on_a_cluster.map(|stage| format!("cluster/{stage}"));
    let approved = ["duplicates", "scores"].into_iter().chain(on_a_cluster.iter().map(String::as_str));
    plans("lsh", &sets, &approved.collect::<Vec<_>>());
}

#[test]
fn plan_of_a_prefix_join_over_a_dictionary() {
    let approved = ["dictionary", "cluster/dictionary", "cluster/candidates", "cluster/scores"];
    plans("prefix", &["candidates.method=prefix", "shingle.hash=dictionary"], &approved);
}

#[test]
fn plan_of_dense_groups() {
    let approved = ["leaders_2", "cluster/leaders_2", "cluster/dense_candidates"];
    plans("dense", &["lsh.hot_bucket=3", "output.max_expand=3"], &approved);
}

#[test]
fn plan_of_all_pairs() {
    plans("all", &["candidates.method=all"], &["scores"]);
}

#[test]
fn every_approved_plan_is_compared() {
    let texts = files(&repository("tests/engine/plans")).len();
    assert_eq!(texts, 16, "a text under tests/engine/plans/ belongs to no test");
}

#[test]
fn a_plan_that_needs_a_whole_table_is_found() {
    let [a, b] = ["(VALUES (1), (2)) a(x)", "(VALUES (1), (2)) b(y)"];
    for query in [
        format!("SELECT x, y FROM {a} CROSS JOIN {b}"),
        format!("SELECT x, y FROM {a} JOIN {b} ON x < y"),
        format!("SELECT x, count(*) FROM {a} CROSS JOIN {b} GROUP BY x"),
        format!("SELECT x FROM {a} ORDER BY x"),
        format!("SELECT x, sum(x) OVER () FROM {a}"),
    ] {
        let mut found = Vec::new();
        let plan = block_on(async {
            SessionContext::new().sql(&query).await.unwrap().create_physical_plan().await.unwrap()
        });
        find_unbounded(&plan, "any", &mut found);
        assert!(!found.is_empty(), "{query}: {}", displayable(plan.as_ref()).indent(false));
    }
}
