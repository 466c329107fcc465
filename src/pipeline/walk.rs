//! Runs through the stages of a job.

use std::collections::VecDeque;

use super::context::StageContext;
use super::keep_values;
use super::stage::{Stage, Stages};
use crate::error::Result;

/// Runs all stages of the job.
///
/// # Errors
/// The first one of a stage. Those that are finished stay published.
pub(super) async fn walk(cx: &StageContext<'_>) -> Result<()> {
    let stages = Stages::of(cx.job);
    let names: Vec<String> = stages.all().map(|stage| stage.name().into_owned()).collect();
    cx.runner.begin(&names);
    run(cx, stages.search).await?;
    keep_values::check(cx).await?;
    if cx.engine().runs_stages_together() {
        // Both are awaited, even if one of them fails: the stages that the other one finishes need not be repeated.
        let (pairs, clusters) = futures::join!(run(cx, stages.pairs), run(cx, stages.clusters));
        pairs.and(clusters)?;
    } else {
        run(cx, stages.pairs).await?;
        run(cx, stages.clusters).await?;
    }
    run(cx, stages.ends).await
}

/// Runs stages one after the other, each with its follow-ups.
async fn run(cx: &StageContext<'_>, stages: Vec<&'static Stage>) -> Result<()> {
    let mut ahead = VecDeque::from(stages);
    while let Some(stage) = ahead.pop_front() {
        let further = stage.run(cx).await?;
        cx.runner.expect(further.len());
        for stage in further.into_iter().rev() {
            ahead.push_front(stage);
        }
    }
    Ok(())
}
