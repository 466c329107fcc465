//! Writes the metrics of a run to a file or a Pushgateway, in Prometheus' text format. All metrics are gauges with the values of the last
//! run.

use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry, TextEncoder};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use url::Url;

use crate::cli::process::files::{FileMark, OwnFile};
use crate::cli::record::{EndedRun, http};
use crate::error::{Error, Result};
use crate::output::manifest::StageTime;
use crate::pipeline::Outcome;

const PUSH_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq)]
pub(crate) enum MetricsDestination {
    /// A file for node_exporter's textfile collector.
    File(OwnFile),
    /// The URL of a group in a Pushgateway, such as `http://host:9091/metrics/job/NAME`.
    Push(Url),
}

impl MetricsDestination {
    /// Parses the value of `--metrics`. Messages omit the URL, because it can contain a password.
    pub(crate) fn parse(text: &str) -> Result<MetricsDestination> {
        if !text.contains("://") {
            let mark = FileMark { beginning: MARK, noun: "the metrics of a run" };
            return Ok(MetricsDestination::File(OwnFile::at("--metrics", text, mark)?));
        }
        match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(MetricsDestination::Push(url)),
            _ => Err(Error::job(
                "--metrics: expected a file, or the http:// or https:// URL of a Pushgateway's group, \
                 such as http://host:9091/metrics/job/NAME",
            )),
        }
    }

    /// Writes the metrics. They replace the metrics of the previous run.
    pub(crate) fn put(&self, text: String) -> Result<()> {
        match self {
            MetricsDestination::File(file) => file.write(&text),
            MetricsDestination::Push(url) => {
                let text_format = (CONTENT_TYPE, HeaderValue::from_static(prometheus::TEXT_FORMAT));
                let headers = HeaderMap::from_iter([text_format]);
                http::send(PUSH_LIMIT, Method::PUT, url, "the metrics", headers, text)
            }
        }
    }
}

/// The first characters of every metrics file.
const MARK: &str = "# HELP resemblance_";

/// Returns the metrics of a run. They contain counts if there is an `outcome`, and the exit code of `error`.
///
/// Only `resemblance_run_info` has a label with the run id, because each id starts a new time series.
pub(crate) fn metrics(
    run: &EndedRun<'_>,
    outcome: Option<&Outcome>,
    error: Option<&Error>,
) -> Result<Vec<MetricFamily>> {
    let page = MetricsPage { registry: Registry::new(), name: run.name };
    let info = [("run_id", run.id), ("version", env!("CARGO_PKG_VERSION"))];
    page.one("run_info", "The last run of the job; always 1.", &info, 1.0)?;
    let success = f64::from(u8::from(error.is_none()));
    page.one("run_success", "Whether the run succeeded (1) or not (0).", &[], success)?;
    let exit_code = f64::from(error.map_or(0, |error| error.kind().exit_code()));
    page.one("run_exit_code", "The exit code of the run's process.", &[], exit_code)?;
    page.one("run_seconds", "Wall-clock seconds that the run took.", &[], run.seconds)?;
    page.one("run_timestamp_seconds", "When the run ended, in seconds since 1970.", &[], run.at)?;
    let help = "How often finished work was lost with an executor, or a stage was submitted again.";
    page.one("run_recoveries", help, &[], run.recoveries as f64)?;
    match outcome {
        Some(outcome) => page.outcome(outcome)?,
        None => page.stages(&run.stages)?,
    }
    Ok(page.registry.gather())
}

/// Formats metrics in Prometheus' text format.
pub(crate) fn text(metrics: &[MetricFamily]) -> Result<String> {
    TextEncoder::new().encode_to_string(metrics).map_err(unexpected)
}

struct MetricsPage<'a> {
    registry: Registry,
    name: &'a str,
}

