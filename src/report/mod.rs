//! One page about a finished output: what was found, what would be removed and lost, examples with their texts, and what may be
//! missing.
//!
//! `view` is the content as plain data, which `--json` prints. `numbers` reads it from the tables, `draws` chooses the clusters
//! that are shown and reads their texts, `repeated` has the passages and the shingles that repeat the most, `before` compares with an earlier
//! output, `record` adds what was forecast, and `page` makes the HTML of it, by the template `report.html`.

mod before;
mod draws;
mod numbers;
mod page;
mod record;
mod repeated;
mod view;

use datafusion::prelude::SessionContext;

use crate::audit;
use crate::error::Result;
use crate::evaluate;
use crate::lookup::Finished;
pub use crate::page::{Side, TextPart};
pub use page::html;
pub use record::ReportRecord;
pub use repeated::{FrequentPassage, FrequentShingle, FrequentShingles, RepeatedPassages};
pub use view::{
    AlarmView, Before, BridgeLink, Change, ClusterSizes, ComparedOutputs, Cost, DrawnCluster, Example, Link,
    MemberOf, PairOfTexts, RecallView, Rejected, RemovalsBy, RemovalsOfGroup, RemovedView, Report,
    ReportNumbers, Setting, SimilarityBin, SpareExample, Spared, StageCost, TableCost,
};

/// What a report needs to know besides its output.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSettings {
    /// The seed of the cluster that is drawn at random.
    pub seed: u64,
    /// An earlier output to compare with.
    pub before: Option<String>,
    /// The new places of a source that was moved, one for each of its URLs; none if it was not moved.
    pub places: Vec<String>,
    /// About how many shingle sets are drawn to measure the recall; `None` if it is not measured.
    pub evaluate: Option<usize>,
    /// A file of labels of its pairs; `None` if no file is named.
    pub labels: Option<String>,
    /// The record of the run that made the output, with what was forecast.
    pub record: Option<ReportRecord>,
    /// Bytes of memory.
    pub memory: u64,
}

/// Reads the tables of the finished output at `url`, and the texts of the documents that are shown. If the texts cannot be read,
/// the report has no texts and says why.
///
/// # Errors
/// As [`Finished::open`], for the output and the earlier one, and as [`evaluate::evaluate`] and [`audit::judge`].
/// [`Kind::Job`](crate::error::Kind::Job) for the record of another output.
pub async fn report(session: &SessionContext, url: &str, settings: &ReportSettings) -> Result<Report> {
    let finished = Finished::open(session, url).await?.with_source_in(settings.places.clone());
    let mut report = numbers::read(session, &finished, url).await?;
    if let Some(record) = &settings.record {
        record.add_to(&mut report, &finished.manifest().fingerprint)?;
    }
    let drawn = draws::read(session, &finished, settings.seed).await?;
    (report.clusters, report.no_texts) = (drawn.clusters, drawn.no_texts);
    if let Some(before) = &settings.before {
        report.before = Some(before::compare(session, &finished, before, report.per_unit).await?);
    }
    if let Some(sample) = settings.evaluate {
        let settings = evaluate::EvaluationSettings { sample, seed: 1, memory: settings.memory, truth: None };
        report.recall.measured = Some(evaluate::evaluate(session, url, &settings).await?);
    }
    if let Some(file) = &settings.labels {
        report.judged = Some(audit::judge_finished(session, &finished, url, file).await?);
    }
    Ok(report)
}
