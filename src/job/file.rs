//! The job file: its sections and keys as they are written in the file, with their defaults.
//!
//! A [`Job`](super::Job) contains most sections in the same form. Types whose names end in `Section` have another form in a job, to which
//! [`resolve()`](super::resolve()) converts them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::against::AgainstSection;
use super::candidates::Candidates;
use super::clusters::{Alarms, Clusters};
use super::engine::EngineSettings;
use super::format::Format;
use super::lsh::LshSection;
use super::minhash::MinhashSection;
use super::output::Output;
use super::passages::Passages;
use super::score::Score;
use super::shingle::ShingleSection;
use super::source::SourceSection;
use super::suggestions;
use super::toml_errors::{is_missing_field, is_unknown_key, is_unknown_word, plain_toml};
use crate::address::secrets::{self, masked};
use crate::error::spelling::nearest;
use crate::error::{Error, Result};

/// Reads the job file `text` and applies the overrides `sets` (each `KEY=VALUE`).
///
/// KEY is a dotted key (`score.threshold`). VALUE is parsed as TOML. If it is not valid TOML, it is a plain string. `path` is only used in
/// messages.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the text is not a valid job file. The message contains the file, the line or override, the
/// key, and the allowed values.
pub fn read(text: &str, path: &str, sets: &[String]) -> Result<JobFile> {
    let document = JobDocument::parse(text, path, sets)?;
    let table = toml::de::Deserializer::from(document.table.clone());
    JobFile::deserialize(table).map_err(|e| document.explain(&e))
}

/// A job file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The name of the run in logs and in the manifest. Default: the name of the job file without its ending.
    pub name: Option<String>,
    /// `[source]`: the files and columns of the documents. Required.
    pub source: SourceSection,
    /// `[shingle]`: the settings for cutting a text into a set of shingles. The source format `output` provides its own settings.
    pub shingle: Option<ShingleSection>,
    /// `[minhash]`: the settings for computing a signature from a set of shingles. The source format `output` provides its own settings.
    pub minhash: Option<MinhashSection>,
    /// `[lsh]`: the settings for computing buckets from a signature.
    #[serde(default)]
    pub lsh: LshSection,
    /// `[candidates]`: the method that finds candidates.
    #[serde(default)]
    pub candidates: Candidates,
    /// `[against]`: the reference documents with which new documents are compared.
    pub against: Option<AgainstSection>,
    /// `[score]`: the rule that decides whether a candidate is a pair.
    #[serde(default)]
    pub score: Score,
    /// `[clusters]`: the definition of a cluster, and the document that represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// `[passages]`: the search for repeated passages inside documents.
    pub passages: Option<Passages>,
    /// `[alarms]`: limits after which a person should check the result before duplicates are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// `[output]`: the location and the columns of the tables. Required.
    pub output: Output,
    /// `[engine]`: the engine that runs the job. It changes no row.
    #[serde(default)]
    pub engine: EngineSettings,
}

impl JobFile {
    /// Returns a job that reads `urls` and writes to `output`, with the defaults of all other keys. Fails with `Kind::Bug` if a job file
    /// requires more keys.
    pub(crate) fn new(format: Format, urls: &[String], output: &str) -> Result<Self> {
        let required = json!({ "source": { "format": format, "url": urls }, "output": { "url": output } });
        serde_json::from_value(required)
            .map_err(|e| Error::bug("a job file requires further keys").because(e))
    }
}

/// A parsed job file with its overrides. Values from the file keep their span in `text`. The value of override n has a span that begins n +
/// 1 bytes after the end of `text`. So it differs from the span of any value in the file.
pub(super) struct JobDocument<'a> {
    path: &'a str,
    text: &'a str,
    sets: &'a [String],
    table: Spanned<DeTable<'a>>,
}

impl<'a> JobDocument<'a> {
    /// Parses the file and applies the overrides. Remembers possible secrets in URLs, so that messages mask them.
    pub(super) fn parse(text: &'a str, path: &'a str, sets: &'a [String]) -> Result<Self> {
        text.lines().chain(sets.iter().map(String::as_str)).for_each(secrets::remember);
        let table = DeTable::parse(text).map_err(|e| {
            let line = e.span().map_or(1, |span| line(text, span.start));
            let written = text.lines().nth(line - 1).unwrap_or_default();
            let hint = suggestions::unquoted(written).map(|hint| format!("; {hint}")).unwrap_or_default();
            Error::job(masked(&format!("{path}:{line}: not TOML: {}{hint}", e.message())))
        })?;
        let mut document = Self { path, text, sets, table };
        for (n, set) in sets.iter().enumerate() {
            document.set(n, set)?;
        }
        document.give_way();
        // Secrets in the unparsed text were remembered above. Parsed strings can differ from it, because of escapes.
        document.table.get_ref().values().for_each(|value| remember(value.get_ref()));
        Ok(document)
    }

