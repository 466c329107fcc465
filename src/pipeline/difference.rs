//! The differences between a run and the result in its output.

use std::collections::BTreeMap;

use serde_json::Value;

use super::input::RunInput;
use super::reference::ReferenceDocuments;
use crate::job::{self, InputFile, Job};
use crate::output::manifest::{ReferenceOutput, Run as Manifest};

/// Keys and files that a message names.
const NAMED: usize = 3;
/// Keys of a job that change no row.
const IRRELEVANT: [&str; 6] = ["name", "engine", "alarms", "output.url", "output.max_pairs", "output.tables"];

/// What a run reads.
pub(super) struct RunReads {
    files: Vec<InputFile>,
    /// The reference outputs.
    outputs: Vec<ReferenceOutput>,
}

impl RunReads {
    pub(super) fn of(input: &RunInput, reference: Option<&ReferenceDocuments>) -> Self {
        let mut files = input.inputs();
        files.extend(reference.map(ReferenceDocuments::inputs).unwrap_or_default());
        let outputs = reference.and_then(ReferenceDocuments::outputs);
        Self { files, outputs: outputs.map(|outputs| outputs.record()).unwrap_or_default() }
    }
}

/// The difference between `job` over what it `reads` and the run of `manifest`, as in "of another job
/// (`score.threshold` is 0.9 and was 0.8)".
pub(super) fn difference(job: &Job, reads: &RunReads, manifest: &Manifest) -> String {
    let keys = keys(&serde_json::to_value(job).unwrap_or_default(), &manifest.job);
    if !keys.is_empty() {
        return format!("of another job ({})", named(keys));
    }
    let mut inputs = files(&reads.files, &manifest.inputs);
    if job.second_source().is_none() {
        inputs.extend(outputs(&reads.outputs, &manifest.reference_outputs));
    }
    match inputs.is_empty() {
        false => format!("of other inputs ({})", named(inputs)),
        true => "of other inputs".to_owned(),
    }
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
        // Who chose them changes no row.
        for job in [&mut now, &mut before] {
            _ = job.get_mut("lsh").and_then(Value::as_object_mut).and_then(|lsh| lsh.remove("choice"));
        }
    }
    let (now, before) = (job::keys(&now), job::keys(&before));
    let mut all: Vec<&String> =
        now.keys().chain(before.keys().filter(|key| !now.contains_key(*key))).collect();
    // What is read says most, and a merge everything.
    all.sort_by_key(|key| (*key != "merge", !key.ends_with(".url")));
    let all = all.into_iter();
    let shown = |value: Option<&Value>| value.map_or("not set".to_owned(), |value| value.to_string());
    let differ = all.filter(|key| {
        let relevant = IRRELEVANT.iter().all(|other| {
            key.strip_prefix(other).is_none_or(|rest| !(rest.is_empty() || rest.starts_with('.')))
        });
        // Reference outputs are compared by their runs.
        let are_outputs = *key == "against.output" && now.contains_key(*key) && before.contains_key(*key);
        relevant && !are_outputs && now.get(*key) != before.get(*key)
    });
    differ
        .map(|key| format!("`{key}` is {} and was {}", shown(now.get(key)), shown(before.get(key))))
        .collect()
}

/// The files that only one of the two runs read, and those that were written again.
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

/// The reference outputs that only one of the two runs has, and those that were made again.
fn outputs(now: &[ReferenceOutput], before: &[ReferenceOutput]) -> Vec<String> {
    let has = |outputs: &[ReferenceOutput], run: &str| outputs.iter().any(|output| output.version() == run);
    let plain = |output: &ReferenceOutput| output.named().trim_end_matches('/').to_owned();
    let (names, earlier): (Vec<_>, Vec<_>) =
        (now.iter().map(plain).collect(), before.iter().map(plain).collect());
    let new = now.iter().filter(|output| !has(before, &output.version())).map(|output| {
        let how = if earlier.contains(&plain(output)) { "was made again since" } else { "is new" };
        format!("the reference output {} {how}", output.named())
    });
    let gone = before
        .iter()
        .filter(|output| !has(now, &output.version()) && !names.contains(&plain(output)))
        .map(|output| format!("the reference output {} is gone", output.named()));
    let differ: Vec<String> = new.chain(gone).collect();
    let runs = |outputs: &[ReferenceOutput]| -> Vec<String> {
        outputs.iter().map(ReferenceOutput::version).collect()
    };
    match differ.is_empty() && runs(now) != runs(before) {
        true => vec!["the reference outputs are in another order".to_owned()],
        false => differ,
    }
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
