//! Renders a job file with comments for inspected data from the template `job.toml`.

use askama::Template;
use serde::Serialize;
use toml::Value;

use super::dataset::Dataset;
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::job::{Clusters, Csv, Encoding, Format, Html, Preference, Score, ShingleSection};

/// The values of the template, as TOML.
#[derive(Template)]
#[template(path = "job.toml", escape = "none", config = "src/page/askama.toml")]
struct JobTemplate {
    shown: String,
    format: String,
    url: String,
    /// The dataset, unless each file is a document.
    data: Option<Data>,
    encoding: Option<String>,
    html: Option<String>,
    normalize: String,
    unit: String,
    size: usize,
    threshold: f64,
    method: String,
    keep: String,
    output: String,
}

struct Data {
    columns: Vec<String>,
    id: Option<String>,
    proposed_id: String,
    text: String,
    is_guess: bool,
    csv: Option<Csv>,
}

/// Renders the job file `shown` for a dataset with the columns `text` and `id`.
pub(crate) fn dataset_job(
    dataset: &Dataset,
    shown: &str,
    (text, is_guess): (&str, bool),
    id: Option<&str>,
) -> Result<String> {
    let width = dataset.columns.iter().map(|column| visible(&column.name).chars().count()).max().unwrap_or(0);
    let columns = dataset.columns.iter().map(|column| {
        let example = column.example.as_ref().map(|example| format!("  {example}")).unwrap_or_default();
        let line = format!("#   {:width$}  {}{example}", visible(&column.name), visible(&column.kind));
        line.trim_end().to_owned()
    });
    let id = id.map(|id| match id {
        // As plain strings, these words have a special meaning in a job file.
        "row_number" | "path" => format!("[{}]", quoted(id)),
        _ => one_or_many(&dataset.names(id)),
    });
    let id = id.or_else(|| dataset.has_own_id().then(|| quoted("row_number")));
    let data = Data {
        columns: columns.collect(),
        id,
        proposed_id: quoted(dataset.proposed_id(text).unwrap_or("...")),
        text: one_or_many(&dataset.names(text)),
        is_guess,
        csv: (dataset.format == Format::Csv).then_some(dataset.csv),
    };
    let encoding = Some(dataset.encoding).filter(|encoding| *encoding != Encoding::Utf8);
    job_file(&dataset.urls, shown, dataset.format, (encoding, None), Some(data))
}

/// Renders the job file `shown` for text files, each of which is a document.
pub(crate) fn texts_job(
    paths: &[String],
    shown: &str,
    encoding: Option<Encoding>,
    html: Option<Html>,
) -> Result<String> {
    job_file(paths, shown, Format::Text, (encoding, html), None)
}

/// Renders the template, with the defaults of settings that users often change.
fn job_file(
    paths: &[String],
    shown: &str,
    format: Format,
    (encoding, html): (Option<Encoding>, Option<Html>),
    data: Option<Data>,
) -> Result<String> {
    let ShingleSection { normalize, unit, .. } = ShingleSection::default();
    let name = shown.rsplit(['/', '\\']).next().unwrap_or(shown);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    let file = JobTemplate {
        shown: visible(shown).into_owned(),
        format: quoted(format.name()),
        url: one_or_many(paths),
        data,
        encoding: encoding.map(|encoding| quoted(&encoding.to_string())),
        html: html.map(word),
        normalize: strings(&normalize),
        unit: word(unit),
        size: ShingleSection::size_of(unit),
        threshold: Score::default().threshold,
        method: word(Clusters::default().method),
        keep: strings(&Preference::LONGEST_FIRST.map(str::to_owned)),
        output: quoted(&format!("out/{name}/")),
    };
    let text = file.render().map_err(|e| Error::bug("a job file cannot be written").because(e))?;
    Ok(text + "\n")
}

impl Data {
    fn character(&self, byte: &u8) -> String {
        quoted(&char::from(*byte).to_string())
    }
}

/// Formats one URL or column as a TOML string, and several as an array.
fn one_or_many(texts: &[String]) -> String {
    match texts {
        [only] => quoted(only),
        _ => strings(texts),
    }
}

fn strings(strings: &[String]) -> String {
    format!("[{}]", strings.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

fn word(setting: impl Serialize) -> String {
    Value::try_from(setting).map(|value| value.to_string()).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::columns::InspectedColumn;
    use super::*;
    use crate::job::{self, Csv, SourceId};

    #[test]
    fn the_file_is_a_job_with_what_was_found() {
        let column = |name: &str| InspectedColumn {
            name: name.to_owned(),
            kind: "text".to_owned(),
            is_text: true,
            is_unique: true,
            hashes: Default::default(),
            example: Some("one\\ttwo \"three\" \u{1b}".replace('\u{1b}', "\\u{1b}")),
            mean_characters: 9.0,
        };
        let dataset = Dataset {
            urls: vec!["data \"1\".csv".to_owned(), "b.csv".to_owned()],
            format: Format::Csv,
            encoding: "windows-1252".parse().unwrap(),
            csv: Csv { header: false, escape: Some(b'\\'), ..Csv::new(b'\t') },
            has_tags: false,
            columns: vec![column("path"), column("a\nb")],
        };
        let text = dataset_job(&dataset, "jobs/my.toml", ("a\nb", true), Some("path")).unwrap();
        let job = job::resolve(job::file::read(&text, "my.toml", &[]).unwrap()).unwrap();
        assert_eq!(job.source.urls, dataset.urls);
        assert_eq!((job.source.csv, job.source.encoding), (dataset.csv, dataset.encoding));
        assert_eq!(job.source.text, ["a\nb"]);
        assert_eq!(job.source.id, SourceId::Columns(vec!["path".to_owned()]));
        assert_eq!(job.output.url, "out/my/");
        let least = job::with_keys("");
        let expected = (least.shingle, least.score, least.clusters.method);
        assert_eq!((job.shingle, job.score, job.clusters.method), expected);
        let urls = ["essays/".to_owned()];
        let text = texts_job(&urls, "essays.toml", Some(dataset.encoding), Some(Html::Source)).unwrap();
        let job = job::resolve(job::file::read(&text, "essays.toml", &[]).unwrap()).unwrap();
        let read = (job.source.format, job.source.id, job.source.encoding, job.source.html);
        assert_eq!(read, (Format::Text, SourceId::Path, dataset.encoding, Some(Html::Source)));
    }
}
