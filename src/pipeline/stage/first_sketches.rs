//! first_sketches: sketches of the documents without the shingles that a sample shows to be frequent.

use std::borrow::Cow;

use super::duplicates::first_of_each_id;
use super::frequent::{ShingleCounts, Suspects};
use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Tables, WorkTable, Writes, frames, not_null,
};
use super::sketches::{Sketches, with_buckets};
use super::supposed::{is_sampled, is_supposed, is_wrong, supposed, supposition};
use crate::output::write::Rows;

/// Reads all texts, as [`Sketches`] does, without the shingles that are supposed to be frequent, and counts what shows whether
/// they are. Documents with a shingle that is in doubt are left to [`Sketches`]. If a supposition was wrong, or the sample was
/// too small for one, that stage reads all texts.
pub(crate) struct FirstSketches;

impl Writes for FirstSketches {
    fn name(&self) -> Cow<'static, str> {
        "first_sketches".into()
    }

    fn describe(&self, job: &Job) -> String {
        format!("{}, without the shingles that a sample shows to be frequent", Sketches.describe(job))
    }

    fn tables(&self, job: &Job) -> Tables {
        let mut tables = Sketches.tables(job);
        for (_, rows) in &mut tables {
            if *rows == Rows::Null("reason".to_owned()) {
                *rows = Rows::NotNull("compared".to_owned());
            }
        }
        tables.extend([not_null(WorkTable::DOUBTFUL, "doubtful"), not_null(WorkTable::TALLIES, "documents")]);
        tables
    }
}

impl Stage for FirstSketches {
    fn is_in(&self, job: &Job) -> bool {
        is_sampled(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let by = supposition(cx).await?;
            let documents = first_of_each_id(cx, cx.documents.clone())?;
            let counted = by.unwrap_or_default();
            let shingles =
                frames::supposed::measured(documents, &cx.job.shingle, supposed(cx, counted)?, counted)?;
            let sketches = with_buckets(shingles, cx.job, None)?;
            match by {
                Some(_) => cx.run_in_parts(self, 0, cx.parts_of_source(), sketches).await,
                None => cx.run(self, 0, vec![sketches.limit(0, Some(0))?]).await,
            }
        })
    }

    fn follow_ups<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move {
            if is_supposed(cx) {
                if !is_wrong(cx).await? {
                    return Ok(vec![]);
                }
                tracing::info!("a sample did not show which shingles are frequent, so all are counted");
                cx.drop_stage(self);
            }
            Ok(vec![&ShingleCounts as &dyn Stage, &Suspects])
        })
    }
}
