//! The datasets of a run: their names, versions, columns and sizes.

use std::collections::HashSet;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::address;
use crate::apply::alarms::AlarmVerdict;
use crate::job::{Input, InputFile, Job, Reference};
use crate::output::manifest::Run as Manifest;
use crate::schema::{self, Table};
use crate::source;

/// The program that produces the events, as a package URL.
pub(super) const PRODUCER: &str = concat!("pkg:cargo/resemblance@", env!("CARGO_PKG_VERSION"));

/// The tables that a later run reads from an output.
const READ_OF_OUTPUTS: [Table; 3] = [Table::Documents, Table::Pairs, Table::Clusters];

/// A dataset that a run reads: a folder, a file, a URL, a pattern, or a table of an output. The URL of this output follows.
type InputDataset = (String, Option<String>);

/// Returns a facet of the specification with these fields, such as `SchemaDatasetFacet` in version `1-2-0`.
pub(super) fn facet((version, schema): (&str, &str), mut fields: Value) -> Value {
    let url = format!("https://openlineage.io/spec/facets/{version}/{schema}.json#/$defs/{schema}");
    fields["_producer"] = json!(PRODUCER);
    fields["_schemaURL"] = json!(url);
    fields
}

/// Returns the datasets that `job` reads. A `manifest` adds their versions and the sizes of their files.
pub(super) fn inputs(job: &Job, manifest: Option<&Manifest>) -> Vec<Value> {
    let inputs = input_datasets(job);
    let mut datasets: Vec<Value> = inputs.iter().map(|(address, _)| dataset(address)).collect();
    let Some(manifest) = manifest else { return datasets };
    let files = files_by_dataset(&inputs, &manifest.inputs);
    for (((_, output), dataset), files) in inputs.iter().zip(&mut datasets).zip(files) {
        match output {
            Some(output) => {
                if let Some(version) = version_of_output(manifest, output) {
                    dataset["facets"]["version"] = version_facet(version);
                }
            }
            None if files.is_empty() => {}
            None => describe_files(dataset, &files),
        }
    }
    datasets
}

pub(crate) fn names_of_inputs(job: &Job) -> Vec<Value> {
    input_datasets(job).iter().map(|(address, _)| named(address)).collect()
}

/// Returns the `table`, `url`, `namespace` and `name` of the tables that `job` writes.
pub(crate) fn names_of_outputs(job: &Job) -> Vec<Value> {
    let named = |table: Table| {
        let url = table_address(&job.output.url, table);
        let mut named = named(&url);
        named["table"] = json!(table.name());
        named["url"] = json!(url);
        named
    };
    Table::written_by(job).into_iter().map(named).collect()
}

pub(super) fn outputs(job: &Job, manifest: &Manifest, verdicts: &[AlarmVerdict]) -> Vec<Value> {
    let described = |table: Table| {
        let mut dataset = dataset(&table_address(&job.output.url, table));
        let contract = schema::contract(table).over(&manifest.source, job.columns());
        let column = |column: &schema::Column| json!({ "name": column.name, "type": column.kind.arrow().to_string(), "description": column.doc });
        let columns: Vec<Value> = contract.columns.iter().map(column).collect();
        dataset["facets"]["schema"] = facet(("1-2-0", "SchemaDatasetFacet"), json!({ "fields": columns }));
        dataset["facets"]["version"] = version_facet(&manifest.fingerprint);
        if let Some(written) = manifest.tables.get(table.name()) {
            let bytes: u64 = written.files.iter().map(|file| file.bytes).sum();
            let sizes = json!({ "rowCount": written.rows, "size": bytes, "fileCount": written.files.len() });
            dataset["outputFacets"]["outputStatistics"] =
                facet(("1-0-2", "OutputStatisticsOutputDatasetFacet"), sizes);
        }
        if table == Table::Clusters && !verdicts.is_empty() {
            let assertions: Vec<Value> = verdicts.iter().map(|verdict| assertion(job, verdict)).collect();
            dataset["facets"]["dataQualityAssertions"] =
                facet(("1-1-0", "DataQualityAssertionsDatasetFacet"), json!({ "assertions": assertions }));
        }
        dataset
    };
    Table::written_by(job).into_iter().map(described).collect()
}

