//! The result that an output already contains. Compares it with this run, and replaces it.

use std::collections::BTreeMap;

use bytes::Bytes;
use object_store::UpdateVersion;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::input::RunInput;
use crate::error::{Error, Result};
use crate::job::{self, InputFile, Job};
use crate::output::check::{self, CheckDepth};
use crate::output::claim::record::boot;
use crate::output::manifest::{ReferenceOutput, Run as Manifest};
use crate::output::{Layout, ownership};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The manifest of the output.
    pub manifest: Manifest,
    /// Whether the output was already finished. Then this run did nothing.
    pub already_finished: bool,
    /// The number of stages that earlier attempts had finished.
    pub stages_reused: usize,
}

/// The action of a run if its output contains another result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// The run ends with an error.
    Fail,
    /// The new result replaces the other one when the new one is complete.
    Overwrite,
}

/// Returns the output's result if its fingerprint shows that `job` made it from `input`.
pub(super) async fn finished(
    output: &Layout,
    fingerprint: &str,
    job: &Job,
    input: &RunInput,
) -> Result<Option<Outcome>> {
    let depth = |manifest: &Manifest| {
        manifest.check_format(output.shown())?;
        if manifest.fingerprint != fingerprint {
            let advice = match job.input {
                job::Input::Merge(_) => "name another folder with --to",
                job::Input::Read | job::Input::Reuse(_) => "choose another output.url",
            };
            return Err(Error::job(format!(
                "{} holds the result {}: {advice}, or replace it with --overwrite",
                output.shown(),
                difference(job, input, manifest)
            )));
        }
        // Files are not synced to disk one by one, so a power cut can damage them. Comparing sizes is enough only if the machine has not
        // restarted since it wrote the files.
        let same_start = manifest.boot.is_some() && manifest.boot == boot();
        Ok(if output.folder().is_some() && !same_start { CheckDepth::Bytes } else { CheckDepth::Sizes })
    };
    match check::result(output, depth, &check::unseen).await? {
        None => Ok(None),
        Some((manifest, damage)) if damage.is_empty() => {
            Ok(Some(Outcome { manifest, already_finished: true, stages_reused: 0 }))
        }
        Some((_, damage)) => Err(check::damaged(output, &damage)),
    }
}

/// The result that the output contained before the run. `--overwrite` replaces its manifest in one put when the new result is complete.
pub(super) struct PreviousResult {
    stored: Option<(Bytes, UpdateVersion)>,
    manifest: Option<Manifest>,
}

impl PreviousResult {
    pub(super) async fn read(output: &Layout) -> Result<Self> {
        let stored = output.manifest_bytes().await?;
        let manifest = stored.as_ref().and_then(|(bytes, _)| serde_json::from_slice(bytes).ok());
        if let (Some((bytes, _)), None) = (&stored, &manifest) {
            // A manifest from another version can be replaced. Its files are unknown, so they are kept.
            ownership::refuse_writer(bytes, output.shown())?;
        }
        if stored.is_none() && output.is_applied().await? {
            return Err(Error::input(format!(
                "{} holds a result of apply, among whose files no run writes: choose another output.url",
                output.shown()
            )));
        }
        Ok(Self { stored, manifest })
    }

    pub(super) fn files(&self) -> Vec<String> {
        self.manifest.iter().flat_map(Manifest::paths).map(str::to_owned).collect()
    }

    pub(super) fn attempts(&self) -> Vec<String> {
        self.manifest.as_ref().map(|manifest| manifest.attempts.clone()).unwrap_or_default()
    }

    /// The key of this run's stages: the fingerprint of the run. With `--overwrite`, it also contains a hash of the replaced manifest, so
    /// the run never resumes from the stages of the replaced result.
    pub(super) fn key(&self, fingerprint: &str, existing: OnExisting) -> String {
        let fingerprint = fingerprint.get(..16).unwrap_or(fingerprint);
        match (existing, &self.stored) {
            (OnExisting::Fail, _) => fingerprint.to_owned(),
            (OnExisting::Overwrite, None) => format!("{fingerprint}-over-nothing"),
            (OnExisting::Overwrite, Some((bytes, _))) => {
                format!("{fingerprint}-over-{:016x}", xxh3_64(bytes))
            }
        }
    }

    /// Replaces the previous manifest by `manifest`. Returns false if another process has written a manifest in the meantime.
    pub(super) async fn put(&self, output: &Layout, manifest: &Manifest) -> Result<bool> {
        match &self.stored {
            None => output.create("manifest.json", manifest).await,
            Some((bytes, version)) => output.replace("manifest.json", manifest, bytes, version).await,
        }
    }
}

const NAMED: usize = 3;

/// The job keys that do not change rows.
const IRRELEVANT: [&str; 7] =
    ["name", "engine", "alarms", "against.first_day", "output.url", "output.max_pairs", "output.tables"];

/// Returns the end of a message about the result in an output. It says how this run differs from the run that wrote `manifest`, as in "of
/// another job (`score.threshold` is 0.9 and was 0.8)".
fn difference(job: &Job, input: &RunInput, manifest: &Manifest) -> String {
    let keys = keys(&serde_json::to_value(job).unwrap_or_default(), &manifest.job);
    if !keys.is_empty() {
        return format!("of another job ({})", named(keys));
    }
    let mut inputs = files(&input.inputs(), &manifest.inputs);
    if job.second_source().is_none() {
        inputs.extend(outputs(&input.reference_record(), &manifest.reference_outputs));
    }
    if input.ledger.as_ref().and_then(|ledger| ledger.file.as_ref()) != manifest.decisions.as_ref() {
        inputs.push("clusters.decisions".to_owned());
    }
    if inputs.is_empty() {
        return "of other inputs".to_owned();
    }
    format!("of other inputs ({})", named(inputs))
}

