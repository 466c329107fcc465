//! The source data that each partition of a plan reads.

#[cfg(feature = "cluster")]
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::JoinType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use xxhash_rust::xxh3::xxh3_64;

use crate::plan::OperatorExec;
use crate::source::formats::parquet::rows_read;
use crate::source::reading::parse_files::ParseFiles;
use crate::source::rows::split::ReadPart;

/// Returns, for each partition of `plan`, a hash of the data that it reads from the source. Returns `None` if rows in a partition depend on
/// other partitions or on other inputs.
pub(crate) fn parts(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<u64>> {
    Some(parts_read(plan)?.iter().map(|read| hash(read)).collect())
}

/// Returns the hash for the partition `partition`: see [`parts`].
pub(crate) fn part(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> Option<u64> {
    parts_read(plan)?.get(partition).map(|read| hash(read))
}

fn hash(read: &[ReadPart]) -> u64 {
    let line = |read: &ReadPart| format!("{:?} {}\n", read.path, read.part);
    xxh3_64(read.iter().map(line).collect::<String>().as_bytes())
}

/// Returns the files that the partition `partition` of a query stage of `plan` may read. Query stages that read no source have no files.
#[cfg(feature = "cluster")]
pub(crate) fn files_of_partition(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> BTreeSet<Arc<str>> {
    match parts_read(plan) {
        Some(parts) => {
            parts.get(partition).into_iter().flatten().map(|read| Arc::clone(&read.path)).collect()
        }
        None => plan.children().into_iter().flat_map(|child| files_of_partition(child, partition)).collect(),
    }
}

fn parts_read(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Vec<ReadPart>>> {
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    let children = plan.children();
    if let Some(read) = rows_read(plan) {
        return Some(read);
    }
    if let Some(parse) = OperatorExec::<ParseFiles>::described(plan.as_ref()) {
        return files_read(parse, children.first()?);
    }
    if plan.is::<UnionExec>() {
        let parts: Option<Vec<_>> = children.into_iter().map(parts_read).collect();
        return Some(parts?.into_iter().flatten().collect());
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        use JoinType::{Inner, Right, RightAnti, RightSemi};
        let by_right = matches!(join.join_type(), Inner | Right | RightSemi | RightAnti);
        let keeps = by_right && *join.partition_mode() == PartitionMode::CollectLeft;
        return if keeps { parts_read(join.right()) } else { None };
    }
    match children.as_slice() {
        [only] if partitions(only) == partitions(plan) && !plan.is::<RepartitionExec>() => parts_read(only),
        // Rows come from the same partition of the last child. All partitions read the same rows of the other children.
        [.., last]
            if matches!(
                plan.cardinality_effect(),
                CardinalityEffect::Equal | CardinalityEffect::GreaterEqual
            ) && partitions(last) == partitions(plan)
                && !plan.is::<InterleaveExec>() =>
        {
            parts_read(last)
        }
        _ => None,
    }
}

/// Returns the files of each partition. `input` provides the indices of the files.
fn files_read(parse: &ParseFiles, input: &Arc<dyn ExecutionPlan>) -> Option<Vec<Vec<ReadPart>>> {
    let named = input.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<MemorySourceConfig>()?;
    let mut parts = Vec::new();
    for partition in named.partitions() {
        let mut read = Vec::new();
        for batch in partition {
            for index in batch.column(0).as_primitive_opt::<UInt32Type>()?.values() {
                let file = &parse.files.get(*index as usize)?.file;
                read.push(ReadPart { path: Arc::clone(&file.path), part: file.size().to_string() });
            }
        }
        parts.push(read);
    }
    Some(parts)
}
