//! `resemblance run`: the main job.

use std::fmt::Write;

use super::progress::Screen;
use super::{JobArguments, print, runtime};
use crate::engine::{self, Watch};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::pipeline::{self, Existing, Outcome};
use crate::query::{Finished, rows};

#[derive(clap::Args)]
pub(super) struct Run {
    #[command(flatten)]
    job: JobArguments,
    /// Replace what a job of this program wrote to the output before
    #[arg(long)]
    overwrite: bool,
    /// Print the run's record as one JSON object
    #[arg(long)]
    json: bool,
    /// Most similar pairs to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

impl Run {
    pub(super) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job.load()?;
        let existing = if self.overwrite { Existing::Overwrite } else { Existing::Keep };
        let (outcome, answer) = run_job(&job, screen, existing, Some(self.top))?;
        screen.clear();
        match self.json {
            true => print::result(&as_json(&outcome, &answer)?),
            false => print::result(&as_text(&job, &outcome, &answer)?),
        }
    }
}

/// The most similar pairs of a run.
pub(super) type Pairs = Vec<datafusion::arrow::array::RecordBatch>;

/// Runs a job and reads back its `top` most similar pairs.
pub(super) fn run_job(
    job: &Job,
    screen: &Screen,
    existing: Existing,
    top: Option<usize>,
) -> Result<(Outcome, Pairs)> {
    let (runtime, stop) = runtime(&job.engine)?;
    let work = async {
        let watch = Watch { stop: stop.clone(), progress: screen.progress() };
        let engine = engine::open(&job.engine, &watch).await?;
        let outcome = pipeline::run(job, engine.as_ref(), &watch, existing).await?;
        let finished = Finished::open(engine.session(), &job.output.url).await?;
        let pairs = finished.top_pairs(top).await?.collect().await?;
        Ok((outcome, pairs))
    };
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            result = work => result,
            // Whatever part of the work does not look at the token, such as listing a far store, ends here.
            () = stopped_for_long(&stop) => Err(Error::interrupted()),
        }
    });
    // Tasks that still hold a file or a thread must not keep the process.
    runtime.shutdown_background();
    result
}

async fn stopped_for_long(stop: &tokio_util::sync::CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
}

fn as_json(outcome: &Outcome, pairs: &Pairs) -> Result<String> {
    let lines = rows::json_lines(pairs)?;
    let top = lines.lines().map(serde_json::from_str).collect::<Result<Vec<serde_json::Value>, _>>();
    let record = serde_json::json!({
        "already_finished": outcome.already_finished,
        "steps_reused": outcome.steps_reused,
        "manifest": outcome.manifest,
        "top_pairs": top.map_err(|e| Error::bug("a row is no JSON").because(e))?,
    });
    Ok(format!("{record:#}\n"))
}

fn as_text(job: &Job, outcome: &Outcome, pairs: &Pairs) -> Result<String> {
    let manifest = &outcome.manifest;
    let counted = |name: &str| manifest.counts.get(name).copied().unwrap_or(0);
    let number = |name: &str| print::count(counted(name));
    let noun = |name: &str, noun: &str| print::plural(counted(name), noun);
    let mut text = String::new();
    if outcome.already_finished {
        let _ = writeln!(
            text,
            "{} is finished already; nothing was run (--overwrite runs it again)",
            job.output.url
        );
    }
    let _ = writeln!(text, "{:>12} {} compared", number("documents"), noun("documents", "document"));
    let reasons: Vec<String> =
        manifest.rejects.iter().map(|(reason, n)| format!("{} {reason}", print::count(*n))).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let _ = writeln!(text, "{:>12} rejected{reasons}", number("rejects"));
    let _ =
        writeln!(text, "{:>12} different {}", number("shingle_sets"), noun("shingle_sets", "shingle set"));
    if manifest.counts.contains_key("candidates") {
        let _ = writeln!(text, "{:>12} {}", number("candidates"), noun("candidates", "candidate"));
    }
    if counted("hot_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} in buckets of more than {}: joined by their rarest shingles, which misses no pair",
            number("hot_documents"),
            noun("hot_documents", "document"),
            print::count(job.lsh.hot_bucket)
        );
    }
    let left_out = counted("pairs_left_out");
    let left_out = match left_out {
        0 => String::new(),
        n => {
            format!(" ({} more within large groups of identical documents are not written)", print::count(n))
        }
    };
    let _ = writeln!(
        text,
        "{:>12} {} of similarity {} or more{left_out}",
        number("pairs"),
        noun("pairs", "pair"),
        job.score.threshold
    );
    let _ = writeln!(
        text,
        "{:>12} {} of {} documents",
        number("clusters"),
        noun("clusters", "cluster"),
        number("clustered_documents")
    );
    let seconds: f64 = manifest.stages.iter().map(|s| s.seconds).sum();
    let _ = writeln!(text, "{seconds:>12.2} seconds");
    let cells = rows::cells(pairs)?;
    if !cells.is_empty() {
        let _ = writeln!(text, "\nmost similar");
        text.push_str(&print::table(&["id_a", "id_b", "jaccard", "containment_a", "containment_b"], &cells));
    }
    let _ = writeln!(text, "\ntables in {}: pairs, clusters, documents, rejects", job.output.url);
    Ok(text)
}
