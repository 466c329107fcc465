//! `resemblance run`: the main job.

use std::fmt::Write;
use std::sync::Arc;

use crate::cli::support::arguments;
use crate::cli::support::errors::sentences;
use crate::cli::support::job_arguments::JobArguments;
use crate::cli::support::metrics::Destination;
use crate::cli::support::progress::Screen;
use crate::cli::support::record::{self, Pairs, Recorder};
use crate::cli::support::run_job::{finished_already, run_job};
use crate::cli::support::{panics, print};
use crate::engine::Progress;
use crate::error::Result;
use crate::job::Job;
use crate::lookup::rows;
use crate::pipeline::{OnExisting, Outcome};
use crate::schema::Table;

#[derive(clap::Args)]
pub(in crate::cli) struct Run {
    #[command(flatten)]
    job: JobArguments,
    /// Replace the result that the output holds as soon as the new one is complete
    #[arg(long)]
    overwrite: bool,
    /// Name of the run in logs, record and metrics; it changes no rows [default: a new UUID]
    #[arg(long, value_name = "ID", value_parser = arguments::run_id, default_value_t = new_id(), hide_default_value = true)]
    run_id: String,
    /// Print the run's record as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the run's record to a file; if the run fails, the record has `error`, `kind` and `exit_code`
    #[arg(long, value_name = "FILE")]
    record: Option<String>,
    /// Write the run's metrics in Prometheus' text format, also if the run fails: to a file (for node_exporter), or to
    /// a Pushgateway's group, such as http://host:9091/metrics/job/NAME
    #[arg(long, value_name = "FILE|URL")]
    metrics: Option<String>,
    /// Number of the most similar pairs to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = arguments::zero_to(arguments::MAX_TOP))]
    top: usize,
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

impl Run {
    /// What this run is called.
    pub(in crate::cli) fn id(&self) -> &str {
        &self.run_id
    }

    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        self.run_with(screen, |job, progress, existing| run_job(job, progress, existing, Some(self.top)))
    }

    /// Runs the job by `run`, and tells of it wherever that is asked for, however the run ends.
    fn run_with(
        &self,
        screen: &Screen,
        run: impl FnOnce(&Job, Arc<dyn Progress>, OnExisting) -> Result<(Outcome, Pairs)>,
    ) -> Result<()> {
        let file = self.record.as_deref().map(|file| record::writable("--record", file)).transpose()?;
        let metrics = self.metrics.as_deref().map(Destination::parse).transpose()?;
        let recorder = Recorder::begin(screen.progress());
        let job = self.job.load_over_output();
        let name = match &job {
            Ok(job) => job.name.clone(),
            Err(_) => self.job.stem(),
        };
        let existing = if self.overwrite { OnExisting::Overwrite } else { OnExisting::Fail };
        let ran = panics::caught(|| {
            let job = job?;
            let progress: Arc<dyn Progress> = Arc::<Recorder>::clone(&recorder);
            let (outcome, pairs) = run(&job, progress, existing)?;
            Ok((job, outcome, pairs))
        });
        screen.clear();
        let ended = recorder.end(&name, &self.run_id);
        let ran = panics::caught(|| {
            let (job, outcome, pairs) = ran?;
            let record = ended.success(&outcome, &pairs)?;
            match self.json {
                true => print::result(&record)?,
                false => print::result(&as_text(&job, &outcome, &pairs)?)?,
            }
            Ok((outcome, record))
        });

        if let Some(metrics) = metrics {
            let text = ended.metrics(ran.as_ref().map(|(outcome, _)| outcome));
            // Metrics tell about a run; they do not decide it.
            warn_of(text.and_then(|text| metrics.put(text)));
        }
        match (ran, file) {
            (Ok((_, record)), Some(file)) => record::write(&file, &record),
            (Ok(_), None) => Ok(()),
            (Err(e), file) => {
                warn_of(file.map_or(Ok(()), |file| record::write(&file, &ended.failure(&e))));
                Err(e)
            }
        }
    }
}

/// Tells of what failed beside a run whose own result stands.
fn warn_of(beside: Result<()>) {
    if let Err(e) = beside {
        tracing::warn!("{}", sentences(&e).join("; because: "));
    }
}

