//! What a run of a job will take, before it runs: seconds, memory, disk and requests, each with a range, and risks with examples.
//!
//! `sample` reads a part of the source, spread over its files. `measure` runs the job over few of these documents, for what every
//! run costs, and over all of them, for what a document costs. Of a sample of one in ten documents only one in a hundred pairs
//! has both of its documents: `pairs` estimates from that how many the whole source has, and `complete` adds copies to the sample
//! until it has as many for each document as the source. `grow` scales the costs of that sample up, `requests` counts what an
//! object store is asked for, `risks` looks at the texts, `templates` finds passages that many of them have, and `view` is the
//! result as plain data.

mod complete;
mod grow;
mod measure;
mod pairs;
mod requests;
mod risks;
mod sample;
mod sample_file;
mod templates;
mod view;

use std::path::Path;
use std::time::Instant;

pub use self::sample::Settings;
pub use self::view::{
    Amount, Forecast, OnCluster, Requests, Risk, RiskKind, Sampled, Seconds, StageForecast, TableForecast,
    Template,
};

use self::measure::Measured;
use self::pairs::Expected;
use crate::engine::{RunControl, session};
use crate::error::{Error, Kind, Result};
use crate::job::{self, Job, Lsh, NewPairs, Output};
use crate::pipeline::keep_values;

/// The first sample has one in this many documents of the whole one: it shows what a run costs whatever it reads.
const FEWER: u64 = 20;

/// The steps of a forecast, in messages.
const STEPS: [&str; 4] = ["read a sample", "run a few documents", "run the sample", "run it with more pairs"];

/// Forecasts what a run of `job` takes, by a sample of its documents. Writes only to `folder`, which must be empty, and leaves
/// removing it to the caller.
///
/// # Errors
/// [`Kind::Job`] for a job that does not read texts, or has a second source. When the source cannot be read or has no document,
/// and the errors of a run.
pub async fn forecast(
    job: &Job,
    folder: &Path,
    settings: &Settings,
    control: &RunControl,
) -> Result<Forecast> {
    refuse(job)?;
    let steps = Steps { control };
    let engine = job::Engine { cluster: None, ..job.engine.clone() };
    let session = session::session(&engine)?;
    let job = &keep_values::settled(&session, job).await?;
    let sample = steps.step(0, sample::take(&session, job, settings, folder)).await?;
    // Groups of the sample are smaller than those of the source by its share, and so are the limits on their sizes. Those of
    // reference documents are as large as in the run.
    let scaled = |most: u64| match job.reference() {
        None => {
            ((most as f64 * sample.share().of_all).round() as u64).max(complete::LARGEST_GROUP + 1).min(most)
        }
        Some(_) => most,
    };
    let over = |name: &str| Job {
        source: sample.source(&folder.join(name)),
        lsh: Lsh { hot_bucket: scaled(job.lsh.hot_bucket), ..job.lsh.clone() },
        output: Output {
            url: folder.join(format!("{name}-out")).to_string_lossy().into_owned(),
            max_pairs: u64::MAX,
            max_expand: scaled(job.output.max_expand),
            ..job.output.clone()
        },
        engine: engine.clone(),
        ..job.clone()
    };
    complete::few(&folder.join(sample::ALL), &folder.join("few"), FEWER)?;
    let few = steps.step(1, measure::quickest(&over("few"), control)).await?;
    let (plain, alone) = steps.step(2, all_documents(&over, control)).await?;
    let own = alone.as_ref().unwrap_or(&plain);
    let expected = Expected::of(own, sample.share());
    let added = complete::missing(&expected, own, job);
    let expected = match &alone {
        None => expected,
        Some(alone) => expected.with_reference(&plain, alone),
    };
    let full = match added.is_empty() {
        true => plain.clone(),
        false => {
            complete::add(
                &folder.join(sample::ALL),
                &folder.join("full"),
                &added,
                &job.shingle,
                settings.seed,
            )?;
            steps.step(3, measure::quickest(&over("full"), control)).await?
        }
    };
    let mut forecast = grow::forecast(&grow::Runs { job, sample: &sample, few, plain, full, expected });
    forecast.sample.seed = settings.seed;
    forecast.cluster = settings.tasks.map(|tasks| grow::on_cluster(&forecast, job, tasks));
    forecast.requests = requests::of(job, &sample, &forecast);
    (forecast.risks, forecast.templates) = risks::of(job, &sample, &forecast, &folder.join(sample::ALL))?;
    Ok(forecast)
}

/// Runs the whole sample. If there are reference documents, runs it without them too, to distinguish the pairs with them, whose
/// number grows as the documents, from those of two new documents.
async fn all_documents(
    over: &impl Fn(&str) -> Job,
    control: &RunControl,
) -> Result<(Measured, Option<Measured>)> {
    let job = over(sample::ALL);
    let plain = measure::quickest(&job, control).await?;
    let Some(pairs) = job.new_pairs() else { return Ok((plain, None)) };
    let url = format!("{}-alone", job.output.url);
    let output = Output { url, ..job.output.clone() };
    let mut alone = measure::run(&Job { against: None, output, ..job }, control).await?;
    if pairs == NewPairs::WithReference {
        alone.forget_pairs();
    }
    Ok((plain, Some(alone)))
}

/// Refuses a job that a sample of its source says nothing about.
fn refuse(job: &Job) -> Result<()> {
    if !job.reads_texts() {
        return Err(Error::job(
            "this job reads no texts but finished outputs, and a plan is made from a sample of texts: `resemblance check` prints its stages",
        ));
    }
    if job.second_source().is_some() {
        return Err(Error::job(
            "this job has [against.source], whose documents are all read to find those that may match a sample, which takes as long as a \
             run: make an output of that source and name it as against.output, or plan the job without the section",
        ));
    }
    Ok(())
}

/// Reports the steps of a forecast.
struct Steps<'a> {
    control: &'a RunControl,
}

impl Steps<'_> {
    /// Does the work of the step `at`, unless the forecast is stopped.
    async fn step<T>(&self, at: usize, work: impl Future<Output = Result<T>>) -> Result<T> {
        let (name, progress) = (STEPS[at], &self.control.progress);
        if self.control.stop.is_cancelled() {
            return Err(Error::new(Kind::Interrupted, "stopped; nothing was written"));
        }
        progress.stage_begins(name, at + 1, STEPS.len());
        let began = Instant::now();
        let done = work.await?;
        progress.stage_ends(name, 0, began.elapsed().as_secs_f64(), false);
        Ok(done)
    }
}
