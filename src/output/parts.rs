//! Parts of a stage that reads the source. A task records the files of its part when it has written them, as a stage of its own.

use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Layout;
use super::manifest::{File, FinishedStage};
use crate::error::{Error, Result};
use crate::job::ReadRanges;
use crate::source::{self, Checksums};

/// The parts of a stage, one for each partition of its plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageParts {
    pub(crate) stage: String,
    /// The number of parts into which the source was divided.
    pub(crate) of: usize,
    /// The hash of the part that writes a file in every table, even without rows.
    pub(crate) first: u64,
    pub(crate) fingerprint: String,
    pub(crate) key: String,
    /// The ranges of the source that tasks in this process have read.
    #[serde(skip)]
    pub(crate) read: Arc<Mutex<Vec<ReadRanges>>>,
}

impl StageParts {
    /// Returns the part that the partition `partition` of `input` reads. The partitions of a task on a cluster have other numbers than
    /// those of the plan, so the part is known by the data that it reads.
    pub(super) fn part(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        output: Layout,
    ) -> Result<RunningPart> {
        let hash = source::part(input, partition)
            .ok_or_else(|| Error::bug(format!("partition {partition} is no part of a source")))?;
        let name = SourcePart { hash, of: self.of }.name(&self.stage);
        Ok(RunningPart {
            parts: self.clone(),
            name,
            is_first: hash == self.first,
            output,
            began: Instant::now(),
        })
    }
}

/// A part that a task writes.
pub(super) struct RunningPart {
    parts: StageParts,
    name: String,
    pub(super) is_first: bool,
    output: Layout,
    began: Instant,
}

impl RunningPart {
    /// Returns the files of the part if it was already written, by an earlier run or by a task whose executor was lost.
    pub(super) async fn written(&self) -> Result<Option<Vec<File>>> {
        let record = self.output.read::<FinishedStage>(&Layout::stage(&self.name, &self.parts.key)).await?;
        let record = record.filter(|record| record.fingerprint == self.parts.fingerprint);
        Ok(record.map(|record| record.files))
    }

    pub(super) async fn record(self, files: &[File], context: &TaskContext) -> Result<()> {
        let Self { parts, name, output, began, .. } = self;
        let read = Checksums::take(context.session_config());
        let finished = FinishedStage {
            stage: name,
            fingerprint: parts.fingerprint,
            seconds: began.elapsed().as_secs_f64(),
            join: None,
            read: read.clone(),
            files: files.to_vec(),
        };
        output.create(&Layout::stage(&finished.stage, &parts.key), &finished).await?;
        tracing::debug!(stage = %parts.stage, part = %finished.stage, "part written");
        parts.read.lock().extend(read);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourcePart {
    pub(crate) hash: u64,
    pub(crate) of: usize,
}

impl SourcePart {
    /// The name of the part's record.
    pub(crate) fn name(self, stage: &str) -> String {
        format!("{stage}-{:016x}-of-{}", self.hash, self.of)
    }

    /// Parses the name of a record of a part of `stage`.
    pub(crate) fn parse(stage: &str, name: &str) -> Option<Self> {
        let (hash, of) = name.strip_prefix(stage)?.strip_prefix('-')?.split_once("-of-")?;
        Some(Self { hash: u64::from_str_radix(hash, 16).ok()?, of: of.parse().ok().filter(|of| *of > 0)? })
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
}
