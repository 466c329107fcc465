//! What an evaluation measured, in lines.

use std::fmt::Write;
use std::num::NonZeroUsize;

use crate::cli::support::print;
use crate::cli::support::work::on_session;
use crate::error::Result;
use crate::evaluate::{Agreement, ByExactRule, Estimate, Evaluation, EvaluationSettings, evaluate};
use crate::job::Job;

/// Measures the finished output of `job` on a sample, with the memory of its engine.
pub(in crate::cli) fn measure(job: &Job, sample: NonZeroUsize) -> Result<Evaluation> {
    let memory = job.engine.memory_bytes();
    let settings = EvaluationSettings { sample: sample.get(), seed: 1, memory, truth: None };
    on_session(memory, async |session, _| evaluate(session, &job.output.url, &settings).await)
}

/// An estimate as a share with its interval.
pub(in crate::cli) fn shown(estimate: Option<Estimate>) -> [String; 2] {
    match estimate {
        Some(Estimate { value, low, high }) => [format!("{value:.4}"), format!("{low:.4} to {high:.4}")],
        None => ["none".to_owned(), String::new()],
    }
}

/// The unknown ids that are named.
const NAMED: usize = 5;

/// A recall that needs no larger sample.
const ENOUGH: f64 = 0.95;

/// An evaluation for people.
pub(in crate::cli) fn text(evaluation: &Evaluation) -> String {
    let Evaluation { recall, missed_pairs, .. } = evaluation;
    let row = |name: &str, estimate| [vec![name.to_owned()], shown(estimate).to_vec()].concat();
    let rows = [
        row("pairs of different texts", recall.pairs),
        row("documents with a pair", recall.documents),
        row("removals", recall.removals),
    ];
    let mut text = print::table(&["recall of", "value", "95 % interval"], &rows);
    let lows = [recall.pairs, recall.documents, recall.removals].into_iter().flatten().map(|of| of.low);
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
        "\n{found} of different shingle sets found, {:.0} missed ({:.0} to {:.0}), by {} of {} shingle sets",
        missed_pairs.value,
        missed_pairs.low,
        missed_pairs.high,
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
            let named: Vec<&str> = ids.iter().take(NAMED).map(String::as_str).collect();
            let named = named.join(", ");
            let _ = writeln!(
                text,
                "known ids without a compared document: {count}, such as {named}; pairs with them count as missed"
            );
        }
    }
    let rows: Vec<Vec<String>> = evaluation
        .by_similarity
        .iter()
        .map(|at| {
            let similarity = format!("{:.3} to {:.3}", at.from, at.to);
            let [value, interval] = shown(at.measured);
            vec![similarity, print::count(at.pairs), value, interval, format!("{:.4}", at.expected)]
        })
        .collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&print::table(
            &["similarity", "pairs of the sample", "recall", "95 % interval", "expected"],
            &rows,
        ));
    }
    text
}
