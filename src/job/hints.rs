//! What is meant by a key or a value that a job file does not have: keys of other programs, keys in the wrong section, texts
//! without quotes.

use std::collections::BTreeMap;

use serde_json::Value;

/// Keys that other programs or sections have, and ours, both by their dotted names.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("source", &["input", "inputs", "sources", "data"]),
    ("shingle", &["shingles", "shingling", "tokenizer", "ngrams"]),
    ("minhash", &["signature", "signatures", "minhashes"]),
    ("lsh", &["banding", "bands"]),
    ("score", &["scoring", "similarity"]),
    ("clusters", &["cluster", "clustering"]),
    ("passages", &["passage", "spans", "substrings", "boilerplate"]),
    ("alarms", &["alarm", "limits"]),
    ("output", &["outputs", "out", "result", "results"]),
    (
        "source.url",
        &[
            "source.path",
            "source.paths",
            "source.file",
            "source.files",
            "source.folder",
            "source.dir",
            "source.directory",
            "source.uri",
            "source.urls",
            "source.location",
        ],
    ),
    ("source.format", &["source.type", "source.kind", "source.file_format"]),
    ("source.id", &["source.id_column", "source.id_col", "source.id_field", "source.ids", "source.key"]),
    (
        "source.text",
        &[
            "source.text_column",
            "source.text_col",
            "source.text_field",
            "source.texts",
            "source.content",
            "source.body",
        ],
    ),
    ("source.columns", &["source.carry", "source.keep", "source.extra_columns", "source.metadata"]),
    ("source.delimiter", &["source.sep", "source.separator", "source.delim"]),
    ("source.quote", &["source.quotechar", "source.quote_char"]),
    ("source.escape", &["source.escapechar", "source.escape_char"]),
    ("source.group", &["source.group_by", "source.groups"]),
    (
        "shingle.size",
        &[
            "shingle.k",
            "shingle.n",
            "shingle.length",
            "shingle.width",
            "shingle.ngram",
            "shingle.ngram_size",
            "shingle.shingle_size",
        ],
    ),
    ("shingle.unit", &["shingle.type", "shingle.level", "shingle.of", "shingle.by"]),
    (
        "minhash.permutations",
        &[
            "minhash.num_perm",
            "minhash.num_permutations",
            "minhash.hashes",
            "minhash.num_hashes",
            "minhash.size",
            "minhash.perms",
        ],
    ),
    ("lsh.bands", &["lsh.b", "lsh.num_bands"]),
    ("lsh.rows", &["lsh.r", "lsh.num_rows", "lsh.rows_per_band"]),
    ("lsh.target_recall", &["lsh.recall"]),
    (
        "score.threshold",
        &[
            "score.min",
            "score.minimum",
            "score.cutoff",
            "score.similarity",
            "score.min_similarity",
            "score.jaccard",
        ],
    ),
    ("score.measure", &["score.metric", "score.similarity_measure", "score.distance"]),
    ("clusters.keep", &["clusters.order", "clusters.order_by", "clusters.prefer", "clusters.sort"]),
    (
        "output.url",
        &["output.path", "output.folder", "output.dir", "output.directory", "output.uri", "output.to"],
    ),
    ("output.pair_passages", &["output.passages"]),
    ("output.tables", &["output.format", "output.type"]),
    ("engine.threads", &["engine.cores", "engine.cpus", "engine.workers", "engine.parallelism"]),
    ("engine.memory", &["engine.mem", "engine.ram", "engine.memory_limit"]),
    ("engine.spill", &["engine.tmp", "engine.temp", "engine.temp_dir", "engine.spill_dir"]),
    ("engine.scheduler", &["engine.url", "engine.master", "engine.address"]),
];

/// The keys that the unknown dotted `key` may be meant for: the one of that meaning, or those of that name in other sections.
/// `schema` is the JSON Schema of a job file.
pub(super) fn meant(key: &str, schema: &Value) -> Vec<String> {
    let synonym = SYNONYMS.iter().find(|(_, others)| others.contains(&key));
    if let Some((ours, _)) = synonym {
        return vec![(*ours).to_owned()];
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let of_name = keys(schema).into_iter().filter(|(_, keys)| keys.iter().any(|name| name == last));
    let found: Vec<String> = of_name.map(|(section, _)| format!("{section}.{last}")).collect();
    if !found.is_empty() {
        return found;
    }
    // A synonym without its section, or in another one.
    let without = |other: &str| other.split_once('.').is_some_and(|(_, name)| name == last);
    let ours = SYNONYMS.iter().filter(|(_, others)| others.iter().any(|other| without(other)));
    ours.map(|(ours, _)| (*ours).to_owned()).collect()
}

/// The sections of a job file with their keys, by its JSON Schema.
fn keys(schema: &Value) -> BTreeMap<String, Vec<String>> {
    let mut keys = BTreeMap::new();
    for (name, section) in schema["properties"].as_object().into_iter().flatten() {
        let reference = section["$ref"].as_str().or_else(|| section["anyOf"][0]["$ref"].as_str());
        let Some(definition) =
            reference.and_then(|reference| schema.pointer(reference.trim_start_matches('#')))
        else {
            continue;
        };
        let names: Vec<String> =
            definition["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        if !names.is_empty() {
            keys.insert(name.clone(), names);
        }
    }
    keys
}

/// What is wrong with the line of a TOML file that cannot be parsed, if that is a text without quotes.
pub(super) fn unquoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    match value.strip_prefix('[') {
        Some(items) => {
            let items = items.split(']').next()?;
            items.split(',').find_map(bare)?;
            Some(format!("the items of a list need quotes: {key} = {}", quoted_list(items)))
        }
        None => bare(value.split(" #").next()?).map(|word| format!("texts need quotes: {key} = {word:?}")),
    }
}

