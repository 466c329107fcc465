//! `resemblance check`: prints a resolved job and its stages.

use std::fmt::Write;

use crate::cli::support::job_arguments::JobArguments;
use crate::cli::support::print;
use crate::error::{Error, Result};
use crate::job::{Choice, Job, curve};
use crate::pipeline;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance check my.toml
  resemblance check my.toml --set score.threshold=0.7";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Check {
    #[command(flatten)]
    job: JobArguments,
    /// Print the resolved job and the numbers as one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let job = self.job.load_over_output()?;
        print::result(&if self.json { as_json(&job)? } else { as_text(&job) })
    }
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

fn as_json(job: &Job) -> Result<String> {
    let curve: Vec<_> = similarities(job.score.threshold)
        .into_iter()
        .map(|s| serde_json::json!({"similarity": s, "candidate": curve::probability(s, job.lsh.bands, job.lsh.rows)}))
        .collect();
    let job_value =
        serde_json::to_value(job).map_err(|e| Error::bug("the job cannot be written").because(e))?;
    let checked = serde_json::json!({
        "job": job_value,
        "bands": job.lsh.bands,
        "rows": job.lsh.rows,
        "curve_threshold": curve::threshold(job.lsh.bands, job.lsh.rows),
        "expected_recall_at_threshold": job.expected_recall(),
        "curve": curve,
        "stages": stages(job),
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

fn as_text(job: &Job) -> String {
    let lsh = &job.lsh;
    let mut text = String::new();
    let _ = writeln!(text, "job {}: {} -> {}\n", job.name, job.source.urls.join(", "), job.output.url);
    for stage in stages(job) {
        let _ = writeln!(text, "  {stage}");
    }
    let choice = match lsh.choice {
        Choice::Given => "as the job sets them".to_owned(),
        Choice::Nearest => "whose curve turns nearest to the threshold".to_owned(),
        Choice::Balanced => "with the smallest area of false positives and false negatives".to_owned(),
        Choice::Recall => "whose curve turns at or just under the threshold".to_owned(),
        Choice::Precision => "whose curve turns at or just over the threshold".to_owned(),
        Choice::TargetRecall(target) => format!("the strictest with a recall of {target} at the threshold"),
    };
    let _ = writeln!(
        text,
        "\n{} bands of {} rows, {choice}; {} of {} permutations used; the curve turns at {:.4}",
        lsh.bands,
        lsh.rows,
        lsh.bands * lsh.rows,
        job.minhash.permutations,
        curve::threshold(lsh.bands, lsh.rows),
    );
    let _ = writeln!(
        text,
        "expected recall of pairs at similarity {}: {:.4}; higher for pairs that are more similar\n",
        job.score.threshold,
        job.expected_recall()
    );
    if let Some(warning) = job.low_recall() {
        let _ = writeln!(text, "warning: {warning}\n");
    }
    let rows: Vec<Vec<String>> = similarities(job.score.threshold)
        .into_iter()
        .map(|s| {
            let p = curve::probability(s, lsh.bands, lsh.rows);
            let bar = "█".repeat((p * 40.0).round() as usize);
            let mark = if (s - job.score.threshold).abs() < 1e-9 { " <- threshold" } else { "" };
            vec![format!("{s:.4}"), format!("{p:.6}"), format!("{bar}{mark}")]
        })
        .collect();
    text.push_str(&print::table(&["similarity", "becomes a candidate", ""], &rows));
    text
}
