//! How much of its input a running plan has read.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_plan::ExecutionPlan;

use super::control::{Reached, Unit};
use crate::plan::{OperatorExec, file_scan};
use crate::rewrite::Rewrite;
use crate::source::{NumberRows, ParseFiles, READ_BYTES};

/// What `plan` has read of its files; `None` if the amount is not known. Of a plan that reads files by bytes, tables do not count.
pub(super) fn reached(plan: &Arc<dyn ExecutionPlan>) -> Option<Reached> {
    let mut inputs = Vec::new();
    let is_known = collect(plan, &mut inputs);
    let sum = |unit: Unit| {
        let of_unit = inputs.iter().filter(|input| input.unit == unit);
        of_unit.fold(Reached { done: 0, all: 0, unit }, |sum, input| Reached {
            done: sum.done + input.done,
            all: sum.all + input.all,
            unit,
        })
    };
    let (bytes, rows) = (sum(Unit::Bytes), sum(Unit::Rows));
    let sum = if bytes.all > 0 { bytes } else { rows };
    (is_known && sum.all > 0).then(|| Reached { done: sum.done.min(sum.all), ..sum })
}

/// Collects the inputs of `plan`. Returns whether the size of each is known.
fn collect(plan: &Arc<dyn ExecutionPlan>, inputs: &mut Vec<Reached>) -> bool {
    let rows = || plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) as u64;
    let bytes = || {
        let metric = plan.metrics().and_then(|metrics| metrics.sum_by_name(READ_BYTES));
        metric.map_or(0, |read| read.as_usize()) as u64
    };
    let input = if let Some(numbered) = OperatorExec::<NumberRows>::described(plan.as_ref()) {
        numbered.rows().map(|all| Reached { done: rows(), all, unit: Unit::Rows })
    } else if let Some(parsed) = OperatorExec::<ParseFiles>::described(plan.as_ref()) {
        Some(Reached { done: bytes(), all: parsed.bytes(), unit: Unit::Bytes })
    } else if let Some(rewrite) = OperatorExec::<Rewrite>::described(plan.as_ref()) {
        Some(Reached { done: bytes(), all: rewrite.bytes(), unit: Unit::Bytes })
    } else if let Some(scan) = file_scan(plan) {
        scanned_rows(scan).map(|all| Reached { done: rows(), all, unit: Unit::Rows })
    } else {
        return plan.children().into_iter().all(|child| collect(child, inputs));
    };
    let is_known = input.is_some();
    inputs.extend(input);
    is_known
}

/// The rows of the files of a scan, if all of them are known.
fn scanned_rows(scan: &FileScanConfig) -> Option<u64> {
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let rows = files.map(|file| file.statistics.as_ref()?.num_rows.get_value().copied());
    Some(rows.sum::<Option<usize>>()? as u64)
}
