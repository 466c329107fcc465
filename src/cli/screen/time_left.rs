//! Estimates the remaining time of a run from the costs of its stages and its speed so far.
//!
//! Costs are seconds from a forecast, or proportions from typical runs. If a run takes twice as long as its forecast, the remaining
//! stages are expected to take twice as long too.

use std::collections::BTreeMap;

use crate::cli::screen::print;
use crate::forecast::Forecast;

/// The costs of stages in typical runs, relative to 100 for [`FIRST`]. Most were measured on generated documents and on news. Costs of
/// stages that read texts or reference documents again are guesses. The speed of a run corrects the costs.
const TYPICAL: [(&str, f64); 25] = [
    (FIRST, 100.0),
    ("left_out", 20.0),
    ("duplicates", 20.0),
    ("group_sizes", 20.0),
    ("frequent", 10.0),
    ("cuts", 70.0),
    ("frequencies", 35.0),
    ("units", 75.0),
    ("run_fingerprints", 70.0),
    ("run_fingerprint_hits", 4.0),
    ("windows", 35.0),
    ("reference_duplicates", 20.0),
    ("reference", 60.0),
    ("copies", 3.0),
    ("candidates", 25.0),
    ("scores", 20.0),
    ("texts", 20.0),
    ("pairs", 5.0),
    ("ranks", 4.0),
    ("represented", 4.0),
    ("removals", 4.0),
    ("losses", 8.0),
    ("repeated_windows", 40.0),
    ("spans", 60.0),
    ("passages", 80.0),
];

/// The stage that reads texts in every run.
const FIRST: &str = "sketches";

/// The cost of stages that are not in [`TYPICAL`]. Most of them only sort a few rows.
const SMALL: f64 = 2.0;

/// The share of a run that must be done before typical costs give an estimate.
const ENOUGH: f64 = 0.02;

/// The weight of a forecast in seconds: it counts like measured time for this share of the run.
const TRUST: f64 = 0.1;

/// The costs of stages. All costs have the same unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Costs {
    stages: BTreeMap<String, f64>,
    /// The cost of each stage that is not in `stages`.
    other: f64,
    /// Whether costs are seconds on this machine, not only proportions.
    in_seconds: bool,
}

impl Costs {
    pub(crate) fn typical() -> Self {
        let stages = TYPICAL.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect();
        Self { stages, other: SMALL, in_seconds: false }
    }

    /// Returns the costs from a forecast. On a cluster (`is_here` is false), only their proportions are used.
    pub(crate) fn forecast(forecast: &Forecast, is_here: bool) -> Self {
        let stages = forecast.stages.iter().map(|stage| (stage.name.clone(), stage.seconds.value)).collect();
        Self { stages, other: 0.0, in_seconds: is_here }
    }