fn named(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

/// The keys that differ between two jobs, with both values.
fn keys(now: &Value, before: &Value) -> Vec<String> {
    let (mut now, mut before) = (now.clone(), before.clone());
    if ["bands", "rows"].iter().all(|key| now["lsh"][key] == before["lsh"][key]) {
        // The result depends on the bands and rows, not on the way in which they were chosen.
        for job in [&mut now, &mut before] {
            _ = job.get_mut("lsh").and_then(Value::as_object_mut).and_then(|lsh| lsh.remove("choice"));
        }
    }
    let (now, before) = (job::keys(&now), job::keys(&before));
    let mut all: Vec<&String> =
        now.keys().chain(before.keys().filter(|key| !now.contains_key(*key))).collect();
    // A merge comes first, since it explains all other differences. URLs come next.
    all.sort_by_key(|key| (*key != "merge", !key.ends_with(".url")));
    let shown = |value: Option<&Value>| value.map_or("not set".to_owned(), |value| value.to_string());
    let differ = all.into_iter().filter(|key| {
        let relevant = !IRRELEVANT.iter().any(|other| job::is_in(key, other));
        // [`outputs`] compares reference outputs by their runs instead.
        let are_outputs = *key == "against.output" && now.contains_key(*key) && before.contains_key(*key);
        relevant && !are_outputs && now.get(*key) != before.get(*key)
    });
    differ
        .map(|key| format!("`{key}` is {} and was {}", shown(now.get(key)), shown(before.get(key))))
        .collect()
}

/// Describes the files that only one of the two runs read, and the files that changed.
fn files(now: &[InputFile], before: &[InputFile]) -> Vec<String> {
    let before: BTreeMap<_, _> = before.iter().map(|file| (file.path.as_str(), file)).collect();
    let now: BTreeMap<_, _> = now.iter().map(|file| (file.path.as_str(), file)).collect();
    let new = now.iter().filter_map(|(path, file)| match before.get(path) {
        None => Some(format!("{path} is new")),
        Some(was) if was.bytes != file.bytes => {
            Some(format!("{path} has {} bytes and had {}", file.bytes, was.bytes))
        }
        Some(was) => (was.as_listed() != **file).then(|| format!("{path} was written again since")),
    });
    let gone = before.keys().filter(|path| !now.contains_key(*path)).map(|path| format!("{path} is gone"));
    new.chain(gone).collect()
}

/// Describes the reference outputs that only one of the two runs used, and the outputs that were made again.
fn outputs(now: &[ReferenceOutput], before: &[ReferenceOutput]) -> Vec<String> {
    let runs = |outputs: &[ReferenceOutput]| outputs.iter().map(ReferenceOutput::version).collect::<Vec<_>>();
    let plain = |output: &ReferenceOutput| output.named().trim_end_matches('/').to_owned();
    let names = |outputs: &[ReferenceOutput]| outputs.iter().map(plain).collect::<Vec<_>>();
    let (runs_now, runs_before) = (runs(now), runs(before));
    let (names_now, names_before) = (names(now), names(before));
    let new = now.iter().filter(|output| !runs_before.contains(&output.version())).map(|output| {
        let how = if names_before.contains(&plain(output)) { "was made again since" } else { "is new" };
        format!("the reference output {} {how}", output.named())
    });
    let gone = before
        .iter()
        .filter(|output| !runs_now.contains(&output.version()) && !names_now.contains(&plain(output)))
        .map(|output| format!("the reference output {} is gone", output.named()));
    let differ: Vec<String> = new.chain(gone).collect();
    if differ.is_empty() && runs_now != runs_before {
        return vec!["the reference outputs are in another order".to_owned()];
    }
    differ
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_named_with_both_values() {
        let before =
            json!({"name": "a", "score": {"threshold": 0.8}, "engine": {"memory": 1}, "lsh": {"bands": 4}});
        let now =
            json!({"name": "b", "score": {"threshold": 0.9}, "engine": {"memory": 2}, "lsh": {"rows": 2}});
        let expected = [
            "`lsh.rows` is 2 and was not set",
            "`score.threshold` is 0.9 and was 0.8",
            "`lsh.bands` is not set and was 4",
        ];
        assert_eq!(keys(&now, &before), expected);
        assert_eq!(keys(&now, &now), [""; 0]);
        let chosen =
            |choice: Value, bands: u32| json!({"lsh": {"choice": choice, "bands": bands, "rows": 4}});
        let recall = || json!({"target-recall": 0.99});
        assert_eq!(keys(&chosen(json!("given"), 32), &chosen(recall(), 32)), [""; 0]);
        let expected = [
            "`lsh.bands` is 16 and was not set",
            "`lsh.rows` is 4 and was not set",
            "`lsh.target_recall` is not set and was 0.99",
        ];
        assert_eq!(keys(&chosen(json!("given"), 16), &chosen(recall(), 32)), expected);
        assert_eq!(named(["a", "b", "c", "d", "e"].map(str::to_owned).into()), "a, b, c, 2 more");
    }
}
