//! The projection that puts the columns of a plan into the order of a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

/// The columns `wanted` of `schema`, which are `plan`'s columns at `place`.
pub(super) fn project(
    plan: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
    wanted: &[usize],
    place: impl Fn(usize) -> usize,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let inner = plan.schema();
    if wanted.len() == inner.fields().len() && wanted.iter().enumerate().all(|(to, from)| place(*from) == to)
    {
        let same = wanted.iter().zip(inner.fields()).all(|(i, f)| schema.field(*i).name() == f.name());
        if same {
            return Ok(plan);
        }
    }
    let columns = wanted.iter().map(|i| {
        let from = place(*i);
        ProjectionExpr {
            expr: Arc::new(Column::new(inner.field(from).name(), from)),
            alias: schema.field(*i).name().clone(),
        }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
