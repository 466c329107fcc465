//! The numbers of a report, from the manifest and the tables of an output.

use std::collections::BTreeMap;

use datafusion::prelude::SessionContext;
use serde::Deserialize;

use super::view::{
    AlarmView, ClusterSizes, Cost, Example, FrequentShingles, RecallView, Rejected, RemovalsBy,
    RemovalsOfGroup, RemovedView, RepeatedPassages, Report, ReportNumbers, Setting, SimilarityBin, StageCost,
    TableCost,
};
use crate::address::masked;
use crate::apply::{GroupCounts, alarms, decisions};
use crate::error::Result;
use crate::error::counts::{count, counted, either};
use crate::evaluate;
use crate::job::{Job, Method, Score, ScoreBy};
use crate::lookup::Finished;
use crate::lookup::rows::query;
use crate::page::{job_settings, shingle_name};
use crate::pipeline::numbers::one_number;
use crate::schema::{Table, contract};

const MAX_GROUPS: usize = 30;
const MAX_WARNINGS: usize = 50;

/// Reads the numbers of the report on `finished`, without clusters, texts and the comparison with an earlier output.
pub(super) async fn read(session: &SessionContext, finished: &Finished, url: &str) -> Result<Report> {
    let (job, run) = (finished.job(), finished.manifest());
    let removals = decisions::removed(finished, job.source.group.as_deref(), None, None)?;
    session.register_table("removals", removals.into_view())?;
    let removed = removed(session, finished).await?;
    let numbers = ReportNumbers {
        documents: run.counts.documents,
        pairs: run.counts.pairs,
        clusters: run.counts.clusters,
        removed: removed.by_reason.iter().map(|by| by.documents).sum(),
        lossy_removals: run.counts.lossy_removals,
    };
    let bounds = alarms::Bounds { alarms: job.alarms, may_fail: false, removal: Default::default() };
    let verdicts = alarms::verdicts(finished, job, bounds).await?;
    let has_bounds = job.alarms.has_bounds();
    let per_unit = per_unit(job.score.threshold);
    let (spared, spared_examples) = if job.clusters.spares() {
        (Some(query(session, SPARED).await?), query(session, SPARED_EXAMPLES).await?)
    } else {
        (None, Vec::new())
    };
    Ok(Report {
        output: masked(url),
        dataset: dataset(&job.source.urls).unwrap_or_else(|| run.name.clone()),
        name: run.name.clone(),
        resemblance: run.resemblance.clone(),
        finished: run.finished.clone(),
        sentence: sentence(&numbers, job.candidates.method),
        shingle: format!(
            "Documents are compared by their {}. A shingle is so many words or characters in a row.",
            shingle_name(job, job.shingle.size)
        ),
        numbers,
        alarms: AlarmView {
            has_bounds,
            exceeded: verdicts.into_iter().flat_map(|verdict| verdict.alarms).collect(),
            warnings: run.warnings.iter().take(MAX_WARNINGS).cloned().collect(),
        },
        removed,
        threshold: job.score.threshold,
        measure: match job.score.by {
            ScoreBy::Shingles => job.score.measure.to_string(),
            ScoreBy::Signature => "estimated jaccard".to_owned(),
        },
        per_unit,
        similarities: similarities(session, "pairs", per_unit).await?,
        cluster_sizes: cluster_sizes(session).await?,
        clusters: Vec::new(),
        no_texts: None,
        spared,
        spared_examples,
        rejected: rejected(session, &run.rejects).await?,
        passages: passages(session, finished).await?,
        frequent_shingles: frequent_shingles(session, finished).await?,
        recall: recall(session, finished).await?,
        judged: None,
        cost: cost(finished),
        settings: settings(job),
        before: None,
    })
}

/// Names a dataset by the last part of its URL that is not a pattern. Names several URLs by their common folder. Without one, names them by
/// the first URL and the number of the others.
pub(crate) fn dataset(urls: &[String]) -> Option<String> {
    let (first, more) = urls.split_first()?;
    let folders = first.rmatch_indices('/').map(|(at, _)| &first[..at]);
    let mut folders = folders.filter(|folder| !folder.is_empty() && !folder.ends_with([':', '/']));
    let folder = folders.find(|folder| more.iter().all(|url| url.starts_with(&format!("{folder}/"))));
    let whole = if more.is_empty() { Some(first.as_str()) } else { folder };
    let shown = masked(whole.unwrap_or(first));
    let name = shown.rsplit('/').find(|part| !part.is_empty() && !part.contains(['*', '?', '[']))?;
    Some(whole.map_or_else(|| format!("{name} and {} more", more.len()), |_| name.to_owned()))
}

