//! The key `output.keep`: the rows are the same, and texts are read twice where shingles are not kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use async_trait::async_trait;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use resemblance::engine::{Engine, Local, RunControl, session};
use resemblance::error::{Error, Kind, Result};
use resemblance::job::{self, Job};
use resemblance::output::manifest::File;
use resemblance::pipeline::{self, OnExisting};
use resemblance::source::{self, Selection};
use tempfile::tempdir;

use crate::support::around::{Around, Call, Hook};
use crate::support::formats::{Format, formats};
use crate::support::*;

// ---- the same rows --------------------------------------------------------------------------------------------------

fn job_over(format: &Format, input: &Path, output: &Path, sets: &[&str]) -> Job {
    let source = format.source(input.to_str().unwrap());
    let text = format!(
        "[source]\n{source}\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {output:?}\n"
    );
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    job::resolve(job::file::read(&text, "test.toml", &sets).unwrap()).unwrap()
}

fn stages(output: &Path) -> Vec<String> {
    manifest(output).stages.into_iter().map(|stage| stage.name).collect()
}

fn columns(output: &Path) -> Vec<String> {
    table(output, "documents").schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// Some documents twice, some unreadable, hot buckets: whatever is kept, it is the same answer.
#[test]
fn whatever_is_kept_the_rows_are_the_same() {
    let mut documents = corpus(21, 120, 40);
    documents.extend_from_within(7..9);
    for (i, format) in formats(&documents).iter().enumerate() {
        let folder = tempdir().unwrap();
        let input = folder.path().join("in");
        format.write(&input);
        let mut answers = BTreeSet::new();
        for (keep, hot) in
            [("shingles", 256), ("signatures", 256), ("none", 256), ("shingles", 3), ("signatures", 3)]
        {
            let output = folder.path().join(format!("{keep}{hot}"));
            let (keeps, hot_bucket) = (format!("output.keep={keep}"), format!("lsh.hot_bucket={hot}"));
            let sets = [&keeps, &hot_bucket, "source.duplicate_ids=reject", "engine.threads=3"];
            run(&job_over(format, &input, &output, &sets)).unwrap();
            let rows = |name: &str| -> String {
                let rows = arrow::util::pretty::pretty_format_batches(&[table(&output, name)]);
                let mut rows: Vec<_> = rows.unwrap().to_string().lines().map(str::to_owned).collect();
                rows.sort();
                rows.join("\n")
            };
            answers.insert(["pairs", "clusters", "rejects"].map(rows));

            let kept = columns(&output);
            assert_eq!(kept.contains(&"shingles".into()), keep == "shingles", "{kept:?}");
            assert_eq!(kept.contains(&"signature".into()), keep != "none", "{kept:?}");
            let stages = stages(&output);
            let again = keep != "shingles";
            assert_eq!(stages.contains(&"positions".into()), again, "{stages:?}");
            assert_eq!(stages.contains(&"hot_sketches".into()), again && hot == 3, "{stages:?}");
            assert!(manifest(&output).counts.pairs > 10);
        }
        assert_eq!(answers.len(), 1, "{} ({i})", format.name);
    }
}

/// Jobs that need all shingle sets keep them between the stages, and not in the result.
#[test]
fn a_job_that_needs_all_shingles_drops_them_at_the_end() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(22, 100, 40), 30);
    for set in ["candidates.method=prefix", "candidates.method=all", "shingle.hash=dictionary"] {
        let mut answers = Vec::new();
        for keep in ["shingles", "signatures", "none"] {
            let output = folder.path().join(format!("{set}{keep}"));
            run(&job(&input, &output, &[set, &format!("output.keep={keep}")])).unwrap();
            assert!(!stages(&output).contains(&"positions".into()), "{set}: {:?}", stages(&output));
            assert_eq!(columns(&output).contains(&"shingles".into()), keep == "shingles");
            assert!(!output.join("_work").exists());
            answers.push(pairs(&output));
        }
        assert!(answers.windows(2).all(|two| two[0] == two[1]) && answers[0].len() > 10, "{set}");
    }
}

// ---- only what is wanted --------------------------------------------------------------------------------------------

fn session_of(partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions))
}

/// (source, position, id, text) of every row.
fn rows(batches: &[RecordBatch]) -> BTreeSet<(String, u64, String, String)> {
    let mut rows = BTreeSet::new();
    for batch in batches {
        let text = |name: &str| cast(batch.column_by_name(name).unwrap(), &DataType::Utf8).unwrap();
        let (sources, ids, texts) = (text("source"), text("id"), text("text"));
        let positions = batch.column_by_name("position").unwrap().as_primitive::<UInt64Type>();
        let string = |column: &arrow::array::ArrayRef, row| column.as_string::<i32>().value(row).to_owned();
        rows.extend((0..batch.num_rows()).map(|row| {
            (string(&sources, row), positions.value(row), string(&ids, row), string(&texts, row))
        }));
    }
    rows
}

/// Rows that the leaves of a plan gave.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    match plan.children().as_slice() {
        [] => plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0),
        children => children.iter().map(|child| rows_read(child)).sum(),
    }
}

