//! `resemblance check`: prints a resolved job, its stages and the data that it reads.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::arguments::JobArguments;
use crate::cli::arguments::data::LOOK_MEMORY;
use crate::cli::process::{above_machine, on_session};
use crate::cli::screen::print;
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::inspect::{self, CarriedColumn, InspectedContents, RowCount};
use crate::job::{self, BandRule, Choice, Job, band_choice};
use crate::pipeline::{self, keep_values};
use crate::source::{self, Rewriting};
use crate::telemetry::lineage;

/// The version of the JSON object. It is incremented if a key is removed or redefined, but not if a key is added.
const MANIFEST_VERSION: u32 = 1;

/// Resolve a job, and print its stages and the data that it would read
///
/// Reads the footers or the first rows of files and some texts. Writes nothing.
#[derive(clap::Args)]
#[command(after_help = "  resemblance check my.toml
  resemblance check my.toml --no-data --set score.threshold=0.7")]
pub(crate) struct Check {
    #[command(flatten)]
    job: JobArguments,
    /// Read no data
    #[arg(long)]
    no_data: bool,
    /// Print the resolved job and the numbers as one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<()> {
        let mut job = self.job.load_over_output()?;
        let contents = if job.reads_texts() && !self.no_data {
            let (resolved, contents) = contents(&job)?;
            job = resolved;
            Some(contents)
        } else {
            None
        };
        let contents = contents.as_ref();
        print::result(&if self.json { as_json(&job, contents)? } else { as_text(&job, contents)? })
    }
}

fn contents(job: &Job) -> Result<(Job, InspectedContents)> {
    on_session(LOOK_MEMORY, async |session, _| {
        let job = keep_values::settled(session, job).await?;
        let contents = inspect::contents(session, &job.source).await?;
        Ok((job, contents))
    })
    .map_err(|error| {
        let kind = error.kind();
        Error::new(kind, "the data of the job cannot be inspected (--no-data checks only the job)")
            .because(error)
    })
}

/// Returns the similarities at which the S-curve is printed, including the threshold.
fn similarities(threshold: f64) -> Vec<f64> {
    let mut similarities: Vec<f64> = (1..=20).map(|i| f64::from(i) / 20.0).collect();
    if !similarities.iter().any(|s| (s - threshold).abs() < 1e-9) {
        similarities.push(threshold);
        similarities.sort_by(f64::total_cmp);
    }
    similarities
}

fn as_json(job: &Job, contents: Option<&InspectedContents>) -> Result<String> {
    let curve = job.curve();
    let point = |s| json!({"similarity": s, "candidate": curve.candidate(s), "kept": curve.kept(s)});
    let points: Vec<_> = similarities(job.score.least_jaccard()).into_iter().map(point).collect();
    let job_value = job.as_value()?;
    // Paths are absolute, as in events and manifests.
    let absolute = job.with_absolute_paths()?;
    let checked = json!({
        "manifest_version": MANIFEST_VERSION,
        "inputs": lineage::names_of_inputs(&absolute),
        "outputs": lineage::names_of_outputs(&absolute),
        "job": job_value,
        "bands": job.lsh.bands,
        "rows": job.lsh.rows,
        "curve_threshold": band_choice::threshold(job.lsh.bands, job.lsh.rows),
        "expected_recall_at_threshold": job.expected_recall(),
        "curve": points,
        "stages": stages(job),
        "data": contents.map(|contents| data_json(job, contents)),
    });
    print::json(&checked)
}

fn stages(job: &Job) -> Vec<String> {
    pipeline::stage::describe(job)
        .into_iter()
        .map(|stage| format!("{}: {}", stage.name, stage.text))
        .collect()
}

