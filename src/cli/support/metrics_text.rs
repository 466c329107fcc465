//! The metrics of a run, in Prometheus' text format.
//!
//! All are gauges, which hold the last run of each job: a run is one event.

use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry, TextEncoder};

use crate::error::{Error, Result};
use crate::output::counts::Counts;
use crate::output::manifest::StageTime;
use crate::pipeline::Outcome;

/// A run that ended, well or not.
#[derive(Debug, Clone)]
pub(crate) struct Measured<'a> {
    /// The job's name: the label `name` of every metric.
    pub name: &'a str,
    /// The run's id. Only `resemblance_run_info` has it as a label, because each id is a new time series.
    pub run_id: &'a str,
    /// The exit code of the process.
    pub exit_code: u8,
    /// Wall-clock seconds from its first line to its last.
    pub seconds: f64,
    /// When it ended, in seconds since 1970.
    pub ended: f64,
    /// Its outcome, if it succeeded.
    pub outcome: Option<&'a Outcome>,
    /// The stages that it finished: how far a failed run came.
    pub stages: &'a [StageTime],
    /// Times that a cluster lost finished work of a stage, or that a stage was submitted again.
    pub recoveries: u64,
}

/// The counts that become metrics: name, help text, and the count if the run made it.
fn counts(counts: &Counts) -> [(&'static str, &'static str, Option<u64>); 19] {
    [
        ("documents", "Documents that were compared.", Some(counts.documents)),
        ("shingle_sets", "Different shingle sets among the compared documents.", Some(counts.shingle_sets)),
        ("hot_documents", "Documents in buckets larger than lsh.hot_bucket.", counts.hot_documents),
        (
            "dense_documents",
            "Documents of dense groups, which are paired with leaders instead of each other.",
            counts.dense_documents,
        ),
        ("candidates", "Pairs of shingle sets that were candidates.", counts.candidates),
        ("scores", "Candidates whose similarity reached the threshold.", Some(counts.scores)),
        ("pairs", "Pairs of similar documents.", Some(counts.pairs)),
        (
            "pairs_left_out",
            "Pairs within large groups of identical documents that were not written.",
            Some(counts.pairs_left_out),
        ),
        (
            "dense_pairs_left_out",
            "Pairs of different shingle sets within dense groups that were not written, estimated from a sample of 1,000 documents.",
            counts.dense_pairs_left_out,
        ),
        ("clusters", "Clusters of similar documents.", Some(counts.clusters)),
        ("clustered_documents", "Documents that are in a cluster.", Some(counts.clustered_documents)),
        (
            "chained_documents",
            "Documents that clusters.method = \"components\" would have removed in addition.",
            counts.chained_documents,
        ),
        ("removed_documents", "Documents that apply removes.", Some(counts.removed_documents)),
        (
            "lossy_removals",
            "Documents whose removal loses more than 2 % of their shingles.",
            counts.lossy_removals,
        ),
        (
            "lost_shingles",
            "Shingles of removed documents that no kept document of their cluster has.",
            counts.lost_shingles,
        ),
        ("spared", "Documents that stay although another one represents their cluster.", counts.spared),
        ("passages", "Passages that occur more than once in the compared documents.", counts.passages),
        ("spans", "Places of passages that occur more than once.", counts.spans),
        (
            "frequent_shingles",
            "Shingles that do not count, because too many documents have them.",
            counts.frequent_shingles,
        ),
    ]
}

/// The beginning of every text of metrics.
pub(crate) const MARK: &str = "# HELP resemblance_";

/// The metrics of `run`.
///
/// A failed run has no counts, and its exit code instead of them.
///
/// # Errors
/// Only a bug causes one.
pub(crate) fn metrics(run: &Measured<'_>) -> Result<Vec<MetricFamily>> {
    let page = Page { registry: Registry::new(), name: run.name };
    let info = [("run_id", run.run_id), ("version", env!("CARGO_PKG_VERSION"))];
    page.one("run_info", "The last run of the job; always 1.", &info, 1.0)?;
    let success = f64::from(u8::from(run.exit_code == 0));
    page.one("run_success", "Whether the run succeeded (1) or not (0).", &[], success)?;
    page.one("run_exit_code", "The exit code of the run's process.", &[], f64::from(run.exit_code))?;
    page.one("run_seconds", "Wall-clock seconds that the run took.", &[], run.seconds)?;
    page.one("run_timestamp_seconds", "When the run ended, in seconds since 1970.", &[], run.ended)?;
    let help = "How often finished work was lost with an executor, or a stage was submitted again.";
    page.one("run_recoveries", help, &[], run.recoveries as f64)?;
    match run.outcome {
        Some(outcome) => page.outcome(outcome)?,
        None => page.stages(run.stages)?,
    }
    Ok(page.registry.gather())
}

/// Metrics as a text that node_exporter's textfile collector and the Pushgateway take.
///
/// # Errors
/// Only a bug causes one.
pub(crate) fn text(metrics: &[MetricFamily]) -> Result<String> {
    TextEncoder::new().encode_to_string(metrics).map_err(unexpected)
}

struct Page<'a> {
    registry: Registry,
    name: &'a str,
}

impl Page<'_> {
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
        for (name, help, count) in counts(&manifest.counts) {
            if let Some(count) = count {
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
        let (mut names, mut values) = (vec!["name"], vec![self.name]);
        for (name, value) in labels {
            names.push(name);
            values.push(value);
        }
        self.gauge(metric, help, &names)?
            .get_metric_with_label_values(&values)
            .map_err(unexpected)?
            .set(value);
        Ok(())
    }

    /// One value for each value of `label`.
    fn each<'v>(
        &self,
        metric: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, f64)>,
    ) -> Result<()> {
        let gauge = self.gauge(metric, help, &["name", label])?;
        for (of, value) in values {
            gauge.get_metric_with_label_values(&[self.name, of]).map_err(unexpected)?.set(value);
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
    use super::*;

    #[test]
    fn a_failed_run_tells_how_far_it_came() {
        let stages = [StageTime { name: "sketches".into(), seconds: 1.5, rows: 7, bytes: 0, join: None }];
        let run = Measured {
            name: "a \"quoted\\name\"",
            run_id: "r1",
            exit_code: 4,
            seconds: 2.25,
            ended: 1.75e9,
            outcome: None,
            stages: &stages,
            recoveries: 3,
        };
        let text = text(&metrics(&run).unwrap()).unwrap();
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