impl MetricsPage<'_> {
    fn outcome(&self, outcome: &Outcome) -> Result<()> {
        let manifest = &outcome.manifest;
        let already = f64::from(u8::from(outcome.already_finished));
        let help = "Whether the output was finished before the run, which then did nothing.";
        self.one("run_already_finished", help, &[], already)?;
        let reused = outcome.stages_reused as f64;
        self.one("run_stages_reused", "Stages that an earlier run had finished.", &[], reused)?;
        self.one("input_files", "Files that were read.", &[], manifest.inputs.len() as f64)?;
        let bytes: u64 = manifest.inputs.iter().map(|input| input.bytes).sum();
        self.one("input_bytes", "Bytes of the files that were read.", &[], bytes as f64)?;
        for (name, help, count) in manifest.counts.all() {
            // Rejects follow below, one number per reason.
            if let Some(count) = count.filter(|_| name != "rejects") {
                self.one(name, help, &[], count as f64)?;
            }
        }
        let rejects = manifest.rejects.iter().map(|(reason, &n)| (reason.as_str(), n as f64));
        self.each("rejects", "Documents that were read and not compared.", "reason", rejects)?;
        self.stages(&manifest.stages)
    }

    fn stages(&self, stages: &[StageTime]) -> Result<()> {
        let seconds = stages.iter().map(|stage| (stage.name.as_str(), stage.seconds));
        let help = "Wall-clock seconds that the stage took, in the run that finished it.";
        self.each("stage_seconds", help, "stage", seconds)?;
        let rows = stages.iter().map(|stage| (stage.name.as_str(), stage.rows as f64));
        self.each("stage_rows", "Rows that the stage wrote.", "stage", rows)
    }

    fn one(&self, metric: &str, help: &str, labels: &[(&str, &str)], value: f64) -> Result<()> {
        let labels = [&[("name", self.name)][..], labels].concat();
        let (names, values): (Vec<&str>, Vec<&str>) = labels.into_iter().unzip();
        let gauge = self.gauge(metric, help, &names)?;
        gauge.get_metric_with_label_values(&values).map_err(unexpected)?.set(value);
        Ok(())
    }

    /// Sets a gauge for each value of the label `label`.
    fn each<'v>(
        &self,
        metric: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, f64)>,
    ) -> Result<()> {
        let gauge = self.gauge(metric, help, &["name", label])?;
        for (label, value) in values {
            gauge.get_metric_with_label_values(&[self.name, label]).map_err(unexpected)?.set(value);
        }
        Ok(())
    }

    fn gauge(&self, metric: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
        let opts = Opts::new(format!("resemblance_{metric}"), help);
        let gauge = GaugeVec::new(opts, labels).map_err(unexpected)?;
        self.registry.register(Box::new(gauge.clone())).map_err(unexpected)?;
        Ok(gauge)
    }
}

fn unexpected(error: prometheus::Error) -> Error {
    Error::bug("a metric cannot be written").because(error)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::engine::StageEvent;

    #[test]
    fn a_url_is_a_pushgateway_and_anything_else_a_file() {
        let url = "http://user:secret@localhost:9091/metrics/job/nightly?token=secret";
        let MetricsDestination::Push(url) = MetricsDestination::parse(url).unwrap() else {
            panic!("a URL is no file")
        };
        assert_eq!(http::without_secrets(&url), "http://localhost:9091/metrics/job/nightly");
        assert!(matches!(MetricsDestination::parse("run.prom").unwrap(), MetricsDestination::File(_)));
        for wrong in ["ftp://user:secret@host/x", "http://:secret@", "", "no-such-folder/run.prom", "src"] {
            let error = MetricsDestination::parse(wrong).unwrap_err();
            assert_eq!(error.kind().exit_code(), 2, "{wrong}");
            let said = error.to_string();
            assert!(said.starts_with("--metrics") && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_failed_run_has_its_finished_stages() {
        let (name, began) = ("a \"quoted\\name\"", Instant::now());
        let ended = StageEvent::Ends { name: "sketches".to_owned(), rows: 7, seconds: 1.5, reused: false };
        let recovers = || StageEvent::Recovers("lost".to_owned());
        let events = [ended, recovers(), recovers(), recovers()].map(|event| (began, event));
        let run = EndedRun { seconds: 2.25, at: 1.75e9, ..EndedRun::new(name, "r1", began, &events) };
        let text = text(&metrics(&run, None, Some(&Error::engine("lost"))).unwrap()).unwrap();
        let name = r#"name="a \"quoted\\name\"""#;
        for line in [
            format!("resemblance_run_success{{{name}}} 0"),
            format!("resemblance_run_exit_code{{{name}}} 4"),
            format!("resemblance_run_recoveries{{{name}}} 3"),
            format!("resemblance_run_seconds{{{name}}} 2.25"),
            format!("resemblance_run_timestamp_seconds{{{name}}} 1750000000"),
            format!("resemblance_stage_rows{{{name},stage=\"sketches\"}} 7"),
            format!("resemblance_stage_seconds{{{name},stage=\"sketches\"}} 1.5"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("resemblance_pairs"), "{text}");
    }
}