    /// Returns an error about `key` with its line, or with the line of its section. If the section is missing too, the error names only the
    /// file.
    pub(super) fn error(&self, key: &str, fault: &str) -> Error {
        Error::job(masked(&format!("{} {fault}", self.at(key, self.offset(key)))))
    }

    fn set(&mut self, n: usize, set: &'a str) -> Result<()> {
        // Messages show the key but not the value, which may be a secret.
        let name = override_name(set);
        let wrong = |fault: &str| Error::job(masked(&format!("--set {name}: {fault}")));
        let (key, value) = set.split_once('=').ok_or_else(|| wrong(NO_VALUE))?;
        let mut parents: Vec<&str> = key.trim().split('.').collect();
        if parents.iter().any(|part| part.is_empty()) {
            return Err(wrong("expected a key such as score.threshold before the `=`"));
        }
        let Some(last) = parents.pop() else { return Err(wrong(NO_VALUE)) };

        let at = self.text.len() + 1 + n;
        let span = at..at;
        let value = match DeValue::parse(value).map(Spanned::into_inner) {
            Err(_) if value.trim_start().starts_with('[') => {
                return Err(wrong(
                    "this is not a list: put quotes around each item, and others around all of it for the shell, as in \
                     --set 'source.text=[\"title\", \"body\"]'",
                ));
            }
            // No key has a date as its value, but names of folders and runs often look like dates, so a date becomes a string.
            Ok(DeValue::Datetime(_)) | Err(_) => DeValue::String(value.into()),
            Ok(value) => moved(value, at),
        };
        let mut table = self.table.get_mut();
        for part in parents {
            let entry = table
                .entry(Spanned::new(span.clone(), part.into()))
                .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            table = match entry.get_mut() {
                DeValue::Table(inner) => inner,
                other => return Err(wrong(&format!("`{part}` is a {}, not a section", other.type_str()))),
            };
        }
        // Insertion over an existing entry would keep its key and span, so this entry is removed first.
        table.remove(last);
        table.insert(Spanned::new(span.clone(), last.into()), Spanned::new(span, value));
        Ok(())
    }

