//! Writes the record of a run: its name, its end and its result. The submodules send parts of the record to other programs.

pub(crate) mod http;
pub(crate) mod lineage;
pub(crate) mod metrics;
pub(crate) mod telemetry;

use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

use crate::address::masked;
use crate::apply::alarms::AlarmVerdict;
use crate::cli::process::run_job::Ran;
use crate::cli::screen::print;
use crate::engine::StageEvent;
use crate::error::{Error, Result, distinct_messages};
use crate::evaluate::Evaluation;
use crate::forecast::Forecast;
use crate::lookup::rows;
use crate::machine;
use crate::output::manifest::{Run as Manifest, StageTime};

/// The first characters of every record.
pub(crate) const MARK: &str = "{\n  \"record\": \"resemblance run\",";

#[derive(Debug, Serialize)]
pub(crate) struct EndedRun<'a> {
    pub(super) name: &'a str,
    #[serde(rename = "run_id")]
    pub(super) id: &'a str,
    pub(super) seconds: f64,
    /// The time when the run ended, in seconds since 1970.
    #[serde(rename = "ended_unix_seconds")]
    pub(super) at: f64,
    #[serde(skip)]
    pub(super) stages: Vec<StageTime>,
    /// The number of times that the cluster lost finished work, or that a stage was submitted again.
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
    #[serde(flatten)]
    failure: Option<FailureRecord<'a>>,
}

#[derive(Serialize)]
struct FailureRecord<'a> {
    error: String,
    causes: Vec<String>,
    kind: &'static str,
    stages: &'a [StageTime],
}

impl<'a> EndedRun<'a> {
    /// Creates the record of the run `id` of the job `name`, which began at `began`. `events` are the events of its stages.
    pub(crate) fn new(name: &'a str, id: &'a str, began: Instant, events: &[(Instant, StageEvent)]) -> Self {
        let (mut stages, mut recoveries) = (Vec::new(), 0);
        for (_, event) in events {
            match event {
                StageEvent::Begins(_) => {}
                StageEvent::Recovers(_) => recoveries += 1,
                StageEvent::Ends { name, rows, seconds, .. } => stages.push(StageTime {
                    name: name.clone(),
                    seconds: *seconds,
                    rows: *rows,
                    bytes: 0,
                    join: None,
                }),
            }
        }
        let (seconds, at, peak_memory) =
            (began.elapsed().as_secs_f64(), machine::now(), machine::peak_memory());
        Self { name, id, seconds, at, stages, recoveries, peak_memory }
    }

    /// Returns the record of a run with a complete result as JSON. `alarm` is the error if a limit in `[alarms]` is exceeded.
    pub(crate) fn success(
        &self,
        ran: &Ran,
        evaluation: Option<&Evaluation>,
        forecast: Option<&Forecast>,
        alarm: Option<&Error>,
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
            failure: alarm.map(|alarm| self.described(alarm)),
        };
        self.record(alarm.map_or(0, |alarm| alarm.kind().exit_code()), success)
    }

    pub(crate) fn failure(&self, error: &Error) -> Result<String> {
        self.record(error.kind().exit_code(), self.described(error))
    }

    fn described(&self, error: &Error) -> FailureRecord<'_> {
        FailureRecord {
            error: masked(&error.to_string()),
            causes: distinct_messages(error).iter().skip(1).map(|cause| masked(cause)).collect(),
            kind: error.kind().name(),
            stages: &self.stages,
        }
    }

    fn record(&self, exit_code: u8, result: impl Serialize) -> Result<String> {
        print::json(&RunRecord { record: "resemblance run", run: self, exit_code, result })
    }
}
