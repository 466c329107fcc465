//! Connected components in rounds of large-star and small-star. Random cases are in `brute_force`.

use arrow::array::UInt64Array;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::displayable;
use datafusion::prelude::DataFrame;
use resemblance::frames::components::{large_star, small_star};

use crate::support::stopping::run_until_on;
use crate::support::*;

fn context(threads: usize) -> SessionContext {
    session::session(&EngineSettings { threads, ..EngineSettings::local(1 << 30) }).unwrap()
}

/// A frame of two columns, its rows spread over two partitions.
fn frame(context: &SessionContext, names: [&str; 2], rows: &[(u64, u64)]) -> DataFrame {
    let schema = Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::UInt64, false)).to_vec()));
    let halves = rows.split_at(rows.len() / 2);
    let batches = [halves.0, halves.1].map(|rows| {
        let column =
            |of: fn(&(u64, u64)) -> u64| Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)));
        let columns: Vec<ArrayRef> = vec![column(|row| row.0), column(|row| row.1)];
        vec![RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()]
    });
    context.read_table(Arc::new(MemTable::try_new(schema, batches.to_vec()).unwrap())).unwrap()
}

/// No join holds a side whole, nor a partition of it: not on one thread either, where the engine would hold the left one.
#[test]
fn both_operations_join_by_sorting_in_partitions() {
    for threads in [1, 4] {
        for star in [large_star as fn(DataFrame) -> _, small_star] {
            let frame = star(frame(&context(threads), ["high", "low"], &[(2, 1), (3, 1)])).unwrap();
            let plan = block_on(frame.create_physical_plan()).unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            // The right side, which is gone through, is that of the edges.
            assert!(shown.contains("SortMergeJoinExec: join_type=Right"), "{shown}");
            for held in
                ["HashJoin", "CollectLeft", "CrossJoin", "NestedLoop", "Window", "SortPreservingMerge"]
            {
                assert!(!shown.contains(held), "{held} in {shown}");
            }
            let (_, join) = shown.split_once("SortMergeJoinExec").unwrap();
            let (least, edges) = join.split_at(join.rfind("SortExec").unwrap());
            assert!(least.contains("AggregateExec") && !edges.contains("AggregateExec"), "{shown}");
        }
    }
}

/// Documents that are windows of one long text: each is similar to those near it, and all are one chain.
fn chained(count: usize) -> Vec<Document> {
    let word = |n: usize| format!("w{n}");
    let window = |i: usize| (8 * i..8 * i + 40).map(word).collect::<Vec<_>>().join(" ");
    let mut documents: Vec<_> = (0..count).map(|i| (format!("d{i:04}"), window(i))).collect();
    documents.extend(corpus(5, 20, 30).into_iter().map(|(id, text)| (format!("x{id}"), text)));
    documents
}

struct Chained {
    scene: Scene,
}

has_a_scene!(Chained);

impl Chained {
    fn new() -> Self {
        let scene = Scene::new(&[]);
        scene.write("in.parquet", &chained(50));
        Self { scene }
    }

    fn output(&self, name: &str) -> PathBuf {
        self.path(name)
    }

    /// Runs with `room` bytes for the union-find until the engine's `at`th plan.
    fn run(&self, name: &str, room: usize, at: usize) {
        let job = self.scene.job("in.parquet", name, &["engine.threads=1"]);
        let engine = Box::new(Local::new(session::session(&job.engine).unwrap()));
        let (engine, pool) = Refusing::around(engine, room);
        let (ended, failed) = run_until_on(Box::new(engine), &job, OnExisting::Fail, at);
        assert_eq!(failed, at != usize::MAX, "{ended:?}");
        assert!(failed || ended.is_ok(), "{ended:?}");
        let (granted, refused) = pool.granted_and_refused();
        assert_eq!((granted > 0, refused > 0), (room > 0, room < ALL));
        assert_eq!(pool.reserved(), 0, "memory is not given back");
    }

    fn stages(&self, name: &str) -> Vec<String> {
        manifest(&self.output(name)).stages.into_iter().map(|stage| stage.name).collect()
    }

    fn rounds_there(&self, name: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.output(name).join("_work")).unwrap();
        let names = entries.map(|entry| entry.unwrap().path()).filter(|path| {
            // A folder may stay behind empty.
            !path.is_dir() || std::fs::read_dir(path).unwrap().next().is_some()
        });
        let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        let names = names.map(|name| name.split('.').next().unwrap().to_owned());
        names.filter(|name| name.contains("_star_")).collect()
    }
}

