//! The page of `resemblance compare`.

use super::settings::{self, seconds};
use super::text::{count, decimal};
use super::{Axis, Chart, Page, Scale, Section, Series, Table};
use crate::query::compare::{Comparison, Measured, OneWay, Way};

/// Seconds by number of documents, a line for each way; both axes by powers of ten.
pub fn chart(comparison: &Comparison) -> Chart {
    let line = |way: Way| {
        let of = |sample: &Measured| {
            let total = sample.ways.iter().find(|one| one.way == way)?.total_seconds;
            Some((sample.documents as f64, total))
        };
        Series::new(way.name(), comparison.samples.iter().filter_map(of).collect())
    };
    Chart {
        title: "Seconds from texts to pairs, by number of documents".into(),
        caption: format!(
            "Each line is a way to the pairs of similarity {} or more, with the building of what it needs; where two \
             lines cross, their order turns round. {}",
            comparison.job.score.threshold,
            fastest(comparison).join(" "),
        ),
        x: Axis::new("documents (logarithmic)", Scale::Log),
        y: Axis::new("seconds (logarithmic)", Scale::Log),
        series: Way::ALL.into_iter().map(line).collect(),
    }
}

/// Which way is the fastest from where on, and where else the order turns round, in a sentence for each.
pub fn crossings(comparison: &Comparison) -> Vec<String> {
    let overtaken = comparison.crossings.iter().map(|crossing| {
        let (documents, way) = (count(crossing.documents as u64), crossing.way.name());
        format!("At {documents} documents {way} has overtaken {}.", crossing.overtaken.name())
    });
    fastest(comparison).into_iter().chain(overtaken).collect()
}

fn fastest(comparison: &Comparison) -> Vec<String> {
    let (Some(smallest), Some(largest)) = (comparison.samples.first(), comparison.samples.last()) else {
        return Vec::new();
    };
    if let [one] = comparison.fastest.as_slice() {
        let (from, to, way) =
            (count(smallest.documents as u64), count(largest.documents as u64), one.way.name());
        return vec![match from == to {
            true => format!("At {to} documents the fastest is {way} ({} s).", seconds(one.total_seconds)),
            false => format!("From {from} to {to} documents the fastest is {way}: no other takes its place."),
        }];
    }
    comparison
        .fastest
        .iter()
        .map(|first| {
            let (documents, way) = (count(first.documents as u64), first.way.name());
            format!(
                "From {documents} documents on the fastest is {way} ({} s).",
                seconds(first.total_seconds)
            )
        })
        .collect()
}

/// The names of the columns of [`rows`].
pub const COLUMNS: [&str; 9] =
    ["documents", "way", "shingles s", "signatures s", "search s", "total s", "pairs", "recall", "precision"];

/// Every measurement, a row for each sample and way.
pub fn rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let share = |share: Option<f64>| share.map_or("-".into(), |share| decimal(share, 4));
    let row = |sample: &Measured, one: &OneWay| {
        let signatures = match one.way {
            Way::Exact => "-".into(),
            Way::Signatures | Way::Lsh => seconds(sample.signatures_seconds),
        };
        vec![
            count(sample.documents as u64),
            one.way.name().to_owned(),
            seconds(sample.shingles_seconds),
            signatures,
            seconds(one.seconds),
            seconds(one.total_seconds),
            count(one.pairs),
            share(one.recall),
            share(one.precision),
        ]
    };
    comparison.samples.iter().flat_map(|sample| sample.ways.iter().map(move |one| row(sample, one))).collect()
}

/// What the columns mean.
pub const LEGEND: &str = "Shingles: texts to shingle sets, which every way needs. Signatures: shingle sets to \
    signatures, which exact Jaccard does without. Search: what the way itself does; for LSH buckets, candidates and their \
    scores. Recall and precision: against the exact pairs.";

/// The whole page.
pub fn page(comparison: &Comparison) -> Page {
    let mut intro = vec![
        format!(
            "The same pairs by three ways, on growing samples: the first documents of the source, in order of file and \
             position, that can be compared. Each time is the least of {}, planning included, with samples and \
             sketches in memory.",
            comparison.repeat
        ),
        LEGEND.to_owned(),
    ];
    intro.extend(comparison.note.as_deref().map(settings::sentence));
    let measurements = Table {
        caption: "Every measurement, in seconds.".into(),
        header: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows(comparison),
    };
    let sections = vec![
        Section {
            heading: "Where the order turns round".into(),
            text: crossings(comparison),
            charts: vec![chart(comparison)],
            tables: vec![],
        },
        Section { heading: "Measurements".into(), tables: vec![measurements], ..Section::default() },
        settings::section(&comparison.job),
    ];
    Page { title: format!("{}: three ways to the same pairs", comparison.job.name), intro, sections }
}
