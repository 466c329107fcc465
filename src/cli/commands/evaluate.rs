//! `resemblance evaluate`: estimates from a sample how many pairs a finished output missed, or how many of its pairs are true duplicates.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::arguments;
use crate::cli::process::{files, on_session};
use crate::cli::screen::print;
use crate::error::{Context, Error, Result};
use crate::evaluate::audit::{self, Judged, JudgedStratum, Pack, PrecisionAt, StratumOfPack};
use crate::evaluate::{Agreement, ByExactRule, Estimate, Evaluation, EvaluationSettings, evaluate};
use crate::job::{Job, whole};

/// Measure on a sample which pairs a finished output missed, or which of its pairs are true duplicates
///
/// Draws shingle sets and compares every document of the source with them by its text, without candidates. A pair in this exact search that
/// is not in the output was missed. The source is read twice, and nothing is written.
///
/// With --audit, the command instead draws pairs that people or programs judge. It writes them as a page to label with the keyboard, as CSV
/// and as Parquet. --labels reads the labels and estimates the share of true duplicates, among all pairs and at each threshold.
#[derive(clap::Args)]
#[command(after_help = "  resemblance evaluate out/reviews/
  resemblance evaluate out/reviews/ --sample 5000 --seed 2 --json
  resemblance evaluate out/reviews/ --truth known.csv
  resemblance evaluate out/reviews/ --audit 400 --to audit/
  resemblance evaluate out/reviews/ --labels labels.csv")]
pub(crate) struct Evaluate {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    #[command(flatten)]
    settings: EvaluationSettings,
    /// Draw this many pairs to judge, from these strata: near the threshold, chained, not contained, large clusters, groups, and the rest
    #[arg(long, value_name = "N", conflicts_with = "truth", value_parser = whole(1..=arguments::MAX_AUDITED))]
    audit: Option<usize>,
    /// The folder for the files with pairs to judge: audit.html, audit.csv and audit.parquet; these files must not exist
    #[arg(long, value_name = "DIR", requires = "audit", default_value = "audit")]
    to: String,
    /// A CSV or Parquet file with labels of such pairs: yes, no or unsure in the column label
    #[arg(long, value_name = "FILE", conflicts_with_all = ["audit", "truth"])]
    labels: Option<String>,
    /// With --audit, the new location of a moved source; give as many locations as the source has URLs, in the same order
    #[arg(long, value_name = "URL", requires = "audit")]
    source: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(pairs) = self.audit {
            return self.draw(pairs);
        }
        if let Some(file) = &self.labels {
            let judged = on_session(self.settings.memory, async |session, _| {
                audit::judge(session, &self.output, file).await
            })?;
            return print::json_or(self.json, &judged, || judged_text(&judged));
        }
        let evaluation = on_session(self.settings.memory, async |session, _| {
            evaluate(session, &self.output, &self.settings).await
        })?;
        print::json_or(self.json, &evaluation, || text(&evaluation))
    }

    fn draw(&self, pairs: usize) -> Result<()> {
        let paths = pack_paths(&self.to)?;
        let settings = audit::AuditSettings { pairs, seed: self.settings.seed, places: self.source.clone() };
        let pack = on_session(self.settings.memory, async |session, _| {
            audit::audit(session, &self.output, &settings).await
        })?;
        write_pack(&pack, &paths)?;
        let record = json!({
            "drawn": pack.rows.len(),
            "pairs": pack.strata.iter().map(|stratum| stratum.pairs).sum::<u64>(),
            "strata": pack.strata,
            "files": paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        });
        print::json_or(self.json, &record, || pack_text(&pack, &paths, &self.output))
    }
}

/// Measures the finished output of `job`, with the memory of its engine.
pub(crate) fn measure(job: &Job, sample: usize) -> Result<Evaluation> {
    let memory = job.engine.memory_bytes();
    let settings = EvaluationSettings { sample, seed: EvaluationSettings::SEED, memory, truth: None };
    on_session(memory, async |session, _| evaluate(session, &job.output.url, &settings).await)
}