const ALL: usize = usize::MAX / 2;

/// The number of plans before those of `stage`. The stage `pairs` has a second plan, for copies.
fn plans_before(stages: &[String], stage: &str) -> usize {
    let place = stages.iter().position(|name| name == stage).unwrap();
    place + usize::from(stages[..place].iter().any(|name| name == "pairs"))
}

fn stars(stages: &[String]) -> Vec<&str> {
    stages.iter().map(String::as_str).filter(|stage| stage.contains("_star_")).collect()
}

/// Components that do not fit in memory are the same, whether the first edge is one too many or a later one; so is every
/// other table. A run that is stopped in any round continues there, and keeps no more than that round.
#[test]
fn components_beyond_memory_are_the_same_and_resume_between_rounds() {
    let scene = Chained::new();
    scene.run("held", ALL, usize::MAX);
    let expected = tables(&scene.output("held"));
    assert_eq!(stars(&scene.stages("held")), [""; 0]);

    scene.run("beyond", 0, usize::MAX);
    assert_eq!(tables(&scene.output("beyond")), expected);
    assert!(!scene.output("beyond").join("_work").exists());
    let stages = scene.stages("beyond");
    let rounds = stars(&stages).len() / 2;
    assert!(rounds >= 4, "too few rounds for what follows: {stages:?}");
    let all: Vec<_> =
        (1..=rounds).flat_map(|n| [format!("large_star_{n}"), format!("small_star_{n}")]).collect();
    assert_eq!(stars(&stages), all);
    assert!(stages.ends_with(&["clusters", "totals"].map(str::to_owned)), "{stages:?}");

    // The longest shortest way is what makes rounds: of 50 nodes in a row, whose log2 is 5.6.
    assert!(rounds <= 12, "{stages:?}");
    let last = format!("small_star_{rounds}");
    for (stage, there, taken_up) in [
        ("large_star_1", &[][..], "large_star_1"),
        ("small_star_1", &["large_star_1"], "large_star_1"),
        ("large_star_3", &["small_star_2"], "small_star_2"),
        ("small_star_3", &["large_star_3", "small_star_2"], "small_star_2"),
        ("components", &[&last], &last),
    ] {
        let name = format!("stopped before {stage}");
        scene.run(&name, 0, plans_before(&stages, stage));
        let found = scene.rounds_there(&name);
        assert_eq!(found, there.iter().map(|stage| stage.to_string()).collect(), "{name}");
        scene.run(&name, 0, usize::MAX);
        assert_eq!(tables(&scene.output(&name)), expected, "{name}");
        assert_eq!(stars(&scene.stages(&name))[0], taken_up, "{name}");
        assert!(!scene.output(&name).join("_work").exists(), "{name}");
    }
}

/// A round that is damaged is done again; where nothing is left that it was made of, all of them are. A run that has more
/// memory than the one before has no use for them.
#[test]
fn rounds_that_are_damaged_or_not_needed_any_more_do_no_harm() {
    let scene = Chained::new();
    scene.run("held", ALL, usize::MAX);
    let expected = tables(&scene.output("held"));
    scene.run("beyond", 0, usize::MAX);
    let plan = plans_before(&scene.stages("beyond"), "small_star_2");
    for (name, room, damaged, first) in [
        ("one", 0, &["large_star_2"][..], Some("small_star_1")),
        ("all", 0, &["large_star_2", "small_star_1"], Some("large_star_1")),
        ("more memory", ALL, &[], None),
    ] {
        // Before it stopped, the run had two rounds, and the last one is half done.
        scene.run(name, 0, plan);
        let found = scene.rounds_there(name);
        assert_eq!(found, ["large_star_2", "small_star_1"].map(str::to_owned).into(), "{name}");
        for table in damaged {
            let folder = scene.output(name).join("_work").join(table);
            let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
            std::fs::remove_file(file).unwrap();
        }
        scene.run(name, room, usize::MAX);
        assert_eq!(tables(&scene.output(name)), expected, "{name}");
        assert_eq!(stars(&scene.stages(name)).first().copied(), first, "{name}");
    }
}
