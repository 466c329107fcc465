//! Writes the record of a run, which contains its name, its end and its result. Events, spans and metrics contain parts of the record for
//! other programs.

pub(crate) mod http;
pub(crate) mod lineage;
pub(crate) mod metrics;
pub(crate) mod telemetry;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::address::masked;
use crate::apply::alarms::AlarmVerdict;
use crate::cli::process::run_job::Ran;
use crate::cli::screen::print;
use crate::engine::Progress;
use crate::error::{Error, Result, distinct_messages};
use crate::evaluate::Evaluation;
use crate::forecast::Forecast;
use crate::lookup::rows;
use crate::machine;
use crate::output::manifest::{Run as Manifest, StageTime};

/// The first characters of every record.
pub(crate) const MARK: &str = "{\n  \"record\": \"resemblance run\",";

/// Records the duration, the stages and the recoveries of a run.
pub(crate) struct Recorder {
    began: Instant,
    stages: Mutex<Vec<StageTime>>,
    recoveries: AtomicU64,
}

impl Recorder {
    /// Starts to record a run. The duration is measured from now on.
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), stages: Mutex::default(), recoveries: AtomicU64::new(0) })
    }

    /// Ends the recording of a run. `name` is the name of the job, and `id` is the id of the run.
    pub(crate) fn end<'a>(&self, name: &'a str, id: &'a str) -> EndedRun<'a> {
        let stages = self.stages.lock().clone();
        let seconds = self.began.elapsed().as_secs_f64();
        let recoveries = self.recoveries.load(Ordering::Relaxed);
        let at = machine::now();
        EndedRun { name, id, seconds, at, stages, recoveries, peak_memory: machine::peak_memory() }
    }
}

impl Progress for Recorder {
    fn recovering(&self, _why: &str) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, _reused: bool) {
        let stage = StageTime { name: name.to_owned(), seconds, rows, bytes: 0, join: None };
        self.stages.lock().push(stage);
    }
}

/// A run that has ended.
#[derive(Debug, Serialize)]
pub(crate) struct EndedRun<'a> {
    /// The name of the job.
    pub(super) name: &'a str,
    #[serde(rename = "run_id")]
    pub(super) id: &'a str,
    pub(super) seconds: f64,
    /// The time when the run ended, in seconds since 1970.
    #[serde(rename = "ended_unix_seconds")]
    pub(super) at: f64,
    #[serde(skip)]
    pub(super) stages: Vec<StageTime>,
    /// The number of times that a cluster lost finished work or submitted a stage again.
    pub(super) recoveries: u64,
    /// The peak memory of the process, if the system reports it.
    #[serde(rename = "peak_memory_bytes")]
    pub(crate) peak_memory: Option<u64>,
}

/// The record of a run. The fields of the result come last.
#[derive(Serialize)]
struct RunRecord<'a, R> {
    record: &'static str,
    #[serde(flatten)]
    run: &'a EndedRun<'a>,
    exit_code: u8,
    #[serde(flatten)]
    result: R,
}

#[derive(Serialize)]
struct Success<'a> {
    already_finished: bool,
    stages_reused: usize,
    alarms: &'a [AlarmVerdict],
    manifest: &'a Manifest,
    evaluation: Option<&'a Evaluation>,
    forecast: Option<&'a Forecast>,
    top_pairs: Vec<Value>,
}

/// The error that ended a run, and the stages that were finished before the error.
#[derive(Serialize)]
struct FailureRecord<'a> {
    error: String,
    causes: Vec<String>,
    kind: &'static str,
    stages: &'a [StageTime],
}

impl EndedRun<'_> {
    /// Returns the record of a successful run as JSON.
    pub(crate) fn success(
        &self,
        ran: &Ran,
        evaluation: Option<&Evaluation>,
        forecast: Option<&Forecast>,
    ) -> Result<String> {
        let Ran { outcome, pairs, verdicts } = ran;
        let lines = rows::json_lines(pairs)?;
        let top = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let success = Success {
            already_finished: outcome.already_finished,
            stages_reused: outcome.stages_reused,
            alarms: verdicts,
            manifest: &outcome.manifest,
            evaluation,
            forecast,
            top_pairs: top.map_err(|e| Error::bug("a row is not JSON").because(e))?,
        };
        self.record(0, success)
    }

    /// Returns the record of a failed run as JSON. `error` is the error that ended the run.
    pub(crate) fn failure(&self, error: &Error) -> Result<String> {
        let failure = FailureRecord {
            error: masked(&error.to_string()),
            causes: distinct_messages(error).iter().skip(1).map(|cause| masked(cause)).collect(),
            kind: error.kind().name(),
            stages: &self.stages,
        };
        self.record(error.kind().exit_code(), failure)
    }

    fn record(&self, exit_code: u8, result: impl Serialize) -> Result<String> {
        print::json(&RunRecord { record: "resemblance run", run: self, exit_code, result })
    }
}