fn as_text(job: &Job, contents: Option<&InspectedContents>) -> Result<String> {
    let mut text = String::new();
    let _ = writeln!(text, "job {}: {} -> {}\n", job.name, job.source.urls.join(", "), job.output.url);
    for stage in stages(job) {
        let _ = writeln!(text, "  {stage}");
    }
    if job.candidates.method.compares() {
        text.push_str(&recall(job));
    }
    for warning in above_machine(&job.engine).into_iter().chain(job.first_day_warning()) {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    if let Rewriting::Rows(format) = source::format_of(job.source.format).rewriting
        && let Err(fault) = format.checked_cutter(&job.source)
    {
        let _ = writeln!(text, "\nwarning: apply cannot write a copy of this source: {fault}");
    }
    if let Some(contents) = contents {
        text.push_str(&data_text(job, contents));
    }
    text.push_str("\nthe job with all its defaults\n");
    let _ = write!(text, "{}", settings(job)?);
    Ok(text)
}

fn recall(job: &Job) -> String {
    let (lsh, mut text) = (&job.lsh, String::new());
    let choice = match lsh.choice {
        Choice::Given => "as the job sets them".to_owned(),
        Choice::Rule(BandRule::Nearest) => "whose S-curve is steepest nearest to the threshold".to_owned(),
        Choice::Rule(BandRule::Balanced) => {
            "with the smallest area of false positives and false negatives".to_owned()
        }
        Choice::Rule(BandRule::Recall) => {
            "whose S-curve is steepest at or just under the threshold".to_owned()
        }
        Choice::Rule(BandRule::Precision) => {
            "whose S-curve is steepest at or just over the threshold".to_owned()
        }
        Choice::TargetRecall(target) => {
            format!("the strictest that make candidates of {target} of the pairs at the threshold")
        }
    };
    let (curve, least) = (job.curve(), job.score.least_jaccard());
    let is_lsh = job.candidates.method.uses_buckets();
    text.push('\n');
    if is_lsh {
        let _ = writeln!(
            text,
            "{}, {choice}; {} of {} used; the S-curve is steepest near {:.4}",
            lsh.bands_of_rows(),
            lsh.bands * lsh.rows,
            print::counted(job.minhash.permutations as u64, "permutation"),
            band_choice::threshold(lsh.bands, lsh.rows),
        );
    }
    let higher =
        if is_lsh || curve.has_estimates() { "; higher for pairs that are more similar" } else { "" };
    let _ = writeln!(
        text,
        "expected recall of pairs at similarity {}: {:.4}{higher}\n",
        job.score.threshold,
        curve.kept(least)
    );
    for warning in job.warnings() {
        let _ = writeln!(text, "warning: {warning}\n");
    }
    let row = |s: f64| {
        let (candidate, kept) = (curve.candidate(s), curve.kept(s));
        let bar = "█".repeat((kept * 40.0).round() as usize);
        let mark = if (s - least).abs() < 1e-9 { " <- threshold" } else { "" };
        let estimate = curve.has_estimates().then(|| format!("{kept:.6}"));
        let numbers = [format!("{s:.4}"), format!("{candidate:.6}")].into_iter().chain(estimate);
        numbers.chain([format!("{bar}{mark}")]).collect::<Vec<_>>()
    };
    let head: &[&str] = match (is_lsh, curve.has_estimates()) {
        (_, true) => &["similarity", "becomes a candidate", "and passes the estimate", ""],
        (true, false) => &["similarity", "becomes a candidate", ""],
        (false, false) => return text,
    };
    text + &print::table(head, similarities(least).into_iter().map(row))
}

/// Returns every key of the job as a line of a job file, including keys with default values.
fn settings(job: &Job) -> Result<String> {
    let keys = job::keys(&job.as_value()?).into_iter();
    Ok(keys.map(|(key, value)| format!("  {} = {}\n", visible(&key), visible(&value.to_string()))).collect())
}

/// Formats the contents of the source for people.
fn data_text(job: &Job, contents: &InspectedContents) -> String {
    let mut text = String::new();
    let rows = match contents.rows {
        RowCount::Exact(rows) => print::counted(rows, "row"),
        RowCount::About(rows) => format!("about {}", print::counted(rows, "row")),
        RowCount::Unknown => "an unknown number of rows".to_owned(),
    };
    let _ = writeln!(
        text,
        "\ndata: {}, {}, {rows}",
        print::counted(contents.files, "file"),
        print::bytes(contents.bytes)
    );
    let columns = contents.columns.iter().map(|column| {
        vec![column.name.clone(), column.kind.clone(), column.example.clone().unwrap_or_default()]
    });
    if !contents.columns.is_empty() {
        text.push_str(&print::table(&["column", "values", "for example"], columns));
    }
    for CarriedColumn { name, read_as } in &contents.carried {
        let _ = writeln!(text, "column {name} is read as {read_as}");
    }
    if !contents.texts.is_empty() {
        let _ = writeln!(text, "the first texts");
        for beginning in &contents.texts {
            let _ = writeln!(text, "  {beginning}");
        }
    }
    let first = print::counted(contents.sampled, "document");
    let _ = writeln!(text, "words of a document: {:.1} on average in the first {first}", contents.words);
    let disk = contents.disk(job);
    let [result, between] = [disk.result, disk.between].map(|bytes| disk.total(bytes).map(print::bytes));
    let all = result.zip(between).map(|(result, between)| format!(", so {result} and {between}"));
    let _ = writeln!(
        text,
        "expected disk: {} bytes of a document in the result, and {} more until the run ends{}; pairs are extra",
        disk.result,
        disk.between,
        all.unwrap_or_default()
    );
    text
}

fn data_json(job: &Job, contents: &InspectedContents) -> Value {
    let disk = contents.disk(job);
    json!({
        "files": contents.files,
        "bytes": contents.bytes,
        "rows": contents.rows.known(),
        "rows_are_exact": matches!(contents.rows, RowCount::Exact(_)),
        "columns": contents.columns,
        "carried": contents.carried,
        "texts": contents.texts,
        "sampled_documents": contents.sampled,
        "words_of_a_document": contents.words,
        "expected_bytes_of_result": disk.total(disk.result),
        "expected_bytes_between_stages": disk.total(disk.between),
    })
}
