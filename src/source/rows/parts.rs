//! Hashes of the source data that each partition of a plan reads.

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

/// Returns, for each partition of `plan`, a hash of the data that it reads from the source. Returns `None` if rows in a partition depend on
/// other partitions or on other inputs.
pub(crate) fn parts(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<u64>> {
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    let children = plan.children();
    if let Some(read) = rows_read(plan) {
        return Some(read.iter().map(|read| xxh3_64(read.as_bytes())).collect());
    }
    if let Some(parse) = OperatorExec::<ParseFiles>::described(plan.as_ref()) {
        return files_read(parse, children.first()?);
    }
    if plan.is::<UnionExec>() {
        let parts: Option<Vec<Vec<u64>>> = children.into_iter().map(parts).collect();
        return Some(parts?.concat());
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        use JoinType::{Inner, Right, RightAnti, RightSemi};
        let by_right = matches!(join.join_type(), Inner | Right | RightSemi | RightAnti);
        let keeps = by_right && *join.partition_mode() == PartitionMode::CollectLeft;
        return if keeps { parts(join.right()) } else { None };
    }
    match children.as_slice() {
        [only] if partitions(only) == partitions(plan) && !plan.is::<RepartitionExec>() => parts(only),
        // Rows come from the same partition of the last child. All partitions read the same rows of the other children.
        [.., last]
            if matches!(
                plan.cardinality_effect(),
                CardinalityEffect::Equal | CardinalityEffect::GreaterEqual
            ) && partitions(last) == partitions(plan)
                && !plan.is::<InterleaveExec>() =>
        {
            parts(last)
        }
        _ => None,
    }
}

/// Returns, for each partition, a hash of the files in the partition. `input` provides the indices of the files.
fn files_read(parse: &ParseFiles, input: &Arc<dyn ExecutionPlan>) -> Option<Vec<u64>> {
    let named = input.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<MemorySourceConfig>()?;
    let mut parts = Vec::new();
    for partition in named.partitions() {
        let mut read = String::new();
        for batch in partition {
            for index in batch.column(0).as_primitive_opt::<UInt32Type>()?.values() {
                let file = &parse.files.get(*index as usize)?.file;
                read.push_str(&format!("{:?} {}\n", file.path, file.size()));
            }
        }
        parts.push(xxh3_64(read.as_bytes()));
    }
    Some(parts)
}
