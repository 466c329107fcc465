//! The first day of a daily job, on which the outputs of earlier days do not exist yet.

use datafusion::prelude::SessionContext;

use crate::error::Result;
use crate::job::{Against, Job};
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;

/// Returns `job` without reference documents if it allows a first day and no reference output exists. Fails with `Kind::Job` if the
/// output of `job` overlaps with a missing output, because the next run could not use its own output as a reference.
pub(crate) async fn settled(session: &SessionContext, job: &Job) -> Result<Job> {
    let Some(against) = job.against.as_ref().filter(|against| against.first_day) else {
        return Ok(job.clone());
    };
    let output = Layout::open(session, &job.output.url)?;
    for url in against.outputs() {
        let reference = Layout::open(session, url)?;
        if !reference.is_missing().await? {
            return Ok(job.clone());
        }
        overlap::refuse_output(&output, &reference, "output.url")?;
    }
    Ok(Job { against: None, first_day: Some(against.clone()), ..job.clone() })
}

/// Returns the `outputs` to merge, without the leading outputs that do not exist, if the first existing output recorded them as missing
/// on its first day.
pub(crate) async fn without_missing(session: &SessionContext, outputs: &[String]) -> Result<Vec<String>> {
    let mut missing = 0;
    while let Some(url) = outputs.get(missing)
        && Layout::open(session, url)?.is_missing().await?
    {
        missing += 1;
    }
    let Some(first) = outputs.get(missing).filter(|_| missing > 0) else { return Ok(outputs.to_vec()) };
    let made = Stored::open(session, first).await?;
    let recorded = made.job().first_day.as_ref().map(Against::outputs).unwrap_or_default();
    let places = |urls: &[String]| -> Result<Vec<_>> {
        let layouts = urls.iter().map(|url| Layout::open(session, url));
        layouts.map(|layout| layout.map(|at| (at.store_url().clone(), at.root().clone()))).collect()
    };
    let (named, recorded) = (places(&outputs[..missing])?, places(recorded)?);
    let are_recorded = named.iter().all(|place| recorded.contains(place));
    Ok(outputs[if are_recorded { missing } else { 0 }..].to_vec())
}
