//! The tables that decide about documents, written into the result: each once, sorted by file and position.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Partitioning;
use datafusion::physical_expr::expressions::col as column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::prelude::{DataFrame, SessionConfig, col};

use crate::engine::{Engine, RunControl, session};
use crate::error::{Context, Error, Kind, Result};
use crate::output::claim::Claim;
use crate::output::manifest::{File, FinishedStep};
use crate::output::write::{Rows, Target, Write};
use crate::output::{Layout, check};
use crate::plan::OperatorExec;

/// A table of the result.
pub(super) struct Wanted {
    /// Its name, which is that of its step too.
    pub name: &'static str,
    /// Its folder in the result.
    pub folder: String,
    pub schema: SchemaRef,
    pub rows: DataFrame,
}

/// Writes a table, unless an earlier attempt with this `fingerprint` has done it: its files.
///
/// # Errors
/// When the rows cannot be computed or written, or somebody stopped it.
pub(super) async fn table(
    wanted: Wanted,
    engine: &dyn Engine,
    target: &Layout,
    claim: &Claim,
    fingerprint: &str,
    control: &RunControl,
) -> Result<Vec<File>> {
    let step = Layout::step(wanted.name, fingerprint);
    if let Ok(Some(finished)) = target.read::<FinishedStep>(&step).await
        && finished.fingerprint == fingerprint
        && check::bytes(target, &finished.files.iter().collect::<Vec<_>>()).await?.is_empty()
    {
        return Ok(finished.files);
    }
    target.discard(&step).await?;
    engine.prepare(control).await?;
    let mut config = engine.config();
    let mut partitions = engine.partitions(0);
    let files = loop {
        let plan = plan(&wanted, target, claim, &config, partitions).await?;
        match engine.run(wanted.name, plan, &config, control).await {
            Err(error) if error.kind() == Kind::Memory => match engine.more_partitions(partitions) {
                Some(more) => {
                    let why = error.one_line();
                    tracing::warn!(
                        why,
                        partitions = more,
                        "a task ran out of memory, so it is planned again"
                    );
                    (config, partitions) = (session::hold_no_side(config), more);
                }
                None => return Err(error),
            },
            written => break written?,
        }
    };
    let finished = FinishedStep {
        step: wanted.name.to_owned(),
        fingerprint: fingerprint.to_owned(),
        seconds: 0.0,
        road: None,
        files,
    };
    if !target.create(&step, &finished).await? {
        return Err(Error::input(format!(
            "another process wrote {step} to {}: let only one process at a time write there",
            target.shown()
        )));
    }
    Ok(finished.files)
}

/// The plan that writes the table, the rows of a file of the source in one partition.
async fn plan(
    wanted: &Wanted,
    target: &Layout,
    claim: &Claim,
    config: &SessionConfig,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = wanted.rows.clone().repartition(Partitioning::Hash(vec![col("source")], partitions))?;
    let (mut state, plan) = rows.into_parts();
    *state.config_mut() = config.clone();
    let options = state.config_mut().options_mut();
    options.execution.target_partitions = options.execution.target_partitions.max(partitions);
    let planned = state.create_physical_plan(&plan).await;
    let plan = planned.context(|| format!("cannot plan the table {}", wanted.name))?;
    let mut order = Vec::new();
    for name in ["source", "position"] {
        order.push(PhysicalSortExpr::new_default(column(name, &plan.schema())?));
    }
    let plan: Arc<dyn ExecutionPlan> = match LexOrdering::new(order) {
        Some(order) => Arc::new(SortExec::new(order, plan).with_preserve_partitioning(true)),
        None => plan,
    };
    let write = Write {
        store_url: target.store_url().clone(),
        root: target.root().clone(),
        attempt: claim.attempt().clone(),
        targets: vec![Target {
            table: wanted.name.to_owned(),
            folder: wanted.folder.clone(),
            rows: Rows::All,
            schema: Arc::clone(&wanted.schema),
            carried: 0,
        }],
    };
    Ok(OperatorExec::plan(write, vec![plan])?)
}