/// Describes a bound of the job, and whether the output is within it.
fn assertion(job: &Job, verdict: &AlarmVerdict) -> Value {
    json!({
        "assertion": verdict.bound,
        "name": format!("alarms.{}", verdict.bound),
        "success": verdict.alarms.is_empty(),
        "severity": if job.alarms.fail { "error" } else { "warn" },
        "expected": verdict.allowed.to_string(),
        "actual": verdict.found.to_string(),
    })
}

fn input_datasets(job: &Job) -> Vec<InputDataset> {
    let files =
        |urls: &[String]| -> Vec<InputDataset> { urls.iter().map(|url| (url.clone(), None)).collect() };
    let outputs = |urls: &[String]| -> Vec<InputDataset> {
        let tables =
            |url: &String| READ_OF_OUTPUTS.map(|table| (table_address(url, table), Some(url.clone())));
        urls.iter().flat_map(tables).collect()
    };
    let mut inputs = match &job.input {
        Input::Read => files(&job.source.urls),
        Input::Reuse(reuse) => outputs(std::slice::from_ref(&reuse.output)),
        Input::Merge(urls) => outputs(urls),
    };
    inputs.extend(match job.reference() {
        None => Vec::new(),
        Some(Reference::Outputs { urls, .. }) => outputs(urls),
        Some(Reference::Source(source)) => files(&source.urls),
    });
    // Two patterns in the same folder name the same dataset.
    let mut names = HashSet::new();
    inputs.retain(|(address, _)| names.insert(name(address)));
    inputs
}

/// Returns the files of each dataset. A file below several addresses belongs to the dataset with the longest one.
fn files_by_dataset<'f>(inputs: &[InputDataset], files: &'f [InputFile]) -> Vec<Vec<&'f InputFile>> {
    let bases: Vec<&str> = inputs.iter().map(|(address, _)| source::without_pattern(address)).collect();
    let mut found = vec![Vec::new(); inputs.len()];
    for file in files {
        let is_below = |base: &str| match file.path.strip_prefix(base) {
            Some(rest) => rest.is_empty() || base.is_empty() || base.ends_with('/') || rest.starts_with('/'),
            None => false,
        };
        let below = bases.iter().enumerate().filter(|(_, base)| is_below(base));
        if let Some((at, _)) = below.max_by_key(|(_, base)| base.len()) {
            found[at].push(file);
        }
    }
    found
}

/// Adds the sizes of `files` to a dataset, and a version that changes if any file changes.
fn describe_files(dataset: &mut Value, files: &[&InputFile]) {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let sizes = json!({ "size": bytes, "fileCount": files.len() });
    dataset["inputFacets"]["inputStatistics"] = facet(("1-0-0", "InputStatisticsInputDatasetFacet"), sizes);
    let line = |file: &&InputFile| {
        // The version of a file is its ETag, or its modification time on disks.
        let version = file.e_tag.clone().or_else(|| file.modified.map(|modified| modified.to_string()))?;
        Some(format!("{:?} {} {version}", file.path, file.bytes))
    };
    let Some(mut lines) = files.iter().map(line).collect::<Option<Vec<_>>>() else { return };
    lines.sort();
    dataset["facets"]["version"] = version_facet(&format!("{:032x}", xxh3_128(lines.join("\n").as_bytes())));
}

/// Returns the fingerprint of a finished output when the run read it.
fn version_of_output<'m>(manifest: &'m Manifest, url: &str) -> Option<&'m str> {
    let is_same = |other: &str| other == url || name(other) == name(url);
    let reference = manifest.reference_outputs.iter().find(|output| is_same(output.named()));
    let read = || manifest.inputs.iter().find(|input| is_same(&input.path));
    reference.map(|output| output.fingerprint.as_str()).or_else(|| read()?.e_tag.as_deref())
}

fn version_facet(version: &str) -> Value {
    facet(("1-0-1", "DatasetVersionDatasetFacet"), json!({ "datasetVersion": version }))
}

fn table_address(output: &str, table: Table) -> String {
    format!("{}/{table}", output.trim_end_matches('/'))
}

