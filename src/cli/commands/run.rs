//! `resemblance run`: runs a job.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use crate::cli::arguments::{self, JobArguments};
use crate::cli::commands::apply::{left_out, shingle_in_words, short_texts};
use crate::cli::commands::{evaluate, plan};
use crate::cli::process::files::{FileMark, OwnFile};
use crate::cli::process::panics;
use crate::cli::process::run_job::{Ran, TopPairs, finished_already, run_job};
use crate::cli::record::lineage::Lineage;
use crate::cli::record::metrics::{self, MetricsDestination};
use crate::cli::record::{EndedRun, MARK, telemetry};
use crate::cli::screen::Screen;
use crate::cli::screen::print::{self, NumberColumn};
use crate::cli::screen::time_left::Costs;
use crate::engine::Progress;
use crate::error::Result;
use crate::evaluate::MAX_EVALUATED;
use crate::forecast::ForecastSettings;
use crate::job::{Job, ScoreBy, whole};
use crate::lookup::rows;
use crate::machine;
use crate::output::manifest::Run as Manifest;
use crate::pipeline::{OnExisting, Outcome};
use crate::schema::Table;

/// Run a job: read documents and write tables of pairs, clusters and rejects
#[derive(clap::Args)]
#[command(after_help = "  resemblance run my.toml
  resemblance run my.toml --set score.threshold=0.9 --set output.url=out/strict/
  resemblance run my.toml --overwrite --record run.json")]
pub(crate) struct RunCommand {
    #[command(flatten)]
    job: JobArguments,
    /// Replace an existing result when the new one is complete
    #[arg(long)]
    overwrite: bool,
    /// Name of the run in logs, in the record and in metrics [default: a new UUID]
    #[arg(long, value_name = "ID", value_parser = arguments::run_id, default_value_t = Uuid::new_v4().to_string(), hide_default_value = true)]
    run_id: String,
    /// Print the run's record as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the run's record to a file; if the run fails, the record has `error`, `kind` and `exit_code`
    #[arg(long, value_name = "FILE")]
    record: Option<String>,
    /// Write the run's metrics in Prometheus' text format, even if the run fails. The destination is a file (for node_exporter), or the
    /// group of a Pushgateway, such as http://host:9091/metrics/job/NAME
    #[arg(long, value_name = "FILE|URL")]
    metrics: Option<String>,
    /// Measure the recall on about N shingle sets after the run, like `resemblance evaluate`
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_EVALUATED))]
    evaluate: Option<usize>,
    /// Forecast the run from a sample of N documents, like `resemblance plan`; the record then contains the forecast and the result
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20000", value_parser = whole(1..=MAX_EVALUATED))]
    forecast: Option<usize>,
    /// Number of most similar pairs to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole(0..=arguments::MAX_TOP))]
    top: usize,
}

