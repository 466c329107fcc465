//! The record of a run: its name, its end, and the times of its stages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus::proto::MetricFamily;
use serde_json::{Value, json};

use crate::address::masked;
use crate::cli::support::errors::causes;
use crate::cli::support::metrics_text::{Measured, metrics};
use crate::cli::support::run_job::Ran;
use crate::engine::Progress;
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::forecast::Forecast;
use crate::lookup::rows;
use crate::machine;
use crate::output::manifest::StageTime;
use crate::pipeline::Outcome;

/// The beginning of every record.
pub(in crate::cli) const MARK: &str = "{\n  \"record\": \"resemblance run\",";

/// Records the stages of a run.
pub(in crate::cli) struct Recorder {
    began: Instant,
    stages: Mutex<Vec<StageTime>>,
    recoveries: AtomicU64,
}

impl Recorder {
    /// Begins now.
    pub(in crate::cli) fn begin() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), stages: Mutex::default(), recoveries: AtomicU64::new(0) })
    }

    /// Ends the run `id` of the job `name`.
    pub(in crate::cli) fn end<'a>(&self, name: &'a str, id: &'a str) -> Ended<'a> {
        let stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seconds = self.began.elapsed().as_secs_f64();
        let recoveries = self.recoveries.load(Ordering::Relaxed);
        let at = machine::now();
        Ended { name, id, seconds, at, stages, recoveries, peak_memory: machine::peak_memory() }
    }
}

impl Progress for Recorder {
    fn recovering(&self, _why: &str) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, _reused: bool) {
        let stage = StageTime { name: name.to_owned(), seconds, rows, bytes: 0, join: None };
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
    }
}

/// A run that ended.
pub(in crate::cli) struct Ended<'a> {
    name: &'a str,
    id: &'a str,
    seconds: f64,
    /// Seconds since 1970.
    at: f64,
    stages: Vec<StageTime>,
    /// The number of losses of finished work on a cluster and of resubmitted stages.
    recoveries: u64,
    /// The most memory of the process, if the system says how much it has.
    peak_memory: Option<u64>,
}

impl Ended<'_> {
    /// The most memory of the process, if the system says how much it has.
    pub(in crate::cli) fn peak_memory(&self) -> Option<u64> {
        self.peak_memory
    }

    /// The record of a successful run, as JSON.
    pub(in crate::cli) fn success(
        &self,
        ran: &Ran,
        evaluation: Option<&Evaluation>,
        forecast: Option<&Forecast>,
    ) -> Result<String> {
        let Ran { outcome, pairs, verdicts } = ran;
        let lines = rows::json_lines(pairs)?;
        let top = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        Ok(self.record(
            0,
            json!({
                "already_finished": outcome.already_finished,
                "stages_reused": outcome.stages_reused,
                "alarms": verdicts,
                "manifest": outcome.manifest,
                "evaluation": evaluation,
                "forecast": forecast,
                "top_pairs": top.map_err(|e| Error::bug("a row is not JSON").because(e))?,
            }),
        ))
    }

    /// The record of a run that `error` ended, as JSON: its finished stages instead of a manifest.
    pub(in crate::cli) fn failure(&self, error: &Error) -> String {
        self.record(
            error.kind().exit_code(),
            json!({
                "error": masked(&error.to_string()),
                "causes": causes(error).iter().map(|cause| masked(cause)).collect::<Vec<_>>(),
                "kind": error.kind().name(),
                "stages": self.stages,
            }),
        )
    }

    fn record(&self, exit_code: u8, how: Value) -> String {
        let mut record = json!({
            "run_id": self.id,
            "name": self.name,
            "exit_code": exit_code,
            "seconds": self.seconds,
            "ended_unix_seconds": self.at,
            "recoveries": self.recoveries,
            "peak_memory_bytes": self.peak_memory,
        });
        if let (Some(record), Value::Object(how)) = (record.as_object_mut(), how) {
            record.extend(how);
        }
        format!("{MARK}{}\n", &format!("{record:#}")[1..])
    }

    /// The metrics of the run.
    pub(in crate::cli) fn metrics(&self, how: Result<&Outcome, &Error>) -> Result<Vec<MetricFamily>> {
        metrics(&Measured {
            name: self.name,
            run_id: self.id,
            exit_code: how.err().map_or(0, |error| error.kind().exit_code()),
            seconds: self.seconds,
            ended: self.at,
            outcome: how.ok(),
            stages: &self.stages,
            recoveries: self.recoveries,
        })
    }
}
