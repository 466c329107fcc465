//! Converts a resolved job to the keys of a job file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Format, Job};
use crate::error::{Error, Result};

/// Returns the keys and values of a job file for the JSON of a resolved [`Job`](super::Job). Omits keys without a value, and values that
/// follow from other keys, such as the bands for a recall. Includes the settings that a job takes from a reused output. Lists the outputs
/// of a merge, which no job file can describe, under `merge`. The JSON of a string, number, boolean or list is valid TOML.
pub(crate) fn keys(job: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let section = |name: &str| job.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    add(&mut found, "source", source(&section("source")));
    add(&mut found, "shingle", section("shingle"));
    add(&mut found, "shingle", Map::from_iter([("max_frequency".into(), job["max_frequency"].clone())]));
    if let Some(output) = job["input"]["reuse"].get("output") {
        found.insert("source.format".into(), json!("output"));
        found.insert("source.url".into(), output.clone());
    }
    add(&mut found, "lsh", lsh(section("lsh")));
    // On the first day, `[against]` had no effect, so the job stores it as `first_day`.
    let reference = if job["first_day"].is_null() { "against" } else { "first_day" };
    add(&mut found, "against", against(section(reference)));
    if let Some(source_of_reference) = job["against"]["source"].as_object() {
        add(&mut found, "against.source", source(source_of_reference));
    }
    for name in ["minhash", "candidates", "score", "clusters", "passages", "alarms", "output", "engine"] {
        add(&mut found, name, section(name));
    }
    for (name, value) in [("name", job.get("name")), ("merge", job["input"].get("merge"))] {
        found.extend(value.map(|value| (name.to_owned(), value.clone())));
    }
    found
}

/// Returns the first key that differs between two jobs. Compares only the sections and keys in `among`. Bands and rows are compared as
/// numbers, however they were chosen.
pub(crate) fn first_difference(made: &Job, job: &Job, among: &[&str]) -> Result<Option<String>> {
    let keys = |job: &Job| {
        let mut written = job.as_value()?;
        written["lsh"]["choice"] = json!("given");
        Ok::<_, Error>(keys(&written))
    };
    let (made, job) = (keys(made)?, keys(job)?);
    let all: BTreeSet<&String> = made.keys().chain(job.keys()).collect();
    let mut among = among.iter().flat_map(|section| all.iter().filter(move |key| is_in(key, section)));
    Ok(among.find(|key| made.get(**key) != job.get(**key)).map(|key| (*key).clone()))
}

pub(crate) fn is_in(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn add(found: &mut BTreeMap<String, Value>, section: &str, keys: Map<String, Value>) {
    let set = keys.into_iter().filter(|(_, value)| !value.is_null());
    found.extend(set.map(|(key, value)| (format!("{section}.{key}"), value)));
}

fn source(source: &Map<String, Value>) -> Map<String, Value> {
    let mut keys = Map::new();
    let format = source.get("format").and_then(|name| Format::deserialize(name).ok());
    let rules = format.map(Format::rules);
    for (name, value) in source {
        match name.as_str() {
            "urls" => keys.insert("url".into(), one_or_all(value)),
            "id" => keys.insert("id".into(), id(value)),
            // An empty list is the default. Some formats refuse the key.
            "text" | "columns" if value.as_array().is_some_and(Vec::is_empty) => None,
            "limit" => {
                keys.insert("seed".into(), value["seed"].clone());
                keys.insert("limit".into(), value["size"].clone())
            }
            "csv" if format == Some(Format::Csv) => {
                for byte in ["delimiter", "quote", "escape"] {
                    let character =
                        value[byte].as_u64().and_then(|byte| char::from_u32(u32::try_from(byte).ok()?));
                    let none = (byte == "quote").then(String::new);
                    keys.insert(byte.into(), json!(character.map(String::from).or(none)));
                }
                if value["quotes_end_in_line"] == true {
                    keys.remove("quote");
                }
                keys.insert("header".into(), value["header"].clone())
            }
            "csv" | "table_versions" => None,
            "max_text" => keys.insert(name.clone(), json!(value.to_string())),
            "references" if !rules.is_some_and(|rules| rules.has_references) => None,
            "encoding" if rules.is_some_and(|rules| rules.has_own_encoding) => None,
            _ => keys.insert(name.clone(), value.clone()),
        };
    }
    keys
}

fn id(id: &Value) -> Value {
    match (id.as_str(), &id["columns"]) {
        (Some("row-number"), _) => json!("row_number"),
        (Some(word), _) => json!(word),
        // The value stays a list, because a single column can have the name of a special word.
        (None, columns) => columns.clone(),
    }
}

fn one_or_all(list: &Value) -> Value {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => one.clone(),
        _ => list.clone(),
    }
}

