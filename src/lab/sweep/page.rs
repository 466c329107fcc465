//! The page of `resemblance sweep`.

use super::{Sweep, SweepRun, ThresholdMeasurement};
use crate::page::settings::{self, seconds};
use crate::page::text::count;
use crate::page::{Axis, Chart, HtmlPage, HtmlTable, Scale, Section, Series};

/// The work that a time includes.
pub(crate) fn coverage(sweep: &Sweep) -> String {
    let method = sweep.job.candidates.method;
    let thresholds =
        if method.uses_buckets() { "Thresholds with the same bands and rows" } else { "All thresholds" };
    format!(
        "Each time is that of one run from texts in memory through shingles to signatures (sketches), and from there \
         {} (search). {thresholds} share one search, at the lowest of them, and its time. Reading the source is not counted. {}",
        method.describe_search(),
        match sweep.repeat {
            1 => "Each was run once.".to_owned(),
            n => format!("Times are means of {n} runs, with the shortest next to them."),
        }
    )
}

/// The charts, each with the name of its file. The chart of seconds includes the `added` lines.
pub(crate) fn charts(sweep: &Sweep, added: &[Series]) -> [(&'static str, Chart); 3] {
    [
        ("sweep-seconds", seconds_chart(sweep, added)),
        (
            "sweep-documents",
            found_chart(
                sweep,
                "Documents with a match",
                "documents with one similar document or more",
                |f| f.documents,
            ),
        ),
        ("sweep-pairs", found_chart(sweep, "Pairs", "similar pairs", |f| f.pairs)),
    ]
}

/// The shingle sizes, in order.
fn sizes(sweep: &Sweep) -> Vec<usize> {
    let mut sizes: Vec<usize> = sweep.runs.iter().map(|run| run.size).collect();
    sizes.dedup();
    sizes
}

fn runs(sweep: &Sweep, size: usize) -> impl Iterator<Item = &SweepRun> {
    sweep.runs.iter().filter(move |run| run.size == size)
}

fn seconds_chart(sweep: &Sweep, added: &[Series]) -> Chart {
    let lowest = sweep.thresholds.first().copied().unwrap_or_default();
    let line = |size: usize| {
        let points =
            runs(sweep, size).filter_map(|run| Some((run.documents as f64, run.found.first()?.seconds.mean)));
        Series::new(settings::shingles(&sweep.job, size), points.collect())
    };
    let others = match added.is_empty() {
        true => "",
        false => " The times of other programs were given, not measured here.",
    };
    Chart {
        title: "Seconds by number of documents".into(),
        caption: format!(
            "Seconds from texts in memory to the scored pairs of the lowest threshold, {lowest}, mean of {}, a line for each \
             shingle size; both axes begin at 0, so that a time that grows with the number of documents is a straight \
             line.{others}",
            sweep.repeat
        ),
        x: Axis::new("documents", Scale::FromZero),
        y: Axis::new("seconds", Scale::FromZero),
        series: sizes(sweep).into_iter().map(line).chain(added.iter().cloned()).collect(),
    }
}

/// From this factor between the greatest number and the least on, small numbers would not be visible on an even axis.
const WIDE: f64 = 50.0;

/// A count by threshold on the largest sample, a line for each shingle size.
fn found_chart(
    sweep: &Sweep,
    what: &str,
    label: &str,
    number: impl Fn(&ThresholdMeasurement) -> u64,
) -> Chart {
    let largest = sweep.runs.iter().map(|run| run.documents).max().unwrap_or(0);
    let line = |size: usize| {
        let found = runs(sweep, size).filter(|run| run.documents == largest).flat_map(|run| &run.found);
        let points = found.map(|found| (found.threshold, number(found) as f64));
        Series::new(settings::shingles(&sweep.job, size), points.collect())
    };
    let series: Vec<Series> = sizes(sweep).into_iter().map(line).collect();
    let numbers = || series.iter().flat_map(|s| &s.points).map(|(_, n)| *n);
    let (least, most) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(0.0, f64::max));
    // A line down to 0 cannot be drawn by powers of ten.
    let scale = if least > 0.0 && most / least > WIDE { Scale::Log } else { Scale::FromZero };
    let how = if scale == Scale::Log { " (logarithmic)" } else { "" };
    let largest = count(largest as u64);
    Chart {
        title: format!("{what} by threshold, among {largest} documents"),
        caption: format!(
            "How many {label} there are among {largest} documents at each threshold, a line for each shingle size."
        ),
        x: Axis::new("threshold", Scale::Linear),
        y: Axis::new(format!("{label}{how}"), scale),
        series,
    }
}

/// The names of the columns of [`rows`].
pub(crate) const COLUMNS: [&str; 11] = [
    "size",
    "documents",
    "threshold",
    "bands",
    "rows",
    "with a match",
    "pairs",
    "sketches s",
    "search s",
    "total s",
    "least s",
];

/// Every setting, a row each.
pub(crate) fn rows(sweep: &Sweep) -> Vec<Vec<String>> {
    let row = |run: &SweepRun, found: &ThresholdMeasurement| {
        vec![
            run.size.to_string(),
            count(run.documents as u64),
            found.threshold.to_string(),
            found.bands.to_string(),
            found.rows.to_string(),
            count(found.documents),
            count(found.pairs),
            seconds(run.sketches_seconds.mean),
            seconds(found.search_seconds.mean),
            seconds(found.seconds.mean),
            seconds(found.seconds.least),
        ]
    };
    sweep.runs.iter().flat_map(|run| run.found.iter().map(move |found| row(run, found))).collect()
}

/// The whole page; the `added` lines as in [`charts`].
pub(crate) fn page(sweep: &Sweep, added: &[Series]) -> HtmlPage {
    let unit = sweep.job.shingle.unit.plural();
    let mut intro = vec![
        format!(
            "The same corpus with several shingle sizes (in {unit}), thresholds and sample sizes. A sample has the \
             first documents of the source that can be compared at the largest shingle size, in order of file and \
             position."
        ),
        coverage(sweep),
    ];
    intro.extend(sweep.note.as_deref().map(settings::sentence));
    let [time, documents, pairs] = charts(sweep, added).map(|(_, chart)| chart);
    let table = HtmlTable {
        caption: "Every setting.".into(),
        header: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows(sweep),
    };
    // The job's own size, threshold and bands are not those of the runs.
    let mut settings = settings::section(&sweep.job);
    for row in settings.tables.iter_mut().flat_map(|table| &mut table.rows) {
        if let [name, value] = row.as_mut_slice()
            && name == "candidates"
            && sweep.job.candidates.method.uses_buckets()
        {
            *value = "documents that share a bucket, by the bands and rows of each threshold".into();
        }
    }
    for table in &mut settings.tables {
        table.rows.retain(|row| !matches!(row.first().map(String::as_str), Some("shingles" | "threshold")));
    }
    let sections = vec![
        Section { heading: "Time".into(), charts: vec![time], ..Section::default() },
        Section { heading: "What is found".into(), charts: vec![documents, pairs], ..Section::default() },
        Section { heading: "Measurements".into(), tables: vec![table], ..Section::default() },
        settings,
    ];
    HtmlPage { title: format!("{}: shingle sizes and thresholds", sweep.job.name), intro, sections }
}
