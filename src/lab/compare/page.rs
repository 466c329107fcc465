//! The page of `resemblance compare`.

use super::{ComparedMethod, Comparison, Crossing, FastestMethod, Measurement, SampleMeasurement};
use crate::page::settings::{self, seconds};
use crate::page::text::{count, decimal};
use crate::page::{Axis, Chart, HtmlPage, HtmlTable, Scale, Section, Series};

/// The charts, each with the name of its file: the total from texts to pairs, and the search alone. The first one also
/// has the `added` lines.
pub(crate) fn charts(comparison: &Comparison, added: &[Series]) -> [(&'static str, Chart); 2] {
    let others = match added.is_empty() {
        true => "",
        false => " The times of other programs were given, not measured here.",
    };
    let mut whole = chart(
        comparison,
        "Seconds from texts to pairs, by number of documents",
        &format!(
            "including the time to build what it needs. Where two lines cross, one method overtakes the other.{others}"
        ),
        &comparison.whole,
        |one| one.total_seconds,
    );
    whole.series.extend(added.iter().cloned());
    let search = chart(
        comparison,
        "Seconds of the search alone, by number of documents",
        "after the shingles, and the signatures if it needs them, were built.",
        &comparison.search,
        |one| one.seconds,
    );
    [("compare", whole), ("compare-search", search)]
}

/// Seconds by number of documents, a line for each method; both axes by powers of ten.
fn chart(
    comparison: &Comparison,
    title: &str,
    with: &str,
    verdict: &FastestMethod,
    seconds: fn(&Measurement) -> f64,
) -> Chart {
    let line = |method: ComparedMethod| {
        let of = |sample: &SampleMeasurement| {
            let one = sample.methods.iter().find(|one| one.method == method)?;
            Some((sample.documents as f64, seconds(one)))
        };
        Series::new(method.name(), comparison.samples.iter().filter_map(of).collect())
    };
    Chart {
        title: title.into(),
        caption: format!(
            "Each line is a method that finds the pairs of similarity {} or more, {with} {}",
            comparison.job.score.threshold,
            fastest(comparison, verdict).join(" "),
        ),
        x: Axis::new("documents (logarithmic)", Scale::Log),
        y: Axis::new("seconds (logarithmic)", Scale::Log),
        series: ComparedMethod::ALL.into_iter().map(line).collect(),
    }
}

/// Sentences on the total and on the search alone: which method is the fastest from which size on, and the other
/// changes of order.
pub(crate) fn verdicts(comparison: &Comparison) -> [(&'static str, Vec<String>); 2] {
    [
        ("From texts to pairs", whole_verdict(comparison, &comparison.whole)),
        ("The search alone", whole_verdict(comparison, &comparison.search)),
    ]
}

/// Both, in a sentence for each.
fn whole_verdict(comparison: &Comparison, verdict: &FastestMethod) -> Vec<String> {
    [fastest(comparison, verdict), overtaken(verdict)].concat()
}

/// The sizes at which one method overtakes another that was not the fastest.
fn overtaken(verdict: &FastestMethod) -> Vec<String> {
    let sentence = |crossing: &Crossing| {
        let (documents, method) = (count(crossing.documents as u64), crossing.method.name());
        format!("At {documents} documents {method} has overtaken {}.", crossing.overtaken.name())
    };
    verdict.crossings.iter().map(sentence).collect()
}

/// The sizes from which each method is the fastest.
fn fastest(comparison: &Comparison, verdict: &FastestMethod) -> Vec<String> {
    let (Some(smallest), Some(largest)) = (comparison.samples.first(), comparison.samples.last()) else {
        return Vec::new();
    };
    if let [one] = verdict.fastest.as_slice() {
        let (from, to, method) =
            (count(smallest.documents as u64), count(largest.documents as u64), one.method.name());
        return vec![match from == to {
            true => format!("At {to} documents the fastest is {method} ({} s).", seconds(one.seconds)),
            false => {
                format!(
                    "From {from} to {to} documents the fastest is {method}: no other method overtakes it."
                )
            }
        }];
    }
    verdict
        .fastest
        .iter()
        .map(|first| {
            let (documents, method) = (count(first.documents as u64), first.method.name());
            format!("From {documents} documents on the fastest is {method} ({} s).", seconds(first.seconds))
        })
        .collect()
}

/// The names of the columns of [`rows`].
pub(crate) const COLUMNS: [&str; 9] = [
    "documents",
    "method",
    "shingles s",
    "signatures s",
    "search s",
    "total s",
    "pairs",
    "recall",
    "precision",
];

/// Every measurement, a row for each sample and method.
pub(crate) fn rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let share = |share: Option<f64>| share.map_or("-".into(), |share| decimal(share, 4));
    let row = |sample: &SampleMeasurement, one: &Measurement| {
        let signatures = match one.method {
            ComparedMethod::Exact => "-".into(),
            ComparedMethod::Signatures | ComparedMethod::Lsh => seconds(sample.signatures_seconds),
        };
        vec![
            count(sample.documents as u64),
            one.method.name().to_owned(),
            seconds(sample.shingles_seconds),
            signatures,
            seconds(one.seconds),
            seconds(one.total_seconds),
            count(one.pairs),
            share(one.recall),
            share(one.precision),
        ]
    };
    comparison
        .samples
        .iter()
        .flat_map(|sample| sample.methods.iter().map(move |one| row(sample, one)))
        .collect()
}

/// The meaning of the columns.
pub(crate) const LEGEND: &str = "Shingles: texts to shingle sets, which every method needs. Signatures: shingle sets \
    to signatures, which exact Jaccard does not need. Search: what the method itself does; for LSH, these are buckets, \
    candidates and their scores. Recall and precision are relative to the exact pairs.";

/// The whole page; the `added` lines are those of [`charts`].
pub(crate) fn page(comparison: &Comparison, added: &[Series]) -> HtmlPage {
    let mut intro = vec![
        format!(
            "Three methods find the same pairs in growing samples: the first documents of the source that can be \
             compared, in order of file and position. Each time is the shortest of {}. It includes planning, and \
             samples and sketches are in memory.",
            comparison.repeat
        ),
        LEGEND.to_owned(),
    ];
    intro.extend(comparison.note.as_deref().map(settings::sentence));
    let measurements = HtmlTable {
        caption: "Every measurement, in seconds.".into(),
        header: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows(comparison),
    };
    let [(_, whole), (_, search)] = charts(comparison, added);
    // The verdict is below the chart.
    let section = |heading: &str, verdict: &FastestMethod, chart: Chart| Section {
        heading: heading.into(),
        text: overtaken(verdict),
        charts: vec![chart],
        tables: vec![],
    };
    let mut sections = vec![
        section("From texts to pairs", &comparison.whole, whole),
        section("The search alone", &comparison.search, search),
    ];
    sections.extend([
        Section { heading: "Measurements".into(), tables: vec![measurements], ..Section::default() },
        settings::section(&comparison.job),
    ]);
    HtmlPage { title: format!("{}: three methods for the same pairs", comparison.job.name), intro, sections }
}
