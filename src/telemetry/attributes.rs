//! The attributes of a command's span: those of its job, of its result, and of what `apply` wrote.

use super::message::{KeyValue, attribute};
use crate::address::masked;
use crate::apply;
use crate::job::{Input, Job};
use crate::pipeline::Outcome;

/// The job that runs.
pub(crate) fn of_job(job: &Job) -> Vec<KeyValue> {
    let inputs = match &job.input {
        Input::Read => job.source.urls.clone(),
        Input::Reuse(reuse) => vec![reuse.output.clone()],
        Input::Merge(outputs) => outputs.clone(),
    };
    let inputs: Vec<String> = inputs.iter().map(|url| masked(url)).collect();
    let mode = if job.engine.cluster.is_some() { "cluster" } else { "local" };
    vec![
        attribute("resemblance.job.name", job.name.as_str()),
        attribute("resemblance.engine.mode", mode),
        attribute("resemblance.input.urls", inputs),
        attribute("resemblance.output.url", masked(&job.output.url)),
    ]
}

/// The result of a run.
pub(crate) fn of_run(outcome: &Outcome) -> Vec<KeyValue> {
    let manifest = &outcome.manifest;
    let counts = &manifest.counts;
    let files = || manifest.tables.values().flat_map(|table| &table.files);
    let numbers = [
        ("stages.reused", Some(outcome.stages_reused as u64)),
        ("input.files", Some(manifest.inputs.len() as u64)),
        ("input.bytes", Some(manifest.inputs.iter().map(|input| input.bytes).sum())),
        ("output.files", Some(files().count() as u64)),
        ("output.bytes", Some(files().map(|file| file.bytes).sum())),
        ("output.rows", Some(files().map(|file| file.rows).sum())),
        ("documents", Some(counts.documents)),
        ("rejects", Some(counts.rejects)),
        ("candidates", counts.candidates),
        ("pairs", Some(counts.pairs)),
        ("clusters", Some(counts.clusters)),
        ("removed_documents", Some(counts.removed_documents)),
    ];
    let mut attributes = vec![
        attribute("resemblance.fingerprint", manifest.fingerprint.as_str()),
        attribute("resemblance.already_finished", outcome.already_finished),
    ];
    attributes.extend(numbered(numbers));
    attributes
}

/// What was written to the folder `to`.
pub(crate) fn of_application(to: &str, outcome: &apply::Outcome) -> Vec<KeyValue> {
    let manifest = &outcome.manifest;
    let written = || manifest.files.iter().flat_map(|file| &file.written);
    let numbers = [
        ("apply.files", Some(written().count() as u64)),
        ("apply.bytes", Some(written().map(|written| written.bytes).sum())),
        ("apply.files.reused", Some(outcome.files_reused)),
        ("apply.documents.read", Some(manifest.counts.read)),
        ("apply.documents.kept", Some(manifest.counts.kept)),
        ("apply.documents.removed", Some(manifest.counts.removed)),
    ];
    let mut attributes = vec![
        attribute("resemblance.apply.output", masked(&manifest.output)),
        attribute("resemblance.apply.url", masked(to)),
        attribute("resemblance.apply.already_finished", outcome.already_finished),
    ];
    attributes.extend(numbered(numbers));
    attributes
}

fn numbered<const N: usize>(numbers: [(&str, Option<u64>); N]) -> impl Iterator<Item = KeyValue> {
    let known = numbers.into_iter().filter_map(|(key, number)| Some((format!("resemblance.{key}"), number?)));
    known.map(|(key, number)| attribute(key, number)).collect::<Vec<_>>().into_iter()
}
