//! The events of one run: one when it starts, one when it ends.

use arrow::temporal_conversions::timestamp_us_to_datetime;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::dataset;
use super::facet::{PRODUCER, facet};
use super::settings::{EventDestination, LineageSettings};
use crate::apply::alarms::AlarmVerdict;
use crate::error::{Error, Kind};
use crate::job::Job;
use crate::output::manifest::Run as Manifest;

/// The schema of the events.
const SCHEMA: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

/// The end of a run.
pub(crate) enum RunEnd<'e> {
    /// The output is complete; bounds of the job may be exceeded.
    Complete { manifest: &'e Manifest, verdicts: &'e [AlarmVerdict] },
    /// An error ended it, described in one line without secrets.
    Failed { error: &'e Error, described: String },
}

/// The events of one run.
pub(crate) struct Events {
    settings: LineageSettings,
    /// The id in the events.
    id: Uuid,
    /// The id in logs, records and metrics, which may be any word.
    run_id: String,
    /// The name of the job.
    name: String,
    /// The job; `None` if it cannot be read.
    job: Option<Job>,
}

impl Events {
    /// The events of the run `run_id` of a job. Their id is the same if it is a UUID, and else a new one.
    pub(crate) fn new(settings: LineageSettings, run_id: &str, name: &str, job: Option<&Job>) -> Self {
        let id = run_id.parse().unwrap_or_else(|_| Uuid::new_v4());
        // With absolute paths, as manifests have them.
        let job = job.map(|job| job.with_absolute_paths().unwrap_or_else(|_| job.clone()));
        Self { settings, id, run_id: run_id.to_owned(), name: name.to_owned(), job }
    }

    /// Where they go.
    pub(crate) fn destination(&self) -> &EventDestination {
        &self.settings.destination
    }

    /// The event of the start, `at` so many seconds since 1970.
    pub(crate) fn start(&self, at: f64) -> Value {
        self.event("START", at, Map::new(), (self.inputs(None), Vec::new()))
    }

    /// The event of the end, `at` so many seconds since 1970.
    pub(crate) fn end(&self, end: &RunEnd<'_>, at: f64) -> Value {
        match end {
            RunEnd::Complete { manifest, verdicts } => {
                let outputs = self.job.as_ref().map(|job| dataset::outputs(job, manifest, verdicts));
                let datasets = (self.inputs(Some(manifest)), outputs.unwrap_or_default());
                self.event("COMPLETE", at, Map::new(), datasets)
            }
            RunEnd::Failed { error, described } => {
                let message = json!({ "message": described, "programmingLanguage": "Rust" });
                let message = facet(("1-0-1", "ErrorMessageRunFacet"), message);
                let kind = if error.kind() == Kind::Interrupted { "ABORT" } else { "FAIL" };
                let facets = Map::from_iter([("errorMessage".to_owned(), message)]);
                self.event(kind, at, facets, (self.inputs(None), Vec::new()))
            }
        }
    }

    fn inputs(&self, manifest: Option<&Manifest>) -> Vec<Value> {
        self.job.as_ref().map(|job| dataset::inputs(job, manifest)).unwrap_or_default()
    }

    fn event(
        &self,
        kind: &str,
        at: f64,
        mut facets: Map<String, Value>,
        (inputs, outputs): (Vec<Value>, Vec<Value>),
    ) -> Value {
        let version = env!("CARGO_PKG_VERSION");
        let engine =
            json!({ "name": "resemblance", "version": version, "openlineageAdapterVersion": version });
        facets.insert("processing_engine".into(), facet(("1-1-1", "ProcessingEngineRunFacet"), engine));
        let tags = json!({ "tags": [{ "key": "run_id", "value": self.run_id, "source": "resemblance" }] });
        facets.insert("tags".into(), facet(("1-0-0", "TagsRunFacet"), tags));
        if let Some(parent) = &self.settings.parent {
            facets.insert("parent".into(), parent.facet());
        }
        let kind_of_job =
            json!({ "processingType": "BATCH", "integration": "RESEMBLANCE", "jobType": "JOB" });
        json!({
            "eventType": kind,
            "eventTime": time(at),
            "producer": PRODUCER,
            "schemaURL": SCHEMA,
            "run": { "runId": self.id.to_string(), "facets": facets },
            "job": {
                "namespace": self.settings.namespace,
                "name": self.name,
                "facets": { "jobType": facet(("2-0-4", "JobTypeJobFacet"), kind_of_job) },
            },
            "inputs": inputs,
            "outputs": outputs,
        })
    }
}

/// Seconds since 1970 as RFC 3339.
fn time(seconds: f64) -> String {
    let time = timestamp_us_to_datetime((seconds * 1e6) as i64).unwrap_or_default();
    format!("{}Z", time.format("%Y-%m-%dT%H:%M:%S%.6f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0.0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time(1_763_596_800.25), "2025-11-20T00:00:00.250000Z");
    }
}
