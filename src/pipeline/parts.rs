//! Parts of a stage that reads the source. Each part is published when it is written, so a run that is killed does not lose it.
//!
//! A part consists of the files, or the row groups in a Parquet file, that one partition of the plan reads. Partitions do not wait for
//! each other. When a partition has written its files, it records them in `_work/` as a separate stage. The name of this stage contains a
//! hash of the files and row groups. A resumed run divides the source into the recorded number of parts, for any number of threads. It
//! runs only the parts without a record.
//!
//! A stage has parts if its plan keeps the rows of each partition together. Otherwise it is published as a whole.

use std::sync::Arc;

use datafusion::prelude::{DataFrame, SessionConfig};

use super::runner::{Runner, StageAttempt, StageFiles, StageWork};
use crate::engine::{Engine, session};
use crate::error::{Kind, Result};
use crate::job::{InputFile, ReadRanges};
use crate::output::Layout;
use crate::output::manifest::FinishedStage;
use crate::output::parts::{SourcePart, StageParts};
use crate::output::write::Write;
use crate::plan::OperatorExec;
use crate::source;

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
        if work.rows.parts < 2 {
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
        let tasks = session::tasks_at_once(config).unwrap_or(config.target_partitions());
        let earlier = self.earlier_parts(stage).await?;
        let of = earlier.first().map_or(work.rows.parts.max(tasks), |part| part.of);
        let plan = self.plan(work, frame.clone(), &divided(config, of)).await?;
        let Some(parts) = source::parts(&plan) else { return Ok(None) };
        // The source has fewer parts than threads. A stage that is written as a whole splits files among all threads.
        if parts.len() < tasks && earlier.is_empty() {
            return Ok(None);
        }
        let (mut read, mut reused) = (Vec::new(), 0);
        for part in
            parts.iter().map(|hash| SourcePart { hash: *hash, of }).filter(|part| earlier.contains(part))
        {
            let name = part.name(stage);
            read.extend(self.read_by(&name).await);
            // Removes the record if its files are damaged. The tasks of all other records return them.
            reused += usize::from(self.find(&name).await?.is_some());
        }
        if reused > 0 {
            tracing::info!(stage, reused, of = parts.len(), "parts that an earlier run read are taken over");
        }
        let Some(write) = OperatorExec::<Write>::described(plan.as_ref()) else { return Ok(None) };
        let record = StageParts {
            stage: stage.to_owned(),
            of,
            first: parts.first().copied().unwrap_or(0),
            fingerprint: self.fingerprint.to_owned(),
            key: self.key.clone(),
            read: Arc::default(),
        };
        let read_now = Arc::clone(&record.read);
        let write = Write { parts: Some(record), ..write.clone() };
        let plan = OperatorExec::plan(write, plan.children().into_iter().cloned().collect())?;
        let files = engine.run(stage, plan, config, self.control).await?;
        read.append(&mut read_now.lock());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_parts_is_bounded() {
        let file = |bytes| InputFile::new("a".into(), bytes, None, None);
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[file(5 * PART_BYTES)]), 5);
        assert_eq!(count(&vec![file(1); 1_000]), 7);
        assert_eq!(count(&[file(u64::MAX / 2)]), 256);
    }
}
