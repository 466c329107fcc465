//! The report as an HTML file without scripts, fonts or other files.

use askama::Template;

use super::view::{DrawnCluster, MemberOf, RemovalsBy, Report, SimilarityBin};
use crate::error::Result;
use crate::error::counts::count;
use crate::evaluate::audit::{Judged, JudgedStratum};
use crate::evaluate::{Estimate, Recall};
use crate::page::text::decimal;
use crate::page::{self, Axis, Chart, PageWords, Scale, Series};

#[derive(Template)]
#[template(path = "report.html", config = "src/page/askama.toml")]
struct ReportPage<'a> {
    report: &'a Report,
    /// The precision by threshold, if there are labels.
    precision: Option<Chart>,
}

/// Renders a report as an HTML file.
///
/// # Errors
/// Fails only if there is a bug.
pub fn html(report: &Report) -> Result<String> {
    let judged = report.judged.as_ref().filter(|judged| judged.judged > 0);
    page::html(&ReportPage { report, precision: judged.map(precision) })
}

/// Returns a chart of the share of true duplicates at each threshold, with its 95 % interval.
fn precision(judged: &Judged) -> Chart {
    let series = |name: &str, value: fn(&Estimate) -> f64| {
        let points = judged.curve.iter().filter_map(|at| Some((at.threshold, value(at.share.as_ref()?))));
        Series::new(name, points.collect())
    };
    Chart {
        title: "True duplicates among the pairs at a threshold or above".to_owned(),
        caption: "The estimate from the labels, and the ends of its 95 % interval.".to_owned(),
        x: Axis::new("threshold", Scale::Linear),
        y: Axis::new("share of true duplicates", Scale::FromZero),
        series: vec![
            series("estimate", |share| share.value),
            series("low", |share| share.low),
            series("high", |share| share.high),
        ],
    }
}

/// Returns the length of the bar for `number`, as a percentage of the longest bar of `all`.
fn length(number: u64, all: impl Iterator<Item = u64>) -> String {
    decimal(100.0 * number as f64 / all.max().unwrap_or_default().max(1) as f64, 2)
}

impl PageWords for ReportPage<'_> {}

impl ReportPage<'_> {
    fn bar(&self, pairs: &u64) -> String {
        let bins = self.report.similarities.iter().chain(self.before_bins());
        length(*pairs, bins.map(|bin| bin.pairs))
    }

    fn bar_of_documents(&self, documents: &u64) -> String {
        length(*documents, self.report.cluster_sizes.iter().map(|size| size.documents))
    }

    fn date(&self) -> &str {
        self.report.finished.split('T').next().unwrap_or_default()
    }

    fn before_bins(&self) -> &[SimilarityBin] {
        self.report.before.as_ref().map_or(&[], |before| &before.similarities)
    }

    /// Returns the intervals of both outputs by descending similarity: (from, to, pairs, pairs in the earlier output).
    fn bins(&self) -> Vec<(f64, f64, u64, u64)> {
        let mut bins: Vec<(f64, f64, u64, u64)> =
            self.report.similarities.iter().map(|bin| (bin.from, bin.to, bin.pairs, 0)).collect();
        for before in self.before_bins() {
            match bins.iter_mut().find(|bin| bin.0 == before.from && bin.1 == before.to) {
                Some(bin) => bin.3 = before.pairs,
                None => bins.push((before.from, before.to, 0, before.pairs)),
            }
        }
        bins.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        bins
    }

    /// Formats an interval, such as `0.50 to 0.55`.
    fn interval(&self, bin: &(f64, f64, u64, u64)) -> String {
        if bin.0 == bin.1 {
            return "1 (same shingles)".to_owned();
        }
        format!("{} to {}", decimal(bin.0, 2), decimal(bin.1, 2))
    }

    fn reason(&self, by: &RemovalsBy) -> &'static str {
        match by.reason.as_str() {
            "same_shingles" => "has the same shingles as the document that stays",
            "contained" => "at least 98 % of its shingles are in the document that stays",
            "lossy" => "is similar to the document that stays, and loses more than 2 % of its shingles",
            "not_counted" => "is similar to the document that stays; what it loses was not counted",
            _ => "is not paired with the document that stays: other documents connect them",
        }
    }

    fn spared(&self, reason: &str) -> &'static str {
        match reason {
            "chain" => "is not paired with the representative: other documents connect them",
            "different" => "is different from an earlier document of the cluster, by a decision",
            _ => "the representative lacks too many of its shingles",
        }
    }

    /// Whether the output contains weakest links. The cluster method `representative` computes none.
    fn shows_links(&self, cluster: &DrawnCluster) -> bool {
        cluster.members.iter().any(|member| member.weakest_link.is_some())
    }

    fn lists_some(&self, cluster: &DrawnCluster) -> bool {
        (cluster.members.len() as u64) < cluster.size
    }

    fn recalls(&self, recall: &Recall) -> [(&'static str, Option<Estimate>); 3] {
        [
            ("pairs of different texts", recall.pairs),
            ("documents with a pair", recall.documents),
            ("removals", recall.removals),
        ]
    }

    fn judged(&self, judged: &Judged) -> Vec<(String, u64, u64, Option<Estimate>)> {
        let row = |stratum: &JudgedStratum| {
            let JudgedStratum { name, what, pairs, judged, share, .. } = stratum;
            (format!("{name}: {what}"), *pairs, *judged, *share)
        };
        let mut rows: Vec<_> = judged.strata.iter().map(row).collect();
        let pairs = judged.strata.iter().map(|stratum| stratum.pairs).sum();
        rows.push(("all, weighted by their pairs".to_owned(), pairs, judged.judged, judged.all));
        rows
    }

    fn heading(&self, cluster: &DrawnCluster) -> &'static str {
        match cluster.why.as_str() {
            "largest" => "The largest cluster",
            "loosest" => "The loosest cluster",
            _ => "A cluster at random",
        }
    }

    fn role(&self, member: &MemberOf) -> &'static str {
        match (member.representative, member.reference) {
            (true, false) => "represents the cluster",
            (true, true) => "represents the cluster, a reference document",
            (false, true) => "a reference document",
            (false, false) => "",
        }
    }

    fn change(&self, before: &u64, now: &u64) -> String {
        match now.cmp(before) {
            std::cmp::Ordering::Equal => "0".to_owned(),
            std::cmp::Ordering::Greater => format!("+{}", count(now - before)),
            std::cmp::Ordering::Less => format!("-{}", count(before - now)),
        }
    }
}