impl RunCommand {
    pub(crate) fn id(&self) -> &str {
        &self.run_id
    }

    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        self.run_with(screen, |job, progress, existing| run_job(job, progress, existing, Some(self.top)))
    }

    /// Loads the job, and calls `run` to run it. Prints the result of a successful run. Writes the record and the metrics, and sends the
    /// events, even if the run fails.
    fn run_with(
        &self,
        screen: &Screen,
        run: impl FnOnce(&Job, Arc<dyn Progress>, OnExisting) -> Result<Ran>,
    ) -> Result<()> {
        let mark = FileMark { beginning: MARK, noun: "the record of a run" };
        let file = self.record.as_ref().map(|file| OwnFile::at("--record", file, mark)).transpose()?;
        let metrics = self.metrics.as_deref().map(MetricsDestination::parse).transpose()?;
        let began = Instant::now();
        let job = self.job.load_over_output();
        let name = match &job {
            Ok(job) => job.name.clone(),
            Err(_) => self.job.stem(),
        };
        let lineage = Lineage::begin(&self.run_id, &name, job.as_ref().ok());
        let existing = arguments::on_existing(self.overwrite);
        let mut forecast = None;
        let mut earlier = usize::MAX;
        let ran = panics::caught(|| {
            let job = job?;
            if let Some(sample) = self.forecast {
                let settings = ForecastSettings { sample: sample as u64, seed: 1, tasks: None };
                let made = plan::make(&job, &settings, screen)?;
                screen.expect(Costs::forecast(&made, job.engine.scheduler_address().is_none()));
                forecast = Some(made);
                machine::forget_peak_memory();
            }
            earlier = screen.journal.lock().len();
            let ran = run(&job, screen.progress(), existing)?;
            Ok((job, ran))
        });
        screen.clear();
        let events = screen.journal.lock();
        let ended = EndedRun::new(&name, &self.run_id, began, events.get(earlier..).unwrap_or_default());
        drop(events);
        lineage.end(ran.as_ref().map(|(_, ran)| ran));
        let ran = panics::caught(|| {
            let (job, ran) = ran?;
            let alarm = ran.raise_alarms(&job).err();
            let evaluation = self.evaluate.map(|sample| evaluate::measure(&job, sample)).transpose()?;
            let record = ended.success(&ran, evaluation.as_ref(), forecast.as_ref(), alarm.as_ref())?;
            let text = || -> Result<String> {
                let mut text = as_text(&job, &ran.outcome, &ran.pairs)?;
                if let Some(evaluation) = &evaluation {
                    text += &format!("\n{}", evaluate::text(evaluation));
                }
                if let Some(forecast) = &forecast {
                    let manifest = &ran.outcome.manifest;
                    text += &format!("\n{}", plan::compared(forecast, manifest, ended.peak_memory));
                }
                Ok(text)
            };
            match alarm {
                Some(_) => {}
                None if self.json => print::result(&record)?,
                None => print::result(&text()?)?,
            }
            Ok((ran.outcome, record, alarm))
        });

        let measured = || match &ran {
            Ok((outcome, _, alarm)) => metrics::metrics(&ended, Some(outcome), alarm.as_ref()),
            Err(error) => metrics::metrics(&ended, None, Some(error)),
        };
        if let Some(metrics) = metrics {
            let text = measured().and_then(|measured| metrics::text(&measured));
            // A run does not fail because its metrics cannot be written.
            warn_on_error(text.and_then(|text| metrics.put(text)));
        }
        telemetry::measured(measured);
        let (record, error) = match ran {
            Ok((_, record, alarm)) => (Ok(record), alarm),
            Err(error) => (ended.failure(&error), Some(error)),
        };
        let written = file.map_or(Ok(()), |file| file.write(&record?));
        let Some(error) = error else { return written };
        warn_on_error(written);
        Err(error)
    }
}

/// Logs an error as a warning, if there is one.
fn warn_on_error(written: Result<()>) {
    if let Err(e) = written {
        tracing::warn!("{}", print::one_line(&e));
    }
}

pub(crate) fn as_text(job: &Job, outcome: &Outcome, pairs: &TopPairs) -> Result<String> {
    let manifest = &outcome.manifest;
    let mut text = finished_already(job, outcome);
    for warning in job.first_day_warning().into_iter().chain(manifest.counts.warning()) {
        let _ = writeln!(text, "{warning}");
    }
    text.push_str(&numbers(job, manifest));
    for warning in job.warnings() {
        let _ = writeln!(text, "             {warning}");
    }
    let seconds: f64 = manifest.stages.iter().map(|s| s.seconds).sum();
    let _ = writeln!(text, "{seconds:>12.2} seconds");
    let cells = rows::cells(pairs)?;
    if !cells.is_empty() {
        let _ = writeln!(text, "\nmost similar");
        text.push_str(&print::table(&["id_a", "id_b", "jaccard", "containment_a", "containment_b"], &cells));
    }
    let tables: Vec<&str> = Table::written_by(job).into_iter().map(Table::name).collect();
    let _ = writeln!(text, "\ntables in {}: {}", job.output.url, tables.join(", "));
    Ok(text)
}