fn interval(estimate: Option<Estimate>) -> [String; 2] {
    match estimate {
        Some(Estimate { value, low, high }) => [format!("{value:.4}"), format!("{low:.4} to {high:.4}")],
        None => ["none".to_owned(), String::new()],
    }
}

/// Formats an estimated number. A number below 10 has one decimal place, unless it is 0.
fn estimated(number: f64) -> String {
    if number > 0.0 && number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// The maximum number of unknown ids that are shown.
const NAMED_IDS: usize = 5;

/// A larger sample is suggested if the lower end of the interval for the recall is below this.
const ENOUGH: f64 = 0.95;

pub(crate) fn text(evaluation: &Evaluation) -> String {
    let Evaluation { recall, missed_pairs, .. } = evaluation;
    let row = |name: &str, estimate| [vec![name.to_owned()], interval(estimate).to_vec()].concat();
    let rows = [
        row("pairs of different texts", recall.pairs),
        row("documents with a pair", recall.documents),
        row("removals", recall.removals),
    ];
    let mut text = print::table(&["recall of", "value", "95 % interval"], &rows);
    let lows =
        [recall.pairs, recall.documents, recall.removals].into_iter().flatten().map(|estimate| estimate.low);
    let low = lows.fold(1.0, f64::min);
    if low < ENOUGH && evaluation.sample < evaluation.shingle_sets {
        let (low, more) = ((100.0 * low).floor(), (5 * evaluation.sample).min(evaluation.shingle_sets));
        let _ = writeln!(
            text,
            "\neach recall is at least {low} % with 95 % certainty; --sample {more} narrows it"
        );
    }
    let found = print::counted(evaluation.found_pairs, "pair");
    let _ = writeln!(
        text,
        "\n{found} of different shingle sets found, {} missed ({} to {}), by {} of {} shingle sets",
        estimated(missed_pairs.value),
        estimated(missed_pairs.low),
        estimated(missed_pairs.high),
        print::count(evaluation.sample),
        print::count(evaluation.shingle_sets),
    );
    if let Some(ByExactRule { recall, precision }) = evaluation.by_exact_rule {
        let rows = [row("recall of pairs", recall), row("precision of pairs", precision)];
        let table = print::table(&["by exact similarity", "value", "95 % interval"], &rows);
        let _ = writeln!(text, "\nthese pairs were kept by their estimates\n{table}");
    }
    if let Some(expected) = evaluation.expected {
        let _ =
            writeln!(text, "expected recall of pairs at the exact similarities of the sample: {expected:.4}");
    }
    let wrong = evaluation.wrong_pairs;
    let _ = writeln!(text, "{} of the sample wrong", print::counted(wrong, "pair"));
    if let Some(bias) = evaluation.estimate {
        let pairs = print::counted(bias.pairs, "pair");
        let _ = writeln!(
            text,
            "estimates of signatures: bias {:+.4}, deviation {:.4} (over {pairs})",
            bias.bias, bias.deviation
        );
    }
    if let Some(truth) = &evaluation.truth {
        let Agreement { of, precision, recall, f1, adjusted_rand, .. } = truth;
        let shown = |value: &Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.4}"));
        let [precision, recall, f1, rand] = [precision, recall, f1, adjusted_rand].map(shown);
        let _ = writeln!(
            text,
            "known {of}: precision {precision}, recall {recall}, F1 {f1}, adjusted Rand index {rand}"
        );
        let ids = &truth.unknown_ids;
        if !ids.is_empty() {
            let count = print::count(ids.len() as u64);
            let named: Vec<&str> = ids.iter().take(NAMED_IDS).map(String::as_str).collect();
            let named = named.join(", ");
            let _ = writeln!(
                text,
                "known ids without a compared document: {count}, such as {named}; pairs with them count as missed"
            );
        }
    }
    let rows = evaluation.by_similarity.iter().map(|at| {
        let similarity = format!("{:.3} to {:.3}", at.from, at.to);
        let [value, range] = interval(at.measured);
        vec![similarity, print::count(at.pairs), value, range, format!("{:.4}", at.expected)]
    });
    if !evaluation.by_similarity.is_empty() {
        text.push('\n');
        let header = ["similarity", "pairs of the sample", "recall", "95 % interval", "expected"];
        text.push_str(&print::table(&header, rows));
    }
    text
}

