//! Forecasts the cost of a run (seconds, memory, disk and requests, each with a range), and finds risks with examples. The job runs over
//! two samples of the source, and `growth` extrapolates the counts and costs of these runs.

use std::path::Path;

use self::measurement::{RunMeasurement, quickest};
use crate::engine::{RunControl, session};
use crate::error::{Error, Result};
use crate::job::{self, Job, Lsh, Output};
use crate::pipeline::keep_values;

pub use self::sample::ForecastSettings;
pub use self::view::{
    Amount, Forecast, OnCluster, Requests, Risk, RiskKind, SampleView, StageForecast, TableForecast, Template,
};

mod growth;
mod measurement;
mod risks;
mod sample;
mod view;

/// The lowest limit on the size of a group in a sample. Smaller groups do not show how large the groups in the source are.
const LEAST_GROUP: u64 = 17;

/// The number of steps in a forecast.
const STEPS: usize = 3;

/// Forecasts the cost of running `job` from runs over two samples of its source. Writes only to the empty `folder`, which the caller
/// removes.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if the job reads no texts, or has a second source.
/// Returns [`Kind::Input`](crate::error::Kind::Input) if the source has no document.
/// Also returns the errors of reading the source and of the runs over the samples.
pub async fn forecast(
    job: &Job,
    folder: &Path,
    settings: &ForecastSettings,
    control: &RunControl,
) -> Result<Forecast> {
    refuse(job)?;
    let engine = job::EngineSettings { mode: job::Mode::Local, ..job.engine.clone() };
    let session = session::session(&engine)?;
    let job = &keep_values::settled(&session, job).await?;
    let take = sample::take(&session, job, settings, folder);
    let (sample, _) = control.step("read a sample", (1, STEPS), |sample| sample.rows, take).await?;
    let over = |file: &str, share: f64| {
        // Groups of similar documents shrink with the sample, so the limits on their sizes must shrink too. With reference documents, groups
        // do not shrink, because a run over the sample compares with all reference documents.
        let scaled = |most: u64| match job.reference() {
            None => ((most as f64 * share).round() as u64).max(LEAST_GROUP).min(most),
            Some(_) => most,
        };
        let path = folder.join(file);
        Job {
            source: sample.source(&path),
            lsh: Lsh { hot_bucket: scaled(job.lsh.hot_bucket), ..job.lsh.clone() },
            output: Output {
                url: path.with_extension("out").to_string_lossy().into_owned(),
                max_pairs: u64::MAX,
                max_expand: scaled(job.output.max_expand),
                ..job.output.clone()
            },
            engine: engine.clone(),
            ..job.clone()
        }
    };
    let rows = |run: &RunMeasurement| run.counts.documents;
    let [small, large] = sample::FILES;
    let small = over(small, sample.share() / sample::TIMES as f64);
    let large = over(large, sample.share());
    let run = quickest(&small, control);
    let (small, _) = control.step("run a part of the sample", (2, STEPS), rows, run).await?;
    let run = quickest(&large, control);
    let (large, _) = control.step("run the sample", (3, STEPS), rows, run).await?;
    let mut forecast = growth::forecast(&growth::SampleRuns { job, sample: &sample, small, large });
    forecast.sample.seed = settings.seed;
    forecast.cluster = settings.tasks.map(|tasks| growth::on_cluster(&forecast, job, tasks.get()));
    forecast.requests = growth::requests(job, &sample, &forecast);
    (forecast.risks, forecast.templates) = risks::risks(job, &sample, &forecast)?;
    Ok(forecast)
}

/// Refuses a job whose cost cannot be extrapolated from a sample of its source.
fn refuse(job: &Job) -> Result<()> {
    if !job.reads_texts() {
        return Err(Error::job(
            "this job reads finished outputs and no texts, but a plan needs a sample of texts: `resemblance check` prints its stages",
        ));
    }
    if job.second_source().is_some() {
        return Err(Error::job(
            "this job has [against.source], whose documents would all be read, which takes as long as a run: make an output of that source \
             and name it as against.output, or plan the job without the section",
        ));
    }
    Ok(())
}