fn lsh(mut lsh: Map<String, Value>) -> Map<String, Value> {
    let Some(choice) = lsh.remove("choice") else { return lsh };
    if choice == "given" {
        return lsh;
    }
    lsh.remove("bands");
    lsh.remove("rows");
    match choice.get("target-recall") {
        Some(recall) => lsh.insert("target_recall".into(), recall.clone()),
        None => lsh.insert("choose".into(), choice["rule"].clone()),
    };
    lsh
}

fn against(mut against: Map<String, Value>) -> Map<String, Value> {
    against.remove("source");
    if let Some(outputs) = against.remove("outputs") {
        against.insert("output".into(), one_or_all(&outputs["urls"]));
        against.insert("same_id".into(), outputs["same_id"].clone());
    }
    against
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{file, resolve};

    fn job(sets: &[String]) -> Job {
        let read = file::read("", "job.toml", sets).unwrap_or_else(|e| panic!("{sets:#?}: {e:?}"));
        resolve(read).unwrap_or_else(|e| panic!("{sets:#?}: {e:?}"))
    }

    #[test]
    fn the_keys_make_the_job_again() {
        let csv = ["source.format=csv", "source.url=[\"a/\", \"b/\"]", "source.text=[\"t\", \"u\"]"];
        let parquet = ["source.url=a.parquet", "source.text=text", "source.id=id"];
        let cases: [(&[&str], &str); 15] = [
            (&csv, ""),
            (
                &csv,
                "source.delimiter=;|source.quote='|source.header=false|source.max_text=1MiB|source.encoding=windows-1252",
            ),
            (&csv, "source.id=[\"shop\", \"n\"]|source.columns=[\"n\"]|source.group=shop|source.limit=2.5%"),
            (&csv, "source.limit=1000|source.seed=7|source.where=n > 3|lsh.choose=balanced"),
            (&parquet, "source.id=[\"path\"]|lsh.bands=32|lsh.rows=4|engine.memory=3GiB"),
            (&parquet, "shingle.normalize=[]|shingle.max_frequency=0.01|candidates.method=prefix"),
            (&parquet, "minhash.family=linear|score.by=signature|engine.memory=\"1000001\"|engine.threads=3"),
            (&parquet, "minhash.family=linear|minhash.modulus=next-prime|shingle.hash=dictionary"),
            (&parquet, "minhash.family=linear|minhash.modulus=101|minhash.permutations=16"),
            (
                &parquet,
                "against.output=[\"x\", \"y\"]|against.same_id=skip|against.first_day=true|clusters.keep=[\"length\"]",
            ),
            (&parquet, "against.source.url=k.jsonl|against.source.text=body|against.pairs=new-old"),
            (&parquet, "passages.unit=word|passages.length=30|candidates.method=none"),
            (&parquet, "passages.unit=line|alarms.removed_share=0.5|clusters.thresholds=[0.9]"),
            (&[], "source.format=reuters|source.url=r/|source.references=keep|lsh.target_recall=0.9"),
            (
                &[],
                "source.format=text|source.url=\"a \\\"b\\\"/\"|engine.mode=cluster|engine.scheduler=df://h:5",
            ),
        ];
        for (format, more) in cases {
            let sets = format.iter().copied().chain(more.split_terminator('|')).chain(["output.url=out/"]);
            let sets: Vec<String> = sets.map(str::to_owned).collect();
            let wanted = job(&sets);
            let keys = keys(&serde_json::to_value(&wanted).unwrap());
            let again: Vec<String> = keys.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            assert_eq!(job(&again), wanted, "{again:#?}");
        }
    }
}
