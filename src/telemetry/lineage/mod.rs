//! Creates the OpenLineage events of a run, with the inputs, the written tables, and the exceeded bounds of the job. The command line
//! sends them. They follow version 2-0-2 of the specification (<https://openlineage.io/spec/2-0-2/OpenLineage.json>).

mod dataset;
mod settings;

pub(crate) use dataset::{names_of_inputs, names_of_outputs};
pub(crate) use settings::{EventDestination, LineageSettings};

use arrow::temporal_conversions::timestamp_us_to_datetime;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::apply::alarms::AlarmVerdict;
use crate::error::{Error, Kind};
use crate::job::Job;
use crate::output::manifest::Run as Manifest;
use dataset::{PRODUCER, facet};

const SCHEMA: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

pub(crate) struct Events {
    pub(crate) settings: LineageSettings,
    id: Uuid,
    /// The run's id in logs, records and metrics.
    run_id: String,
    job_name: String,
    job: Option<Job>,
}

impl Events {
    /// Creates the events of the run `run_id`. They contain `run_id` as the id of the run if it is a UUID, and otherwise a random id.
    pub(crate) fn new(settings: LineageSettings, run_id: &str, job_name: &str, job: Option<&Job>) -> Self {
        let id = run_id.parse().unwrap_or_else(|_| Uuid::new_v4());
        // Manifests use absolute paths too.
        let job = job.map(|job| job.with_absolute_paths().unwrap_or_else(|_| job.clone()));
        Self { settings, id, run_id: run_id.to_owned(), job_name: job_name.to_owned(), job }
    }

    /// Returns the start event. `at` is the time in seconds since 1970.
    pub(crate) fn start(&self, at: f64) -> Value {
        self.event("START", at, Map::new(), None, Vec::new())
    }

    /// Returns the end event of a complete output, even if it exceeds bounds of the job. `at` is the time in seconds since 1970.
    pub(crate) fn complete(&self, manifest: &Manifest, verdicts: &[AlarmVerdict], at: f64) -> Value {
        let outputs = self.job.as_ref().map(|job| dataset::outputs(job, manifest, verdicts));
        self.event("COMPLETE", at, Map::new(), Some(manifest), outputs.unwrap_or_default())
    }

    /// Returns the end event of a run that an error ended. `described` is the error in one line, without secrets. `at` is the time in
    /// seconds since 1970.
    pub(crate) fn failed(&self, error: &Error, described: &str, at: f64) -> Value {
        let message = json!({ "message": described, "programmingLanguage": "Rust" });
        let message = facet(("1-0-1", "ErrorMessageRunFacet"), message);
        let kind = if error.kind() == Kind::Interrupted { "ABORT" } else { "FAIL" };
        self.event(kind, at, Map::from_iter([("errorMessage".into(), message)]), None, Vec::new())
    }

    fn event(
        &self,
        kind: &str,
        at: f64,
        mut facets: Map<String, Value>,
        manifest: Option<&Manifest>,
        outputs: Vec<Value>,
    ) -> Value {
        let inputs = self.job.as_ref().map(|job| dataset::inputs(job, manifest)).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let engine =
            json!({ "name": "resemblance", "version": version, "openlineageAdapterVersion": version });
        facets.insert("processing_engine".into(), facet(("1-1-1", "ProcessingEngineRunFacet"), engine));
        let tags = json!({ "tags": [{ "key": "run_id", "value": self.run_id, "source": "resemblance" }] });
        facets.insert("tags".into(), facet(("1-0-0", "TagsRunFacet"), tags));
        if let Some(parent) = &self.settings.parent {
            facets.insert("parent".into(), facet(("1-2-0", "ParentRunFacet"), parent.clone()));
        }
        let job_type = json!({ "processingType": "BATCH", "integration": "RESEMBLANCE", "jobType": "JOB" });
        json!({
            "eventType": kind,
            "eventTime": time(at),
            "producer": PRODUCER,
            "schemaURL": SCHEMA,
            "run": { "runId": self.id.to_string(), "facets": facets },
            "job": {
                "namespace": self.settings.namespace,
                "name": self.job_name,
                "facets": { "jobType": facet(("2-0-4", "JobTypeJobFacet"), job_type) },
            },
            "inputs": inputs,
            "outputs": outputs,
        })
    }
}

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