fn sentence(numbers: &ReportNumbers, method: Method) -> String {
    let ReportNumbers { documents, pairs, removed, lossy_removals, .. } = *numbers;
    if !method.compares() {
        return format!("{} searched for passages and not compared.", counted(documents, "document"));
    }
    if pairs == 0 {
        return format!("No pair of similar documents was found among {}.", counted(documents, "document"));
    }
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let goes = format!(
        "Of {}, {} ({:.1} %) would be removed as near-duplicates of others that stay",
        counted(documents, "document"),
        count(removed),
        share(removed, documents)
    );
    match lossy_removals {
        Some(0) => format!("{goes}; none of them loses more than 2 % of its shingles."),
        Some(lossy) => format!(
            "{goes}; {} of them ({:.1} %) {} more than 2 % of {} shingles.",
            count(lossy),
            share(lossy, removed),
            either(lossy, "loses", "lose"),
            either(lossy, "its", "their")
        ),
        None => format!("{goes}."),
    }
}

/// Counts removals by reason. A removed document is contained if its representative has at least 98 % of its shingles (see
/// `crate::apply`).
const BY_REASON: &str = "
    SELECT CASE WHEN r.jaccard IS NULL THEN 'chain' WHEN r.jaccard = 1 THEN 'same_shingles' WHEN r.containment IS NULL THEN 'not_counted'
        WHEN r.containment >= 0.98 THEN 'contained' ELSE 'lossy' END AS reason,
        count(*) AS documents, sum(d.shingle_count) AS shingles
    FROM removals r JOIN documents d ON r.id = d.id GROUP BY 1 ORDER BY documents DESC, reason";

const SPARED: &str = "
    SELECT arrow_cast(reason, 'Utf8') AS reason, count(*) AS documents, sum(lost_shingles) AS lost_shingles
    FROM spared WHERE NOT reference GROUP BY 1 ORDER BY documents DESC, reason";

const SPARED_EXAMPLES: &str = "
    SELECT arrow_cast(id, 'Utf8') AS id, arrow_cast(representative, 'Utf8') AS representative, reason, jaccard, containment, lost_shingles
    FROM spared WHERE NOT reference ORDER BY lost_shingles DESC NULLS LAST, id LIMIT 5";

const REJECT_EXAMPLES: &str = "
    SELECT reason, arrow_cast(id, 'Utf8') AS id, source, position FROM
        (SELECT *, row_number() OVER (PARTITION BY reason ORDER BY source, position) AS nth FROM rejects)
    WHERE nth <= 3 ORDER BY reason, source, position";

async fn removed(session: &SessionContext, finished: &Finished) -> Result<RemovedView> {
    let (job, run) = (finished.job(), finished.manifest());
    let by_reason: Vec<RemovalsBy> = query(session, BY_REASON).await?;
    let sum = "SELECT arrow_cast(sum(shingle_count), 'UInt64') FROM documents";
    let shingles = one_number(session.sql(sum).await?).await?;
    let removed_shingles: u64 = by_reason.iter().map(|by| by.shingles).sum();
    let source_bytes: u64 = run.inputs.iter().map(|file| file.bytes).sum();
    let share = removed_shingles as f64 / shingles.max(1) as f64;
    let (mut by_group, mut more_groups) = (None, 0);
    if let Some(group) = job.source.group.as_deref() {
        let mut counts = alarms::group_counts(finished, group, (false, alarms::Removal::default())).await?;
        counts.sort_by_key(|group| std::cmp::Reverse(group.removed));
        more_groups = counts.len().saturating_sub(MAX_GROUPS) as u64;
        let counts = counts.into_iter().take(MAX_GROUPS);
        let group = counts.map(|GroupCounts { group, documents, removed, .. }| RemovalsOfGroup {
            group,
            documents,
            removed,
        });
        by_group = Some(group.collect());
    }
    Ok(RemovedView {
        by_reason,
        by_group,
        more_groups,
        shingles,
        removed_shingles,
        source_bytes,
        about_bytes: job.reference().is_none().then_some((source_bytes as f64 * share) as u64),
        lost_shingles: run.counts.lost_shingles,
    })
}

/// Returns the number of equal intervals from similarity 0 to 1, of which up to thirty are above the threshold.
fn per_unit(threshold: f64) -> u32 {
    match threshold {
        t if t < 0.6 => 20,
        t if t < 0.9 => 50,
        _ => 100,
    }
}

