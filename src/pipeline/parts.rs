//! Parts of a stage that reads the source. Each part is published when it is written, so a run that is killed does not lose it.
//!
//! A part consists of the files, or the row groups in a Parquet file, that one partition of the plan reads. Partitions do not wait for
//! each other. When a partition has written its files, it records them in `_work/` as a separate stage. The name of this stage contains a
//! hash of the files and row groups. A resumed run divides the source into the recorded number of parts, for any number of threads. It
//! runs only the parts without a record.
//!
//! A stage has parts if its plan runs in this process and keeps the rows of each partition together. Otherwise it is published as a
//! whole.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionConfig};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::runner::{Runner, StageAttempt, StageFiles, StageWork};
use crate::engine::{Engine, session};
use crate::error::{Error, Kind, Result};
use crate::job::{InputFile, ReadRanges};
use crate::output::Layout;
use crate::output::manifest::{File, FinishedStage};
use crate::plan::{Batches, Description, OperatorExec, Requirement, Shape, Task, only_input};
use crate::source::{self, Checksums};

/// The approximate number of bytes in a part of the source. Opening a file counts as reading [`OPENING_BYTES`].
const PART_BYTES: u64 = 16 << 20;
const OPENING_BYTES: u64 = 128 << 10;

/// The maximum number of parts in a stage. Each part writes a file in every table.
const MAX_PARTS: u64 = 256;

/// The minimum number of parts into which these files are divided. With more threads, there are more parts.
pub(super) fn count(files: &[InputFile]) -> usize {
    let bytes: u64 = files.iter().map(|file| file.bytes.saturating_add(OPENING_BYTES)).sum();
    (bytes / PART_BYTES).clamp(1, MAX_PARTS) as usize
}

impl Runner<'_> {
    /// Runs the parts of a stage that no earlier attempt wrote. If a task runs out of memory, fewer tasks run at once. Returns `None` if
    /// the stage must be written as a whole, because it is small or its plan mixes the rows of parts.
    pub(super) async fn write_parts(
        &self,
        engine: &dyn Engine,
        work: &StageWork<'_>,
        config: &SessionConfig,
        frame: &DataFrame,
    ) -> Result<Option<StageFiles>> {
        if work.rows.parts < 2 || !engine.is_one_process() {
            return Ok(None);
        }
        let mut config = config.clone();
        loop {
            let error = match self.write_rest(engine, work, &config, frame).await {
                Err(error) if error.kind() == Kind::Memory => error,
                ended => return ended,
            };
            // With a single task, the stage is written as a whole, since its plan can then differ and use less memory.
            let Some(fewer) = session::fewer_tasks(&config) else { return Ok(None) };
            let (tasks, why) = (session::tasks_at_once(&fewer), error.one_line());
            tracing::warn!(stage = %work.name, tasks, why, "a task ran out of memory, so fewer run at once");
            self.control.progress.recovering(&why);
            config = fewer;
        }
    }

    async fn write_rest(
        &self,
        engine: &dyn Engine,
        work: &StageWork<'_>,
        config: &SessionConfig,
        frame: &DataFrame,
    ) -> Result<Option<StageFiles>> {
        let stage = work.name;
        let tasks = session::tasks_at_once(config).unwrap_or(1);
        let earlier = self.earlier_parts(stage).await?;
        let count = earlier.first().map_or(work.rows.parts.max(tasks), |part| part.of);
        let plan = self.plan(work, frame.clone(), &divided(config, count)).await?;
        let Some(parts) = source::parts(&plan) else { return Ok(None) };
        // The source has fewer parts than threads. A stage that is written as a whole splits files among all threads.
        if parts.len() < tasks && earlier.is_empty() {
            return Ok(None);
        }
        let (mut finished, mut rest, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for (partition, hash) in parts.iter().enumerate() {
            let name = SourcePart { hash: *hash, of: count }.name(stage);
            if earlier.iter().any(|part| part.hash == *hash && part.of == count) {
                read.extend(self.read_by(&name).await);
                if let Some(part) = self.find(&name).await? {
                    finished.push(part);
                    continue;
                }
            }
            rest.push((partition, name));
        }
        if !finished.is_empty() {
            let (reused, of) = (finished.len(), parts.len());
            tracing::info!(stage, reused, of, "parts that an earlier run read are taken over");
        }
        if !rest.is_empty() {
            let record = RecordParts {
                stage: stage.to_owned(),
                parts: rest.into(),
                output: self.output.clone(),
                fingerprint: self.fingerprint.to_owned(),
                key: self.key.clone(),
                finished: Arc::default(),
            };
            let written = Arc::clone(&record.finished);
            let plan = OperatorExec::plan(record, vec![plan])?;
            engine.run(stage, plan, config, self.control).await?;
            finished.append(&mut written.lock());
        }
        let mut files = Vec::new();
        for part in finished {
            files.extend(part.files);
            read.extend(part.read);
        }
        files.sort();
        Ok(Some(StageFiles { files, read, join: None }))
    }

    /// Returns the ranges of the source that an earlier attempt read, from the record of a part. The files of the part may be damaged.
    async fn read_by(&self, part: &str) -> Vec<ReadRanges> {
        let record = self.output.read::<FinishedStage>(&Layout::stage(part, &self.key)).await;
        let record = record.ok().flatten().filter(|record| record.fingerprint == self.fingerprint);
        record.map(|record| record.read).unwrap_or_default()
    }

    async fn earlier_parts(&self, stage: &str) -> Result<Vec<SourcePart>> {
        let names = self.finished_earlier().await?;
        Ok(names.iter().filter_map(|name| SourcePart::parse(stage, name)).collect())
    }
}