/// The number of `wanted` rows, with the gaps of fewer than 32 rows between them: these are read with them.
fn with_gaps(wanted: &BTreeSet<(String, u64, String, String)>) -> usize {
    let mut files: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    wanted.iter().for_each(|(source, position, ..)| files.entry(source).or_default().push(*position));
    let gaps = files.values().flat_map(|rows| rows.windows(2).map(|two| (two[1] - two[0] - 1) as usize));
    wanted.len() + gaps.filter(|gap| *gap < 32).sum::<usize>()
}

#[tokio::test]
async fn only_the_wanted_documents_are_read() {
    let mut random = Random(31);
    for format in formats(&corpus(23, 200, 10)) {
        let folder = tempdir().unwrap();
        format.write(folder.path());
        let job = job_over(&format, folder.path(), Path::new("unused"), &[]);
        let context = session_of(1);
        let listed = source::list(&context, &job.source).await.unwrap();
        let all = source::read(&context, &job.source, &listed, source::ReadRequest::all()).await.unwrap();
        let all = rows(&all.frame.collect().await.unwrap());
        assert_eq!(all.len(), 200);
        for (partitions, one_in) in [(1, 1), (1, 2), (3, 7), (5, 60), (2, 1_000_000)] {
            let expected: BTreeSet<_> = all.iter().filter(|_| random.below(one_in) == 0).cloned().collect();
            let mut wanted = Selection::default();
            expected.iter().for_each(|(source, position, ..)| wanted.insert(source, *position));
            let context = session_of(partitions);
            let read = source::read(&context, &job.source, &listed, source::ReadRequest::only(wanted))
                .await
                .unwrap();
            let plan = read.frame.create_physical_plan().await.unwrap();
            let found = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
            assert_eq!(rows(&found), expected, "{} {partitions} {one_in}", format.name);
            if format.name == "parquet" {
                let read = rows_read(&plan);
                assert!(
                    (expected.len()..=with_gaps(&expected)).contains(&read),
                    "{one_in}: {read} were read"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_document_that_is_not_there_any_more_is_an_error() {
    for format in formats(&corpus(23, 40, 10)).iter().filter(|format| format.name != "text") {
        let folder = tempdir().unwrap();
        format.write(folder.path());
        let job = job_over(format, folder.path(), Path::new("unused"), &[]);
        let context = session_of(2);
        let listed = source::list(&context, &job.source).await.unwrap();
        let file = folder.path().join(&format.files[0].0).display().to_string();
        let mut wanted = Selection::default();
        [3, 20].iter().for_each(|position| wanted.insert(&file, *position));
        let read =
            source::read(&context, &job.source, &listed, source::ReadRequest::only(wanted)).await.unwrap();
        let error = Error::from(read.frame.collect().await.expect_err(format.name));
        assert_eq!(error.kind(), Kind::Input);
        assert!(error.to_string().contains("number 20"), "{error}");

        let mut gone = Selection::default();
        gone.insert("elsewhere.csv", 0);
        let error =
            source::read(&context, &job.source, &listed, source::ReadRequest::only(gone)).await.unwrap_err();
        assert!(error.to_string().contains("elsewhere.csv is missing"), "{error}");
    }
}

// ---- a source that changes between the passes -----------------------------------------------------------------------

/// Does something when a stage is done.
struct After<F> {
    stage: &'static str,
    then: F,
}

#[async_trait]
impl<F: Fn() + Send + Sync> Hook for After<F> {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        let stage = call.stage.to_owned();
        let files = call.run_on(engine).await?;
        if stage == self.stage {
            (self.then)();
        }
        Ok(files)
    }
}

/// The same file with one letter changed, written a minute later.
fn change(file: &Path) {
    let before = std::fs::metadata(file).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let written = std::fs::File::options().write(true).open(file).unwrap();
    written.set_modified(before + Duration::from_secs(60)).unwrap();
}

#[test]
fn a_source_that_changed_between_the_readings_is_an_error() {
    for format in formats(&corpus(24, 120, 40)) {
        let folder = tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        format.write(&input);
        // Of text files, only those of candidates are read again.
        let files: Vec<PathBuf> = format.files.iter().map(|(name, _)| input.join(name)).collect();
        let ended = with_runtime(async |session| {
            let then = || files.iter().for_each(|file| change(file));
            let job = job_over(&format, &input, &output, &["lsh.hot_bucket=256"]);
            let engine = Box::new(Local::new(session));
            let engine = Around { engine, hook: After { stage: "positions", then } };
            pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Fail).await
        });
        let error = ended.map(|outcome| outcome.manifest.counts).expect_err(format.name);
        assert_eq!(error.kind(), Kind::Input, "{error:?}");
        let said = format!("{error:?}");
        let named = files.iter().any(|file| said.contains(&*file.to_string_lossy()));
        assert!(named && said.contains("replaced"), "{}: {said}", format.name);
        assert!(!output.join("manifest.json").exists());
    }
}

fn with_runtime<T>(ask: impl AsyncFnOnce(SessionContext) -> T) -> T {
    let engine = job::Engine { threads: 2, ..job::Engine::local(1 << 30) };
    block_on(async { ask(session::session(&engine).unwrap()).await })
}
