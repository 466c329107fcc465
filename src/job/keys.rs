//! A resolved job as keys of a job file.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The keys of a job file that make `job`, the JSON of a resolved [`Job`](super::Job), each with its value. What is computed from
/// other keys, such as the bands for a recall, is left out, and so are keys without a value. The JSON of a string, a number, a
/// boolean or a list is its TOML too. A job over a finished output has the keys that it takes over from there, too, and one that
/// merges outputs, which no file asks for, has them as `merge`.
pub(crate) fn keys(job: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let section = |name: &str| job.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    add(&mut found, "source", source(&section("source")));
    add(&mut found, "shingle", section("shingle"));
    add(&mut found, "minhash", minhash(section("minhash")));
    add(&mut found, "shingle", Map::from_iter([("max_frequency".into(), job["max_frequency"].clone())]));
    if let Some(output) = section("reuse").remove("output") {
        found.insert("source.format".into(), json!("output"));
        found.insert("source.url".into(), output);
    }
    add(&mut found, "lsh", lsh(section("lsh")));
    add(&mut found, "against", against(section("against")));
    if let Some(source_of_reference) = job["against"]["source"].as_object() {
        add(&mut found, "against.source", source(source_of_reference));
    }
    add(&mut found, "passages", passages(&job["passages"]));
    add(&mut found, "engine", engine(section("engine")));
    for name in ["candidates", "score", "clusters", "alarms", "output"] {
        add(&mut found, name, section(name));
    }
    for name in ["name", "merge"] {
        found.extend(job.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    found
}

/// Adds the keys of a section.
fn add(found: &mut BTreeMap<String, Value>, section: &str, keys: Map<String, Value>) {
    let set = keys.into_iter().filter(|(_, value)| !value.is_null());
    found.extend(set.map(|(key, value)| (format!("{section}.{key}"), value)));
}

fn source(source: &Map<String, Value>) -> Map<String, Value> {
    let mut keys = Map::new();
    let format = source.get("format").and_then(Value::as_str).unwrap_or_default();
    for (name, value) in source {
        match name.as_str() {
            "urls" => keys.insert("url".into(), one_or_all(value)),
            "id" => keys.insert("id".into(), id(value)),
            // A list without items is the default, which some formats do not let a file write.
            "text" | "columns" if value.as_array().is_some_and(Vec::is_empty) => None,
            "limit" => {
                keys.insert("seed".into(), value["seed"].clone());
                let share = |share: f64| format!("{}%", share * 100.0);
                let size = value["size"]["share"].as_f64().map(share);
                keys.insert("limit".into(), size.map_or(value["size"]["documents"].clone(), Value::from))
            }
            "csv" if format == "csv" => {
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
            "references" if format != "reuters" => None,
            "encoding" if matches!(format, "parquet" | "delta") => None,
            _ => keys.insert(name.clone(), value.clone()),
        };
    }
    keys
}

fn id(id: &Value) -> Value {
    match (id.as_str(), &id["columns"]) {
        (Some("row-number"), _) => json!("row_number"),
        (Some(word), _) => json!(word),
        // A list of one column, whose name may be one of those words.
        (None, columns) => columns.clone(),
    }
}

/// A list of one item as that item.
fn one_or_all(list: &Value) -> Value {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => one.clone(),
        _ => list.clone(),
    }
}

fn minhash(mut minhash: Map<String, Value>) -> Map<String, Value> {
    let modulus = match minhash.get("family").map(|family| &family["linear"]) {
        None | Some(Value::Null) => return minhash,
        Some(Value::String(word)) => json!(word),
        // Both have words.
        Some(modulus) => match modulus["is"].as_u64() {
            Some(2_147_483_647) => json!("2^31-1"),
            Some(4_294_967_295) => json!("2^32-1"),
            _ => modulus["is"].clone(),
        },
    };
    minhash.insert("family".into(), json!("linear"));
    minhash.insert("modulus".into(), modulus);
    minhash
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
        None => lsh.insert("choose".into(), choice),
    };
    lsh
}

fn against(mut against: Map<String, Value>) -> Map<String, Value> {
    let outputs = against.remove("outputs").unwrap_or_default();
    match against.remove("source") {
        Some(source) if !source.is_null() => _ = against.remove("same_id"),
        _ if outputs.is_array() => _ = against.insert("output".into(), one_or_all(&outputs)),
        _ => {}
    }
    against
}

fn passages(passages: &Value) -> Map<String, Value> {
    let section = |name: &str| passages.get(name).and_then(Value::as_object).cloned();
    match (section("units"), section("words")) {
        (Some(units), _) => units,
        (None, Some(mut words)) => {
            words.insert("unit".into(), json!("word"));
            words
        }
        (None, None) => Map::new(),
    }
}

fn engine(mut engine: Map<String, Value>) -> Map<String, Value> {
    let memory = engine.get("memory").and_then(Value::as_u64).map(memory);
    engine.insert("memory".into(), json!(memory));
    if let Some(Value::Object(mut cluster)) = engine.remove("cluster") {
        engine.insert("mode".into(), json!("cluster"));
        if let Some(scheduler) = cluster.remove("scheduler").as_ref().and_then(Value::as_str) {
            engine.insert("scheduler".into(), json!(format!("df://{scheduler}")));
        }
        engine.extend(cluster);
    }
    engine
}

/// An amount of memory, in the largest unit that makes it a whole number.
fn memory(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits)) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, file, resolve};

    /// The job of these settings alone.
    fn job(sets: &[String]) -> Job {
        let read = file::read("", "job.toml", sets).unwrap_or_else(|e| panic!("{sets:#?}: {e:?}"));
        resolve(read).unwrap_or_else(|e| panic!("{sets:#?}: {e:?}"))
    }

    #[test]
    fn the_keys_make_the_job_again() {
        let csv = ["source.format=csv", "source.url=[\"a/\", \"b/\"]", "source.text=[\"t\", \"u\"]"];
        let parquet = ["source.url=a.parquet", "source.text=text", "source.id=id"];
        let cases: [&[&[&str]]; 15] = [
            &[&csv],
            &[
                &csv,
                &[
                    "source.delimiter=;",
                    "source.quote='",
                    "source.header=false",
                    "source.max_text=1MiB",
                    "source.encoding=windows-1252",
                ],
            ],
            &[
                &csv,
                &[
                    "source.id=[\"shop\", \"n\"]",
                    "source.columns=[\"n\"]",
                    "source.group=shop",
                    "source.limit=2.5%",
                ],
            ],
            &[&csv, &["source.limit=1000", "source.seed=7", "source.where=n > 3", "lsh.choose=balanced"]],
            &[&parquet, &["source.id=[\"path\"]", "lsh.bands=32", "lsh.rows=4", "engine.memory=3GiB"]],
            &[&parquet, &["shingle.normalize=[]", "shingle.max_frequency=0.01", "candidates.method=prefix"]],
            &[
                &parquet,
                &[
                    "minhash.family=linear",
                    "score.by=signature",
                    "engine.memory=\"1000001\"",
                    "engine.threads=3",
                ],
            ],
            &[&parquet, &["minhash.family=linear", "minhash.modulus=next-prime", "shingle.hash=dictionary"]],
            &[&parquet, &["minhash.family=linear", "minhash.modulus=101", "minhash.permutations=16"]],
            &[
                &parquet,
                &["against.output=[\"x\", \"y\"]", "against.same_id=skip", "clusters.keep=[\"length\"]"],
            ],
            &[&parquet, &["against.source.url=k.jsonl", "against.source.text=body", "against.pairs=new-old"]],
            &[&parquet, &["passages.unit=word", "passages.length=30", "candidates.method=none"]],
            &[&parquet, &["passages.unit=line", "alarms.removed_share=0.5", "clusters.thresholds=[0.9]"]],
            &[&["source.format=reuters", "source.url=r/", "source.references=keep", "lsh.target_recall=0.9"]],
            &[&[
                "source.format=text",
                "source.url=\"a \\\"b\\\"/\"",
                "engine.mode=cluster",
                "engine.scheduler=df://h:5",
            ]],
        ];
        for case in cases {
            let mut sets: Vec<String> = case.concat().into_iter().map(str::to_owned).collect();
            sets.push("output.url=out/".into());
            let wanted = job(&sets);
            let keys = keys(&serde_json::to_value(&wanted).unwrap());
            let again: Vec<String> = keys.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            assert_eq!(job(&again), wanted, "{again:#?}");
        }
    }
}
