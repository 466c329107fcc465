//! The time that a run will still take, by the costs of its stages and by how fast it has been so far.
//!
//! The costs are seconds of a forecast, or those of typical runs. What was measured counts from the first moment: a run that is
//! twice as slow as its forecast is expected to stay so.

use std::collections::BTreeMap;

use crate::cli::support::print;
use crate::forecast::Forecast;

/// The costs of stages in typical runs, where [`FIRST`] costs 100. Most were measured on generated documents and on news, with
/// thresholds of 0.5 and 0.8, bands and prefixes, lines and runs of words; those that read texts or reference documents once more
/// are estimates. A run over data of another kind corrects them while it runs.
const TYPICAL: [(&str, f64); 26] = [
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
    ("passage_positions", 25.0),
    ("passages", 55.0),
];

/// The stage that every run has which reads texts.
const FIRST: &str = "sketches";

/// The cost of a stage that has none in the table, such as those that only sort a few rows.
const SMALL: f64 = 2.0;

/// The share of a run that must be done before its speed says something about the rest.
const ENOUGH: f64 = 0.02;

/// How much a forecast in seconds counts against what was measured: as much as this share of the run.
const TRUST: f64 = 0.1;

/// The costs of stages, in the same unit.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Costs {
    of: BTreeMap<String, f64>,
    /// The cost of a stage that is not in `of`.
    other: f64,
    /// Whether the unit is the second on this machine.
    in_seconds: bool,
}

impl Costs {
    /// Those of typical runs.
    pub(in crate::cli) fn typical() -> Self {
        let of = TYPICAL.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect();
        Self { of, other: SMALL, in_seconds: false }
    }

    /// Those of a forecast. On a cluster, only their proportions count.
    pub(in crate::cli) fn forecast(forecast: &Forecast, is_here: bool) -> Self {
        let of = forecast.stages.iter().map(|stage| (stage.name.clone(), stage.seconds.value)).collect();
        Self { of, other: 0.0, in_seconds: is_here }
    }

    fn stage(&self, name: &str) -> f64 {
        self.of.get(name).copied().unwrap_or(self.other)
    }
}

/// The progress of a run in costs.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct TimeLeft {
    costs: Costs,
    /// Stages that have not begun, with their costs.
    waiting: Vec<(String, f64)>,
    /// Stages that run, with their costs and the shares of their inputs that were read.
    running: Vec<(String, f64, f64)>,
    /// The costs of the stages that this run finished.
    done: f64,
    /// Whether its stages ended, and others follow that are not of the run.
    is_over: bool,
}

impl TimeLeft {
    /// The time of a run with these stages.
    pub(in crate::cli) fn of(costs: Costs, stages: &[String]) -> Self {
        let waiting = stages.iter().map(|name| (name.clone(), costs.stage(name))).collect();
        Self { costs, waiting, running: Vec::new(), done: 0.0, is_over: false }
    }

    /// A stage begins.
    pub(in crate::cli) fn begins(&mut self, name: &str) {
        self.is_over |= self.waiting.is_empty() && self.running.is_empty();
        let cost = match self.waiting.iter().position(|(waiting, _)| waiting == name) {
            Some(at) => self.waiting.remove(at).1,
            None => self.costs.stage(name),
        };
        self.running.push((name.to_owned(), cost, 0.0));
    }

    /// A stage has read this share of its input.
    pub(in crate::cli) fn reaches(&mut self, name: &str, share: f64) {
        if let Some((_, _, reached)) = self.running.iter_mut().find(|(running, ..)| running == name) {
            *reached = share.clamp(0.0, 1.0);
        }
    }

    /// A stage ended. One that an earlier run had finished says nothing about the speed of this one.
    pub(in crate::cli) fn ends(&mut self, name: &str, reused: bool) {
        if let Some(at) = self.running.iter().position(|(running, ..)| running == name) {
            let (_, cost, _) = self.running.remove(at);
            self.done += if reused { 0.0 } else { cost };
        }
    }

    /// Seconds until the end of the run, `elapsed` seconds after its beginning; `None` as long as they cannot be estimated.
    pub(in crate::cli) fn seconds(&self, elapsed: f64) -> Option<f64> {
        let done = self.done + self.running.iter().map(|(_, cost, share)| cost * share).sum::<f64>();
        let running: f64 = self.running.iter().map(|(_, cost, share)| cost * (1.0 - share)).sum();
        // The sum of no numbers is -0.0.
        let left = 0.0 + running + self.waiting.iter().map(|(_, cost)| cost).sum::<f64>();
        let all = done + left;
        let trust = if self.costs.in_seconds { TRUST * all } else { 0.0 };
        let is_enough = trust > 0.0 || done >= ENOUGH * all;
        (is_enough && !self.is_over && done + trust > 0.0).then(|| left * (elapsed + trust) / (done + trust))
    }
}

/// The place of a stage in its run, with the seconds that are left.
pub(in crate::cli) fn text(name: &str, (number, stages): (usize, usize), left: Option<f64>) -> String {
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
        let of = [("a", 60.0), ("b", 30.0), ("c", 10.0)].into_iter();
        Costs { of: of.map(|(name, cost)| (name.to_owned(), cost)).collect(), other: 5.0, in_seconds }
    }

    #[test]
    fn what_is_left_follows_from_costs_and_speed() {
        let mut run = TimeLeft::of(costs(false), &names(&["a", "b", "c"]));
        assert_eq!(run.seconds(1.0), None, "nothing was read yet");
        run.begins("a");
        run.reaches("a", 0.01);
        assert_eq!(run.seconds(1.0), None, "0.6 % of the run is too little");
        run.reaches("a", 0.5);
        // 30 of 100 took 6 seconds.
        assert_eq!(run.seconds(6.0), Some(14.0));
        run.ends("a", false);
        assert_eq!(run.seconds(12.0), Some(8.0));
        // Two at once, and one that was not expected.
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
    }

    #[test]
    fn a_forecast_counts_before_anything_was_measured() {
        let mut run = TimeLeft::of(costs(true), &names(&["a", "b", "c"]));
        assert_eq!(run.seconds(0.0), Some(100.0));
        run.begins("a");
        run.reaches("a", 0.5);
        // 30 seconds were expected and took 70: the rest is slower too, though the forecast still counts as a tenth of the run.
        assert_eq!(run.seconds(70.0), Some(70.0 * 80.0 / 40.0));
    }

    #[test]
    fn nothing_is_left_at_the_end() {
        let mut run = TimeLeft::of(costs(true), &names(&["a"]));
        run.begins("a");
        run.ends("a", false);
        assert_eq!(run.seconds(30.0).map(f64::to_bits), Some(0.0_f64.to_bits()));
    }

    #[test]
    fn a_stage_of_an_earlier_run_does_not_make_this_one_quick() {
        let mut run = TimeLeft::of(costs(false), &names(&["a", "b", "c"]));
        run.begins("a");
        run.ends("a", true);
        assert_eq!(run.seconds(0.1), None);
        run.begins("b");
        run.reaches("b", 0.5);
        assert_eq!(run.seconds(3.0), Some(5.0));
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
        let page = include_str!("../../../docs/architecture.md");
        for (name, cost) in TYPICAL {
            assert!(page.contains(&format!("| `{name}` |")) && cost > SMALL, "{name}");
        }
    }
}