fn as_text(job: &Job, outcome: &Outcome, pairs: &Pairs) -> Result<String> {
    let manifest = &outcome.manifest;
    let counted = |name: &str| manifest.counts.get(name).copied().unwrap_or(0);
    let number = |name: &str| print::count(counted(name));
    let noun = |name: &str, noun: &str| print::plural(counted(name), noun);
    let mut text = finished_already(job, outcome);
    let _ = writeln!(text, "{:>12} {} compared", number("documents"), noun("documents", "document"));
    let reasons: Vec<String> =
        manifest.rejects.iter().map(|(reason, n)| format!("{} {reason}", print::count(*n))).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let _ = writeln!(text, "{:>12} rejected{reasons}", number("rejects"));
    if counted("known_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} of {}; {} were looked at more closely",
            number("known_documents"),
            noun("known_documents", "document"),
            if job.known_source().is_some() { "the second source" } else { "earlier runs" },
            number("touched_documents"),
        );
    }
    if counted("known_rejects") > 0 {
        let _ = writeln!(text, "{:>12} of the second source rejected", number("known_rejects"));
    }
    if counted("replaced_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} of earlier runs replaced",
            number("replaced_documents"),
            noun("replaced_documents", "document"),
        );
    }
    let _ =
        writeln!(text, "{:>12} different {}", number("shingle_sets"), noun("shingle_sets", "shingle set"));
    if manifest.counts.contains_key("candidates") {
        let _ = writeln!(text, "{:>12} {}", number("candidates"), noun("candidates", "candidate"));
    }
    if counted("hot_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} in buckets of more than {}: joined by their rarest shingles, which misses no pair{}",
            number("hot_documents"),
            noun("hot_documents", "document"),
            print::count(job.lsh.hot_bucket),
            if counted("dense_documents") > 0 { " outside dense groups" } else { "" },
        );
    }
    if counted("dense_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} in dense groups: paired with leaders instead of each other, which leaves out about {} {}",
            number("dense_documents"),
            noun("dense_documents", "document"),
            number("dense_pairs_left_out"),
            noun("dense_pairs_left_out", "pair"),
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
        "{:>12} {} of {} {} or more{left_out}",
        number("pairs"),
        noun("pairs", "pair"),
        job.score.measure.noun(),
        job.score.threshold
    );
    let _ = writeln!(
        text,
        "{:>12} {} of {} documents",
        number("clusters"),
        noun("clusters", "cluster"),
        number("clustered_documents")
    );
    if counted("chained_documents") > 0 {
        let _ = writeln!(
            text,
            "{:>12} {} of them would go with clusters.method = \"components\", by a chain of pairs",
            number("chained_documents"),
            noun("chained_documents", "representative"),
        );
    }
    let seconds: f64 = manifest.steps.iter().map(|s| s.seconds).sum();
    let _ = writeln!(text, "{seconds:>12.2} seconds");
    let cells = rows::cells(pairs)?;
    if !cells.is_empty() {
        let _ = writeln!(text, "\nmost similar");
        text.push_str(&print::table(&["id_a", "id_b", "jaccard", "containment_a", "containment_b"], &cells));
    }
    let tables: Vec<&str> = Table::of(job).into_iter().map(Table::name).collect();
    let _ = writeln!(text, "\ntables in {}: {}", job.output.url, tables.join(", "));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Arguments;
    use crate::cli::commands::Command;
    use crate::error::Kind;

    /// The command line that runs a job in `folder`, with a record and metrics there.
    fn command(folder: &std::path::Path) -> Run {
        let job = folder.join("job.toml");
        std::fs::write(&job, "source = { format = 'text', url = 'in' }\noutput.url = 'out'").unwrap();
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let arguments = [
            "resemblance",
            "run",
            &path("job.toml"),
            "--record",
            &path("record"),
            "--metrics",
            &path("metrics"),
        ];
        match Arguments::parse_from(arguments).command {
            Command::Run(run) => run,
            _ => panic!("this is no run"),
        }
    }

    #[test]
    fn a_run_that_panics_leaves_its_record_and_its_metrics() {
        panics::watch();
        let folder = tempfile::tempdir().unwrap();
        let run = command(folder.path());
        let error = run.run_with(&Screen::new(true), |_, _, _| panic!("in the run")).unwrap_err();
        assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Bug, 5));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let record: serde_json::Value = serde_json::from_str(&read("record")).unwrap();
        assert_eq!((&record["exit_code"], &record["kind"]), (&5.into(), &"bug".into()), "{record}");
        assert!(record["error"].as_str().unwrap().contains("in the run"), "{record}");
        let metrics = read("metrics");
        assert!(metrics.lines().any(|line| line.contains("exit_code") && line.ends_with(" 5")), "{metrics}");
    }
}