/// Counts the rows of the table `pairs` in each interval of similarity. The first interval contains the lowest similarity. Pairs with
/// similarity 1 have an interval of their own.
pub(super) async fn similarities(
    session: &SessionContext,
    pairs: &str,
    per_unit: u32,
) -> Result<Vec<SimilarityBin>> {
    #[derive(Deserialize)]
    struct Bin {
        bin: u32,
        pairs: u64,
    }
    let sql = format!(
        "SELECT CAST(floor(jaccard * {per_unit}) AS BIGINT) AS bin, count(*) AS pairs FROM {pairs} GROUP BY 1 ORDER BY 1"
    );
    let found: Vec<Bin> = query(session, &sql).await?;
    let Some(first) = found.first().map(|bin| bin.bin) else { return Ok(Vec::new()) };
    let found: BTreeMap<u32, u64> = found.into_iter().map(|bin| (bin.bin, bin.pairs)).collect();
    let edge = |bin: u32| f64::from(bin.min(per_unit)) / f64::from(per_unit);
    let bin = |bin| SimilarityBin {
        from: edge(bin),
        to: edge(bin + 1),
        pairs: found.get(&bin).copied().unwrap_or_default(),
    };
    Ok((first..=per_unit).map(bin).collect())
}

/// Counts the clusters in each interval of sizes. Intervals end at powers of two, and the last one at the largest size.
async fn cluster_sizes(session: &SessionContext) -> Result<Vec<ClusterSizes>> {
    #[derive(Deserialize)]
    struct Size {
        size: u64,
        clusters: u64,
    }
    let sql =
        "SELECT size, count(*) AS clusters FROM clusters WHERE representative GROUP BY size ORDER BY size";
    let sizes: Vec<Size> = query(session, sql).await?;
    let (Some(least), Some(largest)) = (sizes.first(), sizes.last()) else { return Ok(Vec::new()) };
    let power = |size: &Size| size.size.next_power_of_two().ilog2();
    let interval = |to: u64| {
        let (from, to) = (to / 2 + 1, to.min(largest.size));
        let within = || sizes.iter().filter(move |size| (from..=to).contains(&size.size));
        let documents = within().map(|size| size.size * size.clusters).sum();
        ClusterSizes { from, to, clusters: within().map(|size| size.clusters).sum(), documents }
    };
    Ok((power(least)..=power(largest)).map(|power| interval(1 << power)).collect())
}

async fn rejected(session: &SessionContext, rejects: &BTreeMap<String, u64>) -> Result<Vec<Rejected>> {
    if rejects.is_empty() {
        return Ok(Vec::new());
    }
    let mut examples: Vec<Example> = query(session, REJECT_EXAMPLES).await?;
    examples.iter_mut().for_each(|example| example.source = masked(&example.source));
    let reasons = &contract(Table::Rejects).reasons;
    let rejected = |(reason, &documents): (&String, &u64)| Rejected {
        reason: reason.clone(),
        meaning: reasons
            .iter()
            .find(|known| known.name == *reason)
            .map_or_else(String::new, |known| known.doc.clone()),
        documents,
        examples: examples.iter().filter(|example| example.reason == *reason).cloned().collect(),
    };
    Ok(rejects.iter().map(rejected).collect())
}

const MOST_FREQUENT_PASSAGES: &str = "
    SELECT passage_id, arrow_cast(sample, 'Utf8') AS sample, words, documents, occurrences
    FROM passages ORDER BY documents DESC, occurrences DESC, passage_id LIMIT 10";

/// Reads the most frequent passages, if the job searches for passages.
async fn passages(session: &SessionContext, finished: &Finished) -> Result<Option<RepeatedPassages>> {
    if finished.job().passages.is_none() {
        return Ok(None);
    }
    let counts = &finished.manifest().counts;
    Ok(Some(RepeatedPassages {
        passages: counts.passages.unwrap_or_default(),
        occurrences: counts.spans,
        most_frequent: query(session, MOST_FREQUENT_PASSAGES).await?,
    }))
}

/// Reads the most frequent shingles that comparisons ignore, if there are any.
async fn frequent_shingles(
    session: &SessionContext,
    finished: &Finished,
) -> Result<Option<FrequentShingles>> {
    let Some(max_frequency) = finished.job().max_frequency else { return Ok(None) };
    let group = match finished.job().source.group {
        Some(_) => ", arrow_cast(\"group\", 'Utf8') AS \"group\"",
        None => "",
    };
    let sql = format!(
        "SELECT arrow_cast(sample, 'Utf8') AS sample, documents, share{group} FROM frequent_shingles
         ORDER BY share DESC, documents DESC, sample LIMIT 10"
    );
    let most_frequent = query(session, &sql).await?;
    let shingles = finished.manifest().counts.frequent_shingles;
    Ok(Some(FrequentShingles { max_frequency, shingles, most_frequent }))
}