    fn stage(&self, name: &str) -> f64 {
        self.stages.get(name).copied().unwrap_or(self.other)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimeLeft {
    costs: Costs,
    /// The stages that have not started, with their costs.
    waiting: Vec<(String, f64)>,
    /// The running stages: name, cost, and share of the input that was read.
    running: Vec<(String, f64, f64)>,
    /// The total cost of the stages that this run executed.
    done: f64,
    /// Whether all stages of the run have ended and other work follows.
    is_over: bool,
}

impl TimeLeft {
    pub(crate) fn new(costs: Costs, stages: &[String]) -> Self {
        let waiting = stages.iter().map(|name| (name.clone(), costs.stage(name))).collect();
        Self { costs, waiting, running: Vec::new(), done: 0.0, is_over: false }
    }

    pub(crate) fn begins(&mut self, name: &str) {
        self.is_over |= self.waiting.is_empty() && self.running.is_empty();
        let cost = match self.waiting.iter().position(|(waiting, _)| waiting == name) {
            Some(at) => self.waiting.remove(at).1,
            None => self.costs.stage(name),
        };
        self.running.push((name.to_owned(), cost, 0.0));
    }

    pub(crate) fn reaches(&mut self, name: &str, share: f64) {
        if let Some((_, _, reached)) = self.running.iter_mut().find(|(running, ..)| running == name) {
            *reached = share.clamp(0.0, 1.0);
        }
    }

    /// Records that a stage ends. If an earlier run had finished it (`reused`), it does not affect the speed.
    pub(crate) fn ends(&mut self, name: &str, reused: bool) {
        if let Some(at) = self.running.iter().position(|(running, ..)| running == name) {
            let (_, cost, _) = self.running.remove(at);
            self.done += if reused { 0.0 } else { cost };
        }
    }

    /// Estimates the seconds until the end of the run, `elapsed` seconds after its start. Returns `None` while no estimate is possible,
    /// and after the end.
    pub(crate) fn seconds(&self, elapsed: f64) -> Option<f64> {
        let done = self.done + self.running.iter().map(|(_, cost, share)| cost * share).sum::<f64>();
        let running: f64 = self.running.iter().map(|(_, cost, share)| cost * (1.0 - share)).sum();
        // The sum of no numbers is -0.0, so 0.0 is added.
        let left = 0.0 + running + self.waiting.iter().map(|(_, cost)| cost).sum::<f64>();
        let all = done + left;
        let trust = if self.costs.in_seconds { TRUST * all } else { 0.0 };
        let is_enough = trust > 0.0 || done >= ENOUGH * all;
        (is_enough && !self.is_over && done + trust > 0.0).then(|| left * (elapsed + trust) / (done + trust))
    }
}

pub(crate) fn text(name: &str, (number, stages): (usize, usize), left: Option<f64>) -> String {
    let left = left.map(|seconds| format!(", {} to go", print::duration(seconds.ceil()))).unwrap_or_default();
    format!("[stage {number} of {stages}{left}] {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn costs(in_seconds: bool) -> Costs {
        let stages = [("a", 60.0), ("b", 30.0), ("c", 10.0)].map(|(name, cost)| (name.to_owned(), cost));
        Costs { stages: stages.into(), other: 5.0, in_seconds }
    }

    #[test]
    fn the_rest_follows_from_costs_and_speed() {
        let mut run = TimeLeft::new(costs(false), &names(&["a", "b", "c"]));
        assert_eq!(run.seconds(1.0), None, "nothing was read yet");
        run.begins("a");
        run.reaches("a", 0.01);
        assert_eq!(run.seconds(1.0), None, "0.6 % of the run is too little");
        run.reaches("a", 0.5);
        // The finished work costs 30 of 100 and took 6 seconds.
        assert_eq!(run.seconds(6.0), Some(14.0));
        run.ends("a", false);
        assert_eq!(run.seconds(12.0), Some(8.0));
        // Two stages run at the same time, and one of them was not expected.
        run.begins("b");
        run.begins("new");
        run.reaches("new", 1.0);
        assert_eq!(run.seconds(13.0), Some(40.0 * 13.0 / 65.0));
        run.ends("new", false);
        run.ends("b", false);
        run.begins("c");
        run.ends("c", false);
        assert_eq!(run.seconds(20.0), Some(0.0));
        run.begins("rewrite");
        assert_eq!(run.seconds(20.0), None, "this is not of the run");
        let mut run = TimeLeft::new(costs(false), &names(&["a", "b", "c"]));
        run.begins("a");
        run.ends("a", true);
        assert_eq!(run.seconds(0.1), None);
        run.begins("b");
        run.reaches("b", 0.5);
        assert_eq!(run.seconds(3.0), Some(5.0));
    }

    #[test]
    fn a_forecast_counts_before_anything_was_measured() {
        let mut run = TimeLeft::new(costs(true), &names(&["a", "b", "c"]));
        assert_eq!(run.seconds(0.0), Some(100.0));
        run.begins("a");
        run.reaches("a", 0.5);
        // The forecast was 30 seconds, but 70 have passed. The forecast counts like measured time for a tenth of the run.
        assert_eq!(run.seconds(70.0), Some(70.0 * 80.0 / 40.0));
        let mut run = TimeLeft::new(costs(true), &names(&["a"]));
        run.begins("a");
        run.ends("a", false);
        assert_eq!(run.seconds(30.0).map(f64::to_bits), Some(0.0_f64.to_bits()));
    }

    #[test]
    fn the_text_has_the_stage_and_the_time() {
        assert_eq!(text("scores", (3, 14), None), "[stage 3 of 14] scores");
        assert_eq!(text("scores", (3, 14), Some(41.2)), "[stage 3 of 14, 42 s to go] scores");
        assert_eq!(text("scores", (3, 14), Some(7_000.0)), "[stage 3 of 14, 117 min to go] scores");
        assert_eq!(text("scores", (3, 14), Some(0.2)), "[stage 3 of 14, 1.0 s to go] scores");
    }

    #[test]
    fn the_table_names_stages_that_exist() {
        let page = include_str!("../../../docs/internals/architecture.md");
        for (name, cost) in TYPICAL {
            assert!(page.contains(&format!("| `{name}` |")) && cost > SMALL, "{name}");
        }
    }
}