/// The configuration for a plan with exactly `count` partitions that are not repartitioned.
fn divided(config: &SessionConfig, count: usize) -> StageAttempt {
    let mut config = config.clone().with_target_partitions(count);
    config.options_mut().optimizer.enable_round_robin_repartition = false;
    StageAttempt { config, partitions: count, is_divided: false, sorts_alone: false }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SourcePart {
    hash: u64,
    of: usize,
}

impl SourcePart {
    /// The name of the part's record.
    fn name(self, stage: &str) -> String {
        format!("{stage}-{:016x}-of-{}", self.hash, self.of)
    }

    /// Parses the name of a record of a part of `stage`.
    fn parse(stage: &str, name: &str) -> Option<Self> {
        let (hash, of) = name.strip_prefix(stage)?.strip_prefix('-')?.split_once("-of-")?;
        Some(Self { hash: u64::from_str_radix(hash, 16).ok()?, of: of.parse().ok().filter(|of| *of > 0)? })
    }
}

/// Runs the partitions of the input that are in `parts`, and records the files that each finished partition wrote.
#[derive(Debug, Clone)]
struct RecordParts {
    stage: String,
    /// The indexes of partitions, with the names of their records.
    parts: Arc<[(usize, String)]>,
    output: Layout,
    fingerprint: String,
    key: String,
    finished: Arc<Mutex<Vec<FinishedStage>>>,
}

impl Description for RecordParts {
    const NAME: &'static str = "RecordPartsExec";
    const COUNTS_ROWS: bool = false;

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parts={}", self.parts.len())
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        Ok(Shape::in_partitions(self.parts.len(), input.schema(), input, vec![Requirement::none()]))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> DfResult<Batches> {
        let Some((partition, name)) = self.parts.get(task.partition).cloned() else {
            return Err(Error::bug(format!("there is no part {}", task.partition)).into());
        };
        let (began, context) = (Instant::now(), Arc::clone(&task.context));
        let input = only_input(Self::NAME, task.inputs)?.execute(partition, task.context)?;
        let write = async move {
            let batches: Vec<_> = input.try_collect().await?;
            let mut files = Vec::new();
            for batch in &batches {
                files.extend(File::read_rows(batch)?);
            }
            let finished = FinishedStage {
                stage: name,
                fingerprint: self.fingerprint.clone(),
                seconds: began.elapsed().as_secs_f64(),
                join: None,
                read: Checksums::take(context.session_config()),
                files,
            };
            self.output.create(&Layout::stage(&finished.stage, &self.key), &finished).await?;
            tracing::debug!(stage = %self.stage, part = %finished.stage, "part written");
            self.finished.lock().push(finished);
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
        };
        Ok(stream::once(write).try_flatten().boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_name_of_its_part() {
        let part = SourcePart { hash: 0xab, of: 12 };
        assert_eq!(part.name("sketches"), "sketches-00000000000000ab-of-12");
        assert_eq!(SourcePart::parse("sketches", &part.name("sketches")), Some(part));
        for other in ["sketches", "hot_sketches-ab-of-12", "sketches-ab-of-0", "sketches-x-of-1"] {
            assert_eq!(SourcePart::parse("sketches", other), None, "{other}");
        }
    }

    #[test]
    fn the_number_of_parts_is_bounded() {
        let file = |bytes| InputFile::new("a".into(), bytes, None, None);
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[file(5 * PART_BYTES)]), 5);
        assert_eq!(count(&vec![file(1); 1_000]), 7);
        assert_eq!(count(&[file(u64::MAX / 2)]), 256);
    }
}
