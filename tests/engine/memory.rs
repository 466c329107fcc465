//! A stage whose tasks run out of memory is planned again, with more partitions or with one sort that has all the memory, and ends
//! in an error if that does not help.

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::displayable;
use resemblance::error::{Error, Result};
use resemblance::output::manifest::File;

use crate::support::around::run_around;
use crate::support::*;

#[test]
fn more_partitions_fit_in_memory() {
    let scene = Scene::new(&[]).with_job("in.parquet", &[]);
    write_parquet(&scene.path("in.parquet"), &long_ids(), 500);
    let expected = rows_alone(&scene.path("job.toml"), &scene.path("roomy"), &["engine.memory=1GiB"]);

    let mut command = scene.command(&["run", "job.toml", "--json"]);
    command.args(["--set", "engine.memory=64MiB", "--set", "engine.threads=1"]);
    let ended = command.assert();
    let (record, said) = (ended.json(), ended.warned(&[]));
    let output = scene.path("out");
    assert_rows(&output, &expected, "more partitions");

    let again = |line: &&str| line.contains("a task ran out of memory, so the stage is planned again");
    let warning = said.lines().find(again).unwrap_or_else(|| panic!("{said}"));
    assert!(warning.contains("stage=pairs before=1 partitions=4"), "{warning}");
    assert!(warning.contains("Resources exhausted"), "{warning}");
    assert_eq!(record["recoveries"], said.lines().filter(again).count(), "{record:#}");
}

/// Runs out of memory in a stage: for some times, when all that the plan writes is written, or always, at
/// once.
struct Scarce {
    stage: &'static str,
    times: usize,
    plans: Mutex<Vec<String>>,
    lost: Mutex<Vec<File>>,
}

impl Scarce {
    fn of(stage: &'static str, times: usize) -> Self {
        Self { stage, times, plans: Mutex::default(), lost: Mutex::default() }
    }
}

#[async_trait]
impl Hook for Scarce {
    /// A limit as in a process that may open few files.
    fn more_partitions(&self, engine: &dyn Engine, partitions: usize) -> Option<usize> {
        engine.more_partitions(partitions).map(|more| more.min(512)).filter(|more| *more > partitions)
    }

    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        if call.stage != self.stage {
            return call.run_on(engine).await;
        }
        let text = displayable(call.plan.as_ref()).indent(false).to_string();
        let number = {
            let mut plans = self.plans.lock().unwrap();
            plans.push(text);
            plans.len()
        };
        if self.times < usize::MAX {
            let files = call.run_on(engine).await?;
            if number > self.times {
                return Ok(files);
            }
            self.lost.lock().unwrap().extend(files);
        }
        Err(Error::from(DataFusionError::ResourcesExhausted("no more".into())))
    }
}

/// Runs a job into `output` on an engine that runs out of memory.
fn scarce(folder: &Path, output: &Path, sets: &[&str], hook: Scarce) -> (Result<Outcome>, Scarce) {
    let input = folder.join("in.parquet");
    write_parquet(&input, &corpus(63, 300, 40), 50);
    let job = job(&input, output, &[&["engine.threads=2"], sets].concat());
    run_around(&job, OnExisting::Fail, hook)
}

/// A dictionary brings all shingles into one order, which more partitions would not make easier.
#[test]
fn a_dictionary_is_sorted_again_by_one_task_that_has_the_memory_alone() {
    let folder = tempdir().unwrap();
    let (roomy, narrow) = (folder.path().join("roomy"), folder.path().join("narrow"));
    let sets = ["shingle.hash=dictionary"];
    scarce(folder.path(), &roomy, &sets, Scarce::of("dictionary", 0)).0.unwrap();
    let (ended, hook) = scarce(folder.path(), &narrow, &sets, Scarce::of("dictionary", 1));
    ended.unwrap();
    assert_rows(&narrow, &rows(&roomy), "one sort");
    let plans = hook.plans.into_inner().unwrap();
    assert_eq!(plans.len(), 2, "{plans:?}");
    assert_ne!(plans[0], plans[1]);
}

#[test]
fn scores_are_the_same_where_nothing_is_held_and_files_of_failed_plans_go() {
    let folder = tempdir().unwrap();
    let (roomy, narrow) = (folder.path().join("roomy"), folder.path().join("narrow"));
    scarce(folder.path(), &roomy, &[], Scarce::of("scores", 0)).0.unwrap();
    let (ended, engine) = scarce(folder.path(), &narrow, &[], Scarce::of("scores", 2));
    ended.unwrap();
    let lost = engine.lost.into_inner().unwrap();
    assert!(lost.iter().map(|file| file.rows).sum::<u64>() > 0, "{lost:?}");
    // Only files of the result are left.
    assert_rows(&narrow, &rows(&roomy), "two plans that failed");
    let plans = engine.plans.into_inner().unwrap();
    assert_eq!(plans.len(), 3);
    assert!(plans[0].contains("candidates, held"), "{}", plans[0]);
    for (plan, partitions) in plans[1..].iter().zip([8, 8]) {
        assert!(!plan.contains("held"), "{partitions}: {plan}");
        assert!(plan.contains(&format!("], {partitions})")), "{partitions}: {plan}");
    }
}

#[test]
fn a_stage_that_never_fits_in_memory_ends_with_advice() {
    let folder = tempdir().unwrap();
    let (ended, engine) =
        scarce(folder.path(), &folder.path().join("out"), &[], Scarce::of("clusters", usize::MAX));
    fails(ended, Kind::Memory, &["clusters", "512 partitions", "raise [engine] memory"]);
    assert_eq!(Kind::Memory.exit_code(), 4);
    // 2 and 8; then 8, 32, 128 and 512, one at a time.
    assert_eq!(engine.plans.into_inner().unwrap().len(), 6);
}

#[test]
fn a_stage_that_divides_nothing_is_tried_again_one_task_at_a_time() {
    let folder = tempdir().unwrap();
    let (ended, engine) =
        scarce(folder.path(), &folder.path().join("out"), &[], Scarce::of("sketches", usize::MAX));
    assert_eq!(ended.unwrap_err().kind(), Kind::Memory);
    assert_eq!(engine.plans.into_inner().unwrap().len(), 2);
}
