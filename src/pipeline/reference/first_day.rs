//! The first day of a daily job, on which the outputs of earlier days do not exist yet.

use datafusion::prelude::SessionContext;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::job::{Against, Job};
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;

/// Returns `job` without reference documents if it allows a first day and none of its reference outputs exists. Fails with `Kind::Job` if
/// the output of `job` overlaps with a missing output, because a run cannot write to its reference. Also fails if an earlier day has a
/// finished output beside this output or a missing one. The path of the reference is then probably wrong.
pub(crate) async fn settled(session: &SessionContext, job: &Job) -> Result<Job> {
    let Some(against) = job.against.as_ref().filter(|against| against.first_day) else {
        return Ok(job.clone());
    };
    let output = Layout::open(session, &job.output.url)?;
    let mut places = vec![output.clone()];
    for url in against.outputs() {
        let reference = Layout::open(session, url)?;
        if !reference.is_missing().await? {
            return Ok(job.clone());
        }
        overlap::refuse_output(&output, &reference, "output.url")?;
        places.push(reference);
    }
    // The output may be the finished output of a first day.
    if !recorded_job(&output).await?["first_day"].is_object() {
        refuse_earlier_days(job, against, &places).await?;
    }
    Ok(Job { against: None, first_day: Some(against.clone()), ..job.clone() })
}

/// Returns the job in the manifest of `output`. Returns null if there is no manifest, or if another program wrote it.
async fn recorded_job(output: &Layout) -> Result<Value> {
    let Some((bytes, _)) = output.manifest_bytes().await? else { return Ok(Value::Null) };
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(manifest["job"].clone())
}

/// Refuses a first day if a folder beside one of the `places` has a finished output of the same job.
async fn refuse_earlier_days(job: &Job, against: &Against, places: &[Layout]) -> Result<()> {
    for place in places {
        for sibling in place.siblings().await? {
            if recorded_job(&sibling).await?["name"] == job.name.as_str() {
                return Err(Error::job(format!(
                    "{} does not exist, but {} has the output of an earlier day of the job {}, so this is not the first day: correct \
                     against.output, or give the job another name",
                    against.outputs().join(", "),
                    sibling.shown(),
                    job.name
                )));
            }
        }
    }
    Ok(())
}

/// Returns the `outputs` to merge. Leaves out outputs that do not exist, if the run of the first existing output recorded them as missing
/// on the first day.
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