fn numbers(job: &Job, manifest: &Manifest) -> String {
    let (counts, mut numbers) = (&manifest.counts, NumberColumn::default());
    let more = |n: Option<u64>| print::count(n.unwrap_or_default());
    numbers.line(counts.documents, "document", " compared");
    let reasons = print::reasons(&manifest.rejects, [" (", ")"]);
    numbers.line(counts.rejects, "", &format!("rejected{reasons}"));
    left_out(counts).iter().for_each(|(n, words)| numbers.line(*n, "", words));
    let reference = if job.second_source().is_some() { "the second source" } else { "the reference outputs" };
    let may_match = more(counts.compared_reference_documents);
    let rest = format!(" of {reference}; {may_match} may match new documents");
    numbers.line(positive(counts.reference_documents), "document", &rest);
    numbers.line(positive(counts.reference_rejects), "", "of the second source rejected");
    numbers.line(positive(counts.replaced_documents), "document", " of the reference outputs replaced");
    let sets = print::plural(counts.shingle_sets, "shingle set");
    let shingle = shingle_in_words(&job.shingle);
    let rest = format!("different {sets}, which are compared; a shingle is {shingle}");
    numbers.line(counts.shingle_sets, "", &rest);
    short_texts(counts, &job.shingle).iter().for_each(|(n, words)| numbers.line(*n, "", words));
    numbers.line(counts.candidates, "candidate", ": two documents that may be similar");
    let dense = positive(counts.dense_documents);
    let exact =
        if job.score.by == ScoreBy::Signature { " whose exact similarity reaches the threshold" } else { "" };
    let rest = format!(
        " in buckets (documents whose signatures agree in a part) of more than {}: joined by their rarest shingles, which misses \
         no pair{exact}{}",
        print::count(job.lsh.hot_bucket),
        if dense.is_some() { " outside dense groups" } else { "" },
    );
    numbers.line(positive(counts.hot_documents), "document", &rest);
    let rest = format!(
        " in dense groups: paired with leaders, a few documents of each group, instead of each other, which leaves out about {}",
        print::counted(counts.dense_pairs_left_out.unwrap_or_default(), "pair")
    );
    numbers.line(dense, "document", &rest);
    let unwritten = match counts.pairs_left_out {
        0 => String::new(),
        n => {
            format!(" ({} more within large groups of identical documents are not written)", print::count(n))
        }
    };
    numbers.line(counts.pairs, "pair", &format!(" of {} or more{unwritten}", job.score.bound()));
    let documents = print::count(counts.clustered_documents);
    let rest = format!(" of {documents} documents: groups of similar ones, each with a representative");
    numbers.line(counts.clusters, "cluster", &rest);
    let rest = " of them would be removed with clusters.method = \"components\", because chains of pairs connect them";
    numbers.line(positive(counts.chained_documents), "representative", rest);
    let lossy = |n: u64| {
        let (has, its) = (print::either(n, "has", "have"), print::either(n, "its", "their"));
        let n = print::count(n);
        format!("; {n} of them {has} text that would be lost: more than 2 % of {its} shingles")
    };
    let rest = format!(" that apply would remove{}", counts.lossy_removals.map(lossy).unwrap_or_default());
    numbers.line(counts.removed_documents, "document", &rest);
    let rest = " that would be lost: no document that stays of the same cluster has them";
    numbers.line(counts.lost_shingles, "shingle", rest);
    let unknown = counts.unknown_decision_ids.filter(|ids| *ids > 0);
    let unknown = unknown.map(|ids| format!("; no document has {ids} of their ids")).unwrap_or_default();
    numbers.line(counts.decisions, "decision", &format!(" about pairs of documents{unknown}"));
    let rest = if counts.decisions.is_some() {
        " kept besides the representatives: the table spared gives the reasons"
    } else {
        " kept: the document that represents their cluster does not contain them"
    };
    numbers.line(counts.spared, "document", rest);
    let rest = format!(" inside documents that occur more than once, {} times together", more(counts.spans));
    numbers.line(counts.passages.filter(|_| counts.spans.is_some()), "passage", &rest);
    let rest = " that do not count, because too many documents have them";
    numbers.line(counts.frequent_shingles, "shingle", rest);
    numbers.0
}

/// Returns `count` unless it is 0.
fn positive(count: Option<u64>) -> Option<u64> {
    count.filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Arguments;
    use crate::cli::commands::Command;
    use crate::cli::screen::log::LogFormat;
    use crate::error::Kind;

    /// Returns a command that runs a job in `folder` and writes the record and the metrics there.
    fn command(folder: &std::path::Path) -> RunCommand {
        let job = folder.join("job.toml");
        std::fs::write(&job, "source = { format = 'text', url = 'in' }\noutput.url = 'out'").unwrap();
        let [job, record, metrics] =
            ["job.toml", "record", "metrics"].map(|name| folder.join(name).to_string_lossy().into_owned());
        let arguments = ["resemblance", "run", &job, "--record", &record, "--metrics", &metrics];
        match Arguments::parse_from(arguments).command {
            Command::Run(run) => run,
            _ => panic!("this is no run"),
        }
    }

    #[test]
    fn a_run_that_panics_leaves_its_record_and_its_metrics() {
        panics::watch();
        let folder = tempfile::tempdir().unwrap();
        let screen = Screen::new(true, LogFormat::Text, false);
        let error = command(folder.path()).run_with(&screen, |_, _, _| panic!("in the run")).unwrap_err();
        assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Bug, 5));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let record: serde_json::Value = serde_json::from_str(&read("record")).unwrap();
        assert_eq!((&record["exit_code"], &record["kind"]), (&5.into(), &"bug".into()), "{record}");
        assert!(record["error"].as_str().unwrap().contains("in the run"), "{record}");
        let metrics = read("metrics");
        assert!(metrics.lines().any(|line| line.contains("exit_code") && line.ends_with(" 5")), "{metrics}");
    }
}