/// The word, if it is a text without quotes.
fn bare(word: &str) -> Option<&str> {
    let word = word.trim();
    let first = word.chars().next()?;
    let is_text = first.is_alphabetic() || matches!(first, '/' | '.' | '_' | '~');
    let is_value = matches!(word, "true" | "false" | "inf" | "nan");
    (is_text && !is_value && !word.contains(['"', '\''])).then_some(word)
}

/// The list that is meant by items with or without quotes.
pub(super) fn quoted_list(items: &str) -> String {
    let items = items.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    let items = items.map(|item| item.trim().trim_matches(['"', '\''])).filter(|item| !item.is_empty());
    format!("[{}]", items.map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", "))
}

/// How a value of the wrong type is written, by the sentence about it: ``invalid type: string "a", expected a list of strings``.
pub(super) fn rewritten(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("invalid type: string \"")?;
    let (value, expected) = rest.rsplit_once("\", expected ")?;
    // A secret in a URL is masked only as it was written.
    if value.contains("://") {
        return None;
    }
    match expected {
        "a list of strings" => Some(format!("write {}", quoted_list(value))),
        "a number" if value.parse::<f64>().is_ok() => Some(format!("write {value} without quotes")),
        "a whole number, 0 or more" if value.parse::<u64>().is_ok() => {
            Some(format!("write {value} without quotes"))
        }
        "true or false" if matches!(value, "true" | "false") => Some(format!("write {value} without quotes")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::file::File;

    fn schema() -> Value {
        Value::from(schemars::schema_for!(File))
    }

    #[test]
    fn every_synonym_is_of_a_key_that_exists_and_is_none_itself() {
        let keys = keys(&schema());
        let exists = |key: &str| match key.split_once('.') {
            None => keys.contains_key(key),
            Some((section, name)) => keys.get(section).is_some_and(|keys| keys.iter().any(|key| key == name)),
        };
        let mut seen = std::collections::BTreeSet::new();
        for (ours, others) in SYNONYMS {
            assert!(exists(ours), "{ours}");
            for other in *others {
                assert!(!exists(other), "{other} exists");
                assert!(seen.insert(other), "{other} is repeated");
            }
        }
    }

    #[test]
    fn the_meant_key_is_found_in_its_section() {
        for (key, expected) in [
            ("threshold", &["score.threshold"][..]),
            ("shingle.threshold", &["score.threshold"]),
            ("shingle.k", &["shingle.size"]),
            ("output.path", &["output.url"]),
            ("url", &["output.url", "source.url"]),
            ("num_perm", &["minhash.permutations"]),
            ("cluster", &["clusters"]),
            ("nonsense", &[]),
        ] {
            assert_eq!(meant(key, &schema()), expected, "{key}");
        }
    }

    #[test]
    fn texts_without_quotes_are_quoted() {
        for (line, expected) in [
            ("text = [title, body]", Some("the items of a list need quotes: text = [\"title\", \"body\"]")),
            (
                "text = [ \"title\", body ] # both",
                Some("the items of a list need quotes: text = [\"title\", \"body\"]"),
            ),
            ("format = parquet", Some("texts need quotes: format = \"parquet\"")),
            ("url = data/a b.csv # all", Some("texts need quotes: url = \"data/a b.csv\"")),
            ("threshold = 0,8", None),
            ("header = true", None),
            ("[source", None),
        ] {
            assert_eq!(unquoted(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn values_of_another_type_are_written_as_they_should_be() {
        for (said, expected) in [
            ("invalid type: string \"date desc\", expected a list of strings", Some("write [\"date desc\"]")),
            ("invalid type: string \"[a, b]\", expected a list of strings", Some("write [\"a\", \"b\"]")),
            ("invalid type: string \"0.8\", expected a number", Some("write 0.8 without quotes")),
            ("invalid type: string \"high\", expected a number", None),
            ("invalid type: string \"true\", expected true or false", Some("write true without quotes")),
            ("unknown key `a`", None),
        ] {
            assert_eq!(rewritten(said).as_deref(), expected, "{said}");
        }
    }
}