    /// Removes the choice of bands and rows in the file, with a warning, if overrides make another choice. Otherwise the file and the
    /// overrides would make two choices, which is an error, and no override can remove a key.
    fn give_way(&mut self) {
        const CHOICES: [&[&str]; 3] = [&["bands", "rows"], &["choose"], &["target_recall"]];
        let Self { text, table, .. } = self;
        let Some(DeValue::Table(lsh)) = table.get_mut().get_mut("lsh").map(Spanned::get_mut) else { return };
        let is_override = |lsh: &DeTable<'_>, name: &str| {
            lsh.get_key_value(name).is_some_and(|(key, _)| key.span().start > text.len())
        };
        let made = |keys: &&&[&str]| keys.iter().all(|key| is_override(lsh, key));
        // If the overrides make several choices, a later check returns an error.
        let [keys] = CHOICES.iter().filter(made).collect::<Vec<_>>()[..] else { return };
        for other in CHOICES.iter().filter(|other| *other != keys).flat_map(|other| other.iter()) {
            if lsh.contains_key(*other) && !is_override(lsh, other) {
                lsh.remove(*other);
                let keys = keys.iter().map(|key| format!("lsh.{key}")).collect::<Vec<_>>().join(" and ");
                tracing::warn!("`lsh.{other}` of the job file is ignored because of --set {keys}");
            }
        }
    }

    /// Adds the line, the key and the nearest allowed word to the message of serde.
    fn explain(&self, error: &toml::de::Error) -> Error {
        let fault = plain_toml(error.message());
        let mut quoted = fault.split('`').skip(1).step_by(2);
        let first = quoted.next().unwrap_or_default();
        let span = error.span().unwrap_or(0..0);

        if is_missing_field(&fault) {
            // The span of the error is the section. If the section is missing too, the error names only the file.
            let section = self.table.get_ref().iter().find(|(_, value)| value.span() == span);
            let section = section.map_or(first, |(name, _)| name.get_ref().as_ref());
            let key = if section == first { format!("{first}.url") } else { format!("{section}.{first}") };
            let example = match key.as_str() {
                "source.url" => ": add url = \"reviews.csv\" under [source]",
                "output.url" => ": add url = \"out/\" under [output]",
                _ => "",
            };
            let place = self.place(self.offset(&key));
            return Error::job(format!("{place}: `{key}` is required but missing{example}"));
        }
        let key = key_at(self.table.get_ref(), span.start);
        let near = if is_unknown_word(&fault) {
            let schema = || Value::from(schemars::schema_for!(JobFile));
            let meant = if is_unknown_key(&fault) { suggestions::meant(&key, &schema()) } else { Vec::new() };
            near(first, quoted, meant)
        } else {
            suggestions::rewritten(&fault).map(|hint| format!(": {hint}"))
        };
        let at = self.at(&key, Some(span.start));
        // A message about a broken rule continues the name of the key as a sentence, without a colon.
        let is_rule = ["is ", "has ", "names "].iter().any(|verb| fault.starts_with(verb));
        let colon = if is_rule { "" } else { ":" };
        Error::job(masked(&format!("{at}{colon} {fault}{}", near.unwrap_or_default())))
    }

    /// Returns the byte offset of the dotted `key`, or of its section if the key is missing.
    fn offset(&self, key: &str) -> Option<usize> {
        let mut found = None;
        let mut table = self.table.get_ref();
        for part in key.split('.') {
            let Some((name, value)) = table.get_key_value(part) else { break };
            found = Some(name.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        found
    }

    /// Returns the position and the name of a key. If the key comes from an override, the position already contains the name.
    fn at(&self, key: &str, offset: Option<usize>) -> String {
        match self.place(offset) {
            place if key.is_empty() => format!("{place}: the job file"),
            place if place == format!("--set {key}") => format!("--set `{key}`"),
            place => format!("{place}: `{key}`"),
        }
    }

    fn place(&self, offset: Option<usize>) -> String {
        match offset {
            Some(at) if at <= self.text.len() => format!("{}:{}", self.path, line(self.text, at)),
            Some(at) => match self.sets.get(at - self.text.len() - 1) {
                Some(set) => format!("--set {}", override_name(set)),
                None => self.path.to_owned(),
            },
            None => self.path.to_owned(),
        }
    }
}

/// Suggests words for an unknown word: the keys in `meant`, or the nearest allowed spelling.
fn near<'w>(word: &str, allowed: impl Iterator<Item = &'w str>, meant: Vec<String>) -> Option<String> {
    let shown = match (nearest(word, allowed), meant.as_slice()) {
        // Keys with this name in another section, or with this synonym, are more likely than keys with a similar spelling.
        (_, [first, others @ ..]) => {
            others.iter().fold(format!("`{first}`"), |all, other| format!("{all} or `{other}`"))
        }
        (Some(near), []) => format!("`{near}`"),
        (None, []) => return None,
    };
    Some(format!("; did you mean {shown}?"))
}

const NO_VALUE: &str = "expected KEY=VALUE, as in score.threshold=0.9";

/// Returns the key of an override, or a placeholder if the text may be a secret.
fn override_name(set: &str) -> &str {
    match set.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => key.trim(),
        None if set.contains('.')
            && set.bytes().all(|byte| b"._".contains(&byte) || byte.is_ascii_lowercase()) =>
        {
            set
        }
        _ => "KEY=VALUE",
    }
}

/// Remembers the possible secrets in URLs of all strings inside a value.
fn remember(value: &DeValue<'_>) {
    match value {
        DeValue::String(text) => secrets::remember(text),
        DeValue::Array(items) => items.iter().for_each(|item| remember(item.get_ref())),
        DeValue::Table(entries) => entries.values().for_each(|entry| remember(entry.get_ref())),
        _ => {}
    }
}

fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}

/// Moves every span inside `value` to `at`.
fn moved(value: DeValue<'_>, at: usize) -> DeValue<'_> {
    match value {
        DeValue::Array(items) => DeValue::Array(
            items.into_iter().map(|v| Spanned::new(at..at, moved(v.into_inner(), at))).collect::<DeArray>(),
        ),
        DeValue::Table(entries) => DeValue::Table(
            entries
                .into_iter()
                .map(|(k, v)| {
                    (Spanned::new(at..at, k.into_inner()), Spanned::new(at..at, moved(v.into_inner(), at)))
                })
                .collect(),
        ),
        scalar => scalar,
    }
}

/// Returns the dotted key whose name or value is at `offset`, or an empty string if there is no key.
fn key_at(table: &DeTable<'_>, offset: usize) -> String {
    let holds = |span: std::ops::Range<usize>| span.start == offset || span.contains(&offset);
    for (name, value) in table {
        let inner = match value.get_ref() {
            DeValue::Table(inner) => key_at(inner, offset),
            _ => String::new(),
        };
        if !inner.is_empty() {
            return format!("{}.{inner}", name.get_ref());
        }
        if holds(name.span()) || holds(value.span()) {
            return name.get_ref().to_string();
        }
    }
    String::new()
}
