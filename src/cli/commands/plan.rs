//! `resemblance plan`: what a run of a job will take.

use std::num::{NonZeroU64, NonZeroUsize};

use crate::cli::support::arguments::JobArguments;
use crate::cli::support::progress::Screen;
use crate::cli::support::{arguments, forecasted, print};
use crate::error::Result;
use crate::forecast::ForecastSettings;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance plan my.toml
  resemblance plan my.toml --sample 50000 --set score.threshold=0.7
  resemblance plan my.toml --tasks 64 --json";

/// Forecast what a run takes: seconds, memory, disk and requests, each with a range, and risks
///
/// Reads a part of the source, spread over its files, and runs the job over it in a temporary folder, with the memory, the
/// threads and the folder for spills of the job. Nothing is written to the job's output. The more of the source is sampled, the
/// narrower the ranges.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct PlanCommand {
    #[command(flatten)]
    job: JobArguments,
    /// Documents to sample, about; all of them if there are no more
    #[arg(long, value_name = "N", default_value = "20000", value_parser = arguments::one_to(arguments::MAX_EVALUATED))]
    sample: NonZeroUsize,
    /// The seed of the sample
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Also estimate the seconds on a cluster that runs N tasks at once
    #[arg(long, value_name = "N")]
    tasks: Option<NonZeroU64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PlanCommand {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job.load_over_output()?;
        let settings = ForecastSettings {
            sample: self.sample.get() as u64,
            seed: self.seed,
            tasks: self.tasks.map(NonZeroU64::get),
        };
        let mut forecast = forecasted::make(&job, &settings, screen)?;
        for risk in &mut forecast.risks {
            risk.set.retain(|set| self.job.takes(set));
        }
        print::result(&if self.json { print::json(&forecast)? } else { forecasted::text(&forecast, &job) })
    }
}
