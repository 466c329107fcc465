//! Suggestions for unknown keys and wrong values in a job file, such as keys of other programs and strings without quotes.

use serde_json::Value;

/// Keys of the job file. Each key is followed by the names that other programs use for it.
const SYNONYMS: &str = "\
source: input inputs sources data
shingle: shingles shingling tokenizer ngrams
minhash: signature signatures minhashes
lsh: banding bands
score: scoring similarity
clusters: cluster clustering
passages: passage spans substrings boilerplate
alarms: alarm limits
output: outputs out result results
source.url: path paths file files folder dir directory uri urls location
source.format: type kind file_format
source.id: id_column id_col id_field ids key
source.text: text_column text_col text_field texts content body
source.columns: carry keep extra_columns metadata
source.delimiter: sep separator delim
source.quote: quotechar quote_char
source.escape: escapechar escape_char
source.group: group_by groups
shingle.size: k n length width ngram ngram_size shingle_size
shingle.unit: type level of by
minhash.permutations: num_perm num_permutations hashes num_hashes size perms
lsh.bands: b num_bands
lsh.rows: r num_rows rows_per_band
lsh.target_recall: recall
score.threshold: min minimum cutoff similarity min_similarity jaccard
score.measure: metric similarity_measure distance
clusters.keep: order order_by prefer sort
output.url: path folder dir directory uri to
output.pair_passages: passages
output.tables: format type
engine.threads: cores cpus workers parallelism
engine.memory: mem ram memory_limit
engine.spill: tmp temp temp_dir spill_dir
engine.scheduler: url master address";

/// Returns the keys that a user could mean by the unknown dotted `key`. These are the keys with this synonym in the same section, or else
/// the keys with this name in other sections. `schema` is the JSON Schema of a job file.
pub(super) fn meant(key: &str, schema: &Value) -> Vec<String> {
    let (section, last) = split(key);
    let synonyms = SYNONYMS.lines().filter_map(|line| line.split_once(": "));
    let ours: Vec<&str> = synonyms
        .filter(|(_, others)| others.split(' ').any(|other| other == last))
        .map(|(ours, _)| ours)
        .collect();
    if let Some(ours) = ours.iter().find(|ours| split(ours).0 == section) {
        return vec![(*ours).to_owned()];
    }
    let sections = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
    let sections = sections.filter(|section| !keys(schema, section)[last].is_null());
    let mut found: Vec<String> = sections.map(|section| format!("{section}.{last}")).collect();
    found.sort();
    if !found.is_empty() {
        return found;
    }
    // The user wrote the synonym without a section or in the wrong section.
    ours.into_iter().filter(|ours| ours.contains('.')).map(str::to_owned).collect()
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// Returns the keys of a section from the JSON Schema of a job file.
fn keys<'s>(schema: &'s Value, section: &str) -> &'s Value {
    let written = &schema["properties"][section];
    let reference = written["$ref"].as_str().or_else(|| written["anyOf"][0]["$ref"].as_str());
    let definition = reference.and_then(|path| schema.pointer(path.trim_start_matches('#')));
    definition.map_or(&Value::Null, |definition| &definition["properties"])
}

/// Explains a line that TOML cannot parse because a string has no quotes.
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

fn bare(word: &str) -> Option<&str> {
    let word = word.trim();
    let first = word.chars().next()?;
    let is_text = first.is_alphabetic() || matches!(first, '/' | '.' | '_' | '~');
    let is_value = matches!(word, "true" | "false" | "inf" | "nan");
    (is_text && !is_value && !word.contains(['"', '\''])).then_some(word)
}

/// Returns `items` as a list of strings with quotes.
pub(super) fn quoted_list(items: &str) -> String {
    let items = items.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    let items = items.map(|item| item.trim().trim_matches(['"', '\''])).filter(|item| !item.is_empty());
    format!("[{}]", items.map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", "))
}

/// Returns the correct form of a value with the wrong type, for a message such as ``invalid type: string "a", expected a list of
/// strings``.
pub(super) fn rewritten(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("invalid type: string \"")?;
    let (value, expected) = rest.rsplit_once("\", expected ")?;
    // Secrets in URLs are masked only in their original spelling.
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
    use crate::job::file::JobFile;

    fn schema() -> Value {
        Value::from(schemars::schema_for!(JobFile))
    }

    #[test]
    fn every_synonym_is_of_a_key_that_exists_and_is_none_itself() {
        let schema = schema();
        let exists = |key: &str| match key.split_once('.') {
            None => !keys(&schema, key).is_null(),
            Some((section, name)) => !keys(&schema, section)[name].is_null(),
        };
        let mut seen = std::collections::BTreeSet::new();
        for line in SYNONYMS.lines() {
            let (ours, others) = line.split_once(": ").unwrap();
            assert!(exists(ours), "{ours}");
            let section = ours.split_once('.').map_or(String::new(), |(section, _)| format!("{section}."));
            for other in others.split(' ').map(|other| format!("{section}{other}")) {
                assert!(!exists(&other), "{other} exists");
                assert!(seen.insert(other.clone()), "{other} is repeated");
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
        let list = "the items of a list need quotes: text = [\"title\", \"body\"]";
        for (line, expected) in [
            ("text = [title, body]", Some(list)),
            ("text = [ \"title\", body ] # both", Some(list)),
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