fn dataset(address: &str) -> Value {
    let mut dataset = named(address);
    dataset["facets"] = json!({});
    dataset
}

fn named(address: &str) -> Value {
    let (namespace, name) = name(address);
    json!({ "namespace": namespace, "name": name })
}

/// Returns the namespace and the name of an address as OpenLineage names datasets: `s3://bucket` and the key, or `file` and the absolute
/// path. A pattern has the name of its folder.
fn name(address: &str) -> (String, String) {
    let folder = source::without_pattern(address);
    let folder = if folder.is_empty() { "." } else { folder };
    let remote = address::scheme(folder).filter(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"));
    if let Some((scheme, rest)) = remote {
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        // Both schemes name the same store.
        let scheme = if scheme.eq_ignore_ascii_case("s3a") { "s3" } else { scheme };
        let key = match key.trim_end_matches('/') {
            "" => "/",
            key => key,
        };
        return (format!("{}://{authority}", scheme.to_ascii_lowercase()), key.to_owned());
    }
    let path = address::local_path(folder).unwrap_or_else(|| folder.into());
    let absolute = address::absolute(&path).unwrap_or(path);
    ("file".to_owned(), absolute.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_file(path: &str, e_tag: Option<&str>) -> InputFile {
        InputFile::new(path.to_owned(), 1, None, e_tag.map(str::to_owned))
    }

    #[test]
    fn names_follow_the_conventions() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let real = real.to_string_lossy();
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let file = |path: &str| ("file".to_owned(), path.to_owned());
        let s3 = |key: &str| ("s3://lake".to_owned(), key.to_owned());
        let azure = "abfss://c@a.dfs.core.windows.net";
        for (address, expected) in [
            (format!("{real}/reviews/"), file(&format!("{real}/reviews"))),
            (format!("{real}/day=*/part.csv"), file(&real)),
            (format!("file://{real}/a%20b"), file(&format!("{real}/a b"))),
            ("*.csv".to_owned(), file(&here.to_string_lossy())),
            ("s3://lake/reviews/".to_owned(), s3("reviews")),
            ("S3a://lake/reviews/day=*/x.parquet".to_owned(), s3("reviews")),
            ("s3://lake".to_owned(), s3("/")),
            (format!("{azure}/x"), (azure.to_owned(), "x".to_owned())),
        ] {
            assert_eq!(name(&address), expected, "{address}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_dataset_with_the_longest_address() {
        let inputs = ["data", "data/new/", "data/new*.csv", "s3://b/x/*.csv"]
            .map(|address| (address.to_owned(), None));
        let files = ["data/a.csv", "data/new/b.csv", "data2/c.csv", "s3://b/x/d.csv", "data"]
            .map(|path| read_file(path, None));
        let found: Vec<Vec<&str>> = files_by_dataset(&inputs, &files)
            .into_iter()
            .map(|files| files.into_iter().map(|file| file.path.as_str()).collect())
            .collect();
        // The first dataset and the pattern have the same base, but a file belongs to only one of them.
        assert_eq!([found[0].len() + found[2].len(), found[1].len(), found[3].len()], [2, 1, 1]);
        assert_eq!((&found[1], &found[3]), (&vec!["data/new/b.csv"], &vec!["s3://b/x/d.csv"]));
    }

    #[test]
    fn the_version_changes_with_every_file() {
        let version = |files: &[(&str, Option<&str>)]| {
            let file = |&(path, version): &(&str, Option<&str>)| read_file(path, version);
            let files: Vec<InputFile> = files.iter().map(file).collect();
            let mut dataset = dataset("s3://b/x");
            describe_files(&mut dataset, &files.iter().collect::<Vec<_>>());
            dataset["facets"]["version"]["datasetVersion"].as_str().map(str::to_owned)
        };
        let (a, b) = (("a", Some("1")), ("b", Some("2")));
        let first = version(&[a, b]);
        assert_eq!(first.as_ref().map(String::len), Some(32));
        assert_eq!(version(&[b, a]), first);
        for other in [&[a, ("b", Some("3"))][..], &[a], &[a, ("c", Some("2"))]] {
            assert_ne!(version(other), first);
        }
        assert_eq!(version(&[a, ("b", None)]), None);
    }
}