const FILES: [&str; 3] = ["audit.html", "audit.csv", "audit.parquet"];

/// Returns the paths of the files of a pack in `folder`. Fails with `Kind::Job` if a file exists, because it can contain labels.
fn pack_paths(folder: &str) -> Result<[PathBuf; 3]> {
    let paths = FILES.map(|name| Path::new(folder).join(name));
    match paths.iter().find(|path| path.exists()) {
        Some(path) => Err(Error::job(format!(
            "--to: {} exists, and may hold labels: name another folder, or remove it",
            path.display()
        ))),
        None => Ok(paths),
    }
}

/// Writes a pack to `paths`. Existing files are not replaced.
fn write_pack(pack: &Pack, paths: &[PathBuf; 3]) -> Result<()> {
    let contents = [pack.html()?.into_bytes(), pack.csv()?, pack.parquet()?];
    for (path, content) in paths.iter().zip(contents) {
        let folder = files::folder(path);
        std::fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        files::write(path, &content, false)?;
    }
    Ok(())
}

fn pack_text(pack: &Pack, paths: &[PathBuf; 3], output: &str) -> String {
    let row = |stratum: &StratumOfPack| {
        let (pairs, drawn) = (print::count(stratum.pairs), print::count(stratum.drawn));
        vec![stratum.name.clone(), pairs, drawn, stratum.what.clone()]
    };
    let mut text = print::table(&["stratum", "pairs", "drawn", "contents"], pack.strata.iter().map(row));
    let [html, csv, parquet] = paths;
    let _ = writeln!(
        text,
        "\n{} to judge are in\n  {}: open it in a browser, label with the keys y, n and ?, and save with s\n  {}: or fill the column \
         label with yes, no or unsure\n  {}: for programs",
        print::counted(pack.rows.len() as u64, "pair"),
        html.display(),
        csv.display(),
        parquet.display()
    );
    let _ = writeln!(text, "then: resemblance evaluate {output} --labels labels.csv");
    text
}

fn judged_text(judged: &Judged) -> String {
    let Judged { rows, unsure, missing, pairs, all, strata, curve, .. } = judged;
    let has_chained = strata.iter().any(|stratum| stratum.name == "chained");
    let row = |name: &str, pairs: u64, judged: u64, estimate| {
        [vec![name.to_owned(), print::count(pairs), print::count(judged)], interval(estimate).to_vec()]
            .concat()
    };
    let stratum_row =
        |stratum: &JudgedStratum| row(&stratum.name, stratum.pairs, stratum.judged, stratum.share);
    let mut table: Vec<Vec<String>> = strata.iter().map(stratum_row).collect();
    let total = |with_chained: bool| {
        let counted = strata.iter().filter(|stratum| with_chained || stratum.name != "chained");
        counted.fold((0, 0), |(pairs, judged), stratum| (pairs + stratum.pairs, judged + stratum.judged))
    };
    let found = total(false);
    table.push(row("all pairs that were found", found.0, found.1, *pairs));
    if has_chained {
        let every = total(true);
        table.push(row("and the chained ones", every.0, every.1, *all));
    }
    let mut text = print::table(&["true duplicates in", "pairs", "judged", "share", "95 % interval"], &table);
    let _ = writeln!(
        text,
        "\n{}: {} judged, {} unsure, {} without a label\n",
        print::counted(*rows, "pair"),
        print::count(judged.judged),
        print::count(*unsure),
        print::count(*missing)
    );
    let at = |at: &PrecisionAt| row(&format!("{:.3}", at.threshold), at.pairs, at.judged, at.share);
    let header = ["similarity at least", "pairs", "judged", "true duplicates", "95 % interval"];
    text + &print::table(&header, curve.iter().map(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_estimates_have_a_decimal_place() {
        assert_eq!([0.0, 0.5, 9.96, 10.4].map(estimated), ["0", "0.5", "10.0", "10"]);
    }
}
