//! `resemblance check`: prints a resolved job and its stages.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::support::arguments::JobArguments;
use crate::cli::support::from_data::LOOK_MEMORY;
use crate::cli::support::work::{above_machine, on_session};
use crate::cli::support::{data_text, print};
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::inspect::{self, InspectedContents};
use crate::job::{self, BandRule, Choice, Job, curve};
use crate::lineage;
use crate::pipeline::{self, keep_values};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance check my.toml
  resemblance check my.toml --no-data --set score.threshold=0.7";

/// The version of what `--json` prints. It is raised when a key changes its meaning or goes; new keys may come at any time.
const MANIFEST_VERSION: u32 = 1;

/// Resolve a job and print what would run, and what the data are that it would read
///
/// Of the data it reads the footers or the first rows of files and some texts, and it writes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Check {
    #[command(flatten)]
    job: JobArguments,
    /// Read no data
    #[arg(long)]
    no_data: bool,
    /// Print the resolved job and the numbers as one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let mut job = self.job.load_over_output()?;
        // The sketches of an output are taken as they are.
        let contents = match job.reads_texts() && !self.no_data {
            true => {
                let (settled, contents) = contents(&job)?;
                job = settled;
                Some(contents)
            }
            false => None,
        };
        let contents = contents.as_ref();
        print::result(&if self.json { as_json(&job, contents)? } else { as_text(&job, contents)? })
    }
}

/// The job with the columns that it means, and what it reads.
fn contents(job: &Job) -> Result<(Job, InspectedContents)> {
    on_session(LOOK_MEMORY, async |session, _| {
        let job = keep_values::settled(session, job).await?;
        let contents = inspect::contents(session, &job.source).await?;
        Ok((job, contents))
    })
    .map_err(|error| {
        let kind = error.kind();
        Error::new(kind, "the data of the job cannot be looked at (--no-data checks the job alone)")
            .because(error)
    })
}

/// Similarities at which the S-curve is printed, and the threshold among them.
fn similarities(threshold: f64) -> Vec<f64> {
    let mut similarities: Vec<f64> = (1..=20).map(|i| f64::from(i) / 20.0).collect();
    if !similarities.iter().any(|s| (s - threshold).abs() < 1e-9) {
        similarities.push(threshold);
        similarities.sort_by(f64::total_cmp);
    }
    similarities
}

fn as_json(job: &Job, contents: Option<&InspectedContents>) -> Result<String> {
    let of_job = job.curve();
    let point =
        |s| serde_json::json!({"similarity": s, "candidate": of_job.candidate(s), "kept": of_job.kept(s)});
    let curve: Vec<_> = similarities(job.score.least_jaccard()).into_iter().map(point).collect();
    let job_value = as_value(job)?;
    // With absolute paths, as events and manifests have them.
    let absolute = job.with_absolute_paths()?;
    let checked = serde_json::json!({
        "manifest_version": MANIFEST_VERSION,
        "inputs": lineage::names_of_inputs(&absolute),
        "outputs": lineage::names_of_outputs(&absolute),
        "job": job_value,
        "bands": job.lsh.bands,
        "rows": job.lsh.rows,
        "curve_threshold": curve::threshold(job.lsh.bands, job.lsh.rows),
        "expected_recall_at_threshold": job.expected_recall(),
        "curve": curve,
        "stages": stages(job),
        "data": contents.map(|contents| data_text::as_json(job, contents)),
    });
    Ok(format!("{checked:#}\n"))
}

/// The stages of the run, each with what it does.
fn stages(job: &Job) -> Vec<String> {
    pipeline::stage::describe(job)
        .into_iter()
        .map(|stage| format!("{}: {}", stage.name, stage.text))
        .collect()
}

fn as_text(job: &Job, contents: Option<&InspectedContents>) -> Result<String> {
    let mut text = String::new();
    let _ = writeln!(text, "job {}: {} -> {}\n", job.name, job.source.urls.join(", "), job.output.url);
    for stage in stages(job) {
        let _ = writeln!(text, "  {stage}");
    }
    if job.candidates.method.compares() {
        text.push_str(&recall(job));
    }
    if let Some(warning) = above_machine(&job.engine) {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    if let Some(contents) = contents {
        text.push_str(&data_text::as_text(job, contents));
    }
    text.push_str("\nthe job with all its defaults\n");
    let _ = write!(text, "{}", settings(job)?);
    Ok(text)
}

/// The bands, and which pairs they find.
fn recall(job: &Job) -> String {
    let (lsh, mut text) = (&job.lsh, String::new());
    let choice = match lsh.choice {
        Choice::Given => "as the job sets them".to_owned(),
        Choice::Rule(BandRule::Nearest) => "whose S-curve is steepest nearest to the threshold".to_owned(),
        Choice::Rule(BandRule::Balanced) => {
            "with the smallest area of false positives and false negatives".to_owned()
        }
        Choice::Rule(BandRule::Recall) => {
            "whose S-curve is steepest at or just under the threshold".to_owned()
        }
        Choice::Rule(BandRule::Precision) => {
            "whose S-curve is steepest at or just over the threshold".to_owned()
        }
        Choice::TargetRecall(target) => {
            format!("the strictest that make candidates of {target} of the pairs at the threshold")
        }
    };
    let (curve, least) = (job.curve(), job.score.least_jaccard());
    let is_lsh = job.candidates.method.uses_buckets();
    text.push('\n');
    if is_lsh {
        let _ = writeln!(
            text,
            "{} bands of {} rows, {choice}; {} of {} permutations used; the S-curve is steepest near {:.4}",
            lsh.bands,
            lsh.rows,
            lsh.bands * lsh.rows,
            job.minhash.permutations,
            curve::threshold(lsh.bands, lsh.rows),
        );
    }
    let higher =
        if is_lsh || curve.has_estimates() { "; higher for pairs that are more similar" } else { "" };
    let _ = writeln!(
        text,
        "expected recall of pairs at similarity {}: {:.4}{higher}\n",
        job.score.threshold,
        curve.kept(least)
    );
    for warning in job.warnings() {
        let _ = writeln!(text, "warning: {warning}\n");
    }
    let row = |s: f64| {
        let (candidate, kept) = (curve.candidate(s), curve.kept(s));
        let bar = "█".repeat((kept * 40.0).round() as usize);
        let mark = if (s - least).abs() < 1e-9 { " <- threshold" } else { "" };
        let estimate = curve.has_estimates().then(|| format!("{kept:.6}"));
        let numbers = [format!("{s:.4}"), format!("{candidate:.6}")].into_iter().chain(estimate);
        numbers.chain([format!("{bar}{mark}")]).collect()
    };
    let head: &[&str] = match (is_lsh, curve.has_estimates()) {
        (_, true) => &["similarity", "becomes a candidate", "and passes the estimate", ""],
        (true, false) => &["similarity", "becomes a candidate", ""],
        (false, false) => return text,
    };
    let rows: Vec<Vec<String>> = similarities(least).into_iter().map(row).collect();
    text.push_str(&print::table(head, &rows));
    text
}

/// Every key of the job, those with defaults too, each on a line as in a job file.
fn settings(job: &Job) -> Result<String> {
    let keys = job::keys(&as_value(job)?).into_iter();
    Ok(keys.map(|(key, value)| format!("  {} = {}\n", visible(&key), visible(&value.to_string()))).collect())
}

fn as_value(job: &Job) -> Result<Value> {
    serde_json::to_value(job).map_err(|e| Error::bug("the job cannot be written").because(e))
}