async fn recall(session: &SessionContext, finished: &Finished) -> Result<RecallView> {
    let (job, counts) = (finished.job(), &finished.manifest().counts);
    let Score { threshold, by, .. } = job.score;
    let estimates = job.curve().has_estimates();
    let sql = format!(
        "SELECT round(jaccard, 4) AS jaccard, jaccard >= {threshold:?} AS reaches, count(*) AS pairs FROM pairs GROUP BY 1, 2"
    );
    let pairs: Vec<PairsOfSimilarity> = query(session, &sql).await?;
    let mut missed = vec!["Every similarity is exact.".to_owned()];
    if by == ScoreBy::Signature {
        let all: u64 = pairs.iter().map(|row| row.pairs).sum();
        let under: u64 = pairs.iter().filter(|row| !row.reaches).map(|row| row.pairs).sum();
        missed.push(format!(
            "The estimate of the signatures decides which candidates are pairs: the exact similarity of {} of {} is under the \
             threshold.",
            count(under),
            counted(all, "pair")
        ));
    }
    let missed_by_method = match (!job.candidates.method.finds_all_pairs(), estimates) {
        _ if !job.candidates.method.compares() => "No documents were compared.",
        (true, false) => "Pairs that never became candidates are missed.",
        (true, true) => {
            "Pairs that never became candidates are missed, and so are candidates whose estimate is under the threshold."
        }
        (_, true) => "Pairs whose estimate is under the threshold are missed.",
        (_, false) => "All similar documents are candidates.",
    };
    missed.push(missed_by_method.to_owned());
    if let Some(left_out) = counts.dense_pairs_left_out.filter(|left_out| *left_out > 0) {
        missed.push(format!("Not written: about {} within dense groups.", counted(left_out, "pair")));
    }
    Ok(RecallView {
        missed,
        at_threshold: job.expected_recall(),
        expected: expected(&pairs, job),
        refusal: evaluate::refusal(job),
        measured: None,
    })
}

/// The number of pairs with the same similarity, which is rounded to four digits.
#[derive(Deserialize)]
struct PairsOfSimilarity {
    jaccard: f64,
    reaches: bool,
    pairs: u64,
}

/// Returns the expected recall for all pairs. A found pair counts as 1 / p pairs if the job finds such a pair with probability p (Horvitz
/// and Thompson, 1952).
fn expected(pairs: &[PairsOfSimilarity], job: &Job) -> Option<f64> {
    let curve = job.curve();
    let by_estimate = job.score.by == ScoreBy::Signature;
    let reaching = || pairs.iter().filter(|row| !by_estimate || row.reaches);
    let found: u64 = reaching().map(|row| row.pairs).sum();
    // The minimum limits the weight of pairs that the job hardly ever finds.
    let all: f64 = reaching().map(|row| row.pairs as f64 / curve.kept(row.jaccard).max(1e-6)).sum();
    (found > 0).then(|| found as f64 / all)
}

fn cost(finished: &Finished) -> Cost {
    let run = finished.manifest();
    let stages = run.stages.iter().map(|stage| StageCost {
        name: stage.name.clone(),
        seconds: stage.seconds,
        rows: stage.rows,
        bytes: stage.bytes,
        forecast: None,
    });
    let tables = run.tables.iter().map(|(name, table)| TableCost {
        name: name.clone(),
        rows: table.rows,
        files: table.files.len() as u64,
        bytes: table.files.iter().map(|file| file.bytes).sum(),
    });
    Cost {
        seconds: run.stages.iter().map(|stage| stage.seconds).sum(),
        memory: finished.job().engine.memory_bytes(),
        stages: stages.collect(),
        tables: tables.collect(),
        forecast: None,
        peak_memory: None,
    }
}

pub(super) fn settings(job: &Job) -> Vec<Setting> {
    let clusters = &job.clusters;
    let more = [
        ("measure", job.score.measure.to_string()),
        ("clusters", clusters.method.describe().to_owned()),
        ("contained", clusters.contained.map_or("not asked for".to_owned(), |share| share.to_string())),
    ];
    let settings = job_settings(job).into_iter().chain(more);
    settings.map(|(name, value)| Setting { name: name.to_owned(), value: masked(&value) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_has_the_name_of_its_folder() {
        for (urls, name) in [
            (&["/data/a.csv"][..], "a.csv"),
            (&["/data/in/**/*.csv"], "in"),
            (&["/data/in/a.txt", "/data/in/sub/b.txt"], "in"),
            (&["s3://bucket/in/a.txt", "s3://bucket/in/b.txt"], "in"),
            (&["s3://one/a.txt", "s3://two/a.txt"], "a.txt and 1 more"),
            (&["/data/a.txt", "/other/b.txt"], "a.txt and 1 more"),
            (&["a.txt", "b.txt", "c.txt"], "a.txt and 2 more"),
        ] {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            assert_eq!(dataset(&urls).as_deref(), Some(name), "{urls:?}");
        }
    }
}
