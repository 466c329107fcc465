//! A job file with comments, for data that were looked at.

use std::fmt::Write;

use serde::Serialize;
use toml::Value;

use super::dataset::Dataset;
use crate::error::visible::visible;
use crate::job::file::{Clusters, Shingle};
use crate::job::{Encoding, Format, Preference, Score};

/// The job file called `shown` for a dataset: its columns `text`, which is a guess where `is_guess`, and `id`.
pub(crate) fn of_dataset(dataset: &Dataset, shown: &str, text: (&str, bool), id: Option<&str>) -> String {
    let mut source = String::new();
    let mut line = |line: &str| {
        source.push_str(line);
        source.push('\n');
    };
    line(&format!("format = {}", quoted(dataset.format.name())));
    line(&format!("url = {}", urls(&dataset.urls)));
    line("# The columns, each with a value:");
    let width = dataset.columns.iter().map(|column| visible(&column.name).chars().count()).max().unwrap_or(0);
    for column in &dataset.columns {
        let example = column.example.as_ref().map(|example| format!("  {example}")).unwrap_or_default();
        line(format!("#   {:width$}  {}{example}", visible(&column.name), visible(&column.kind)).trim_end());
    }
    match id {
        Some(id) => {
            line(
                "# The column of ids, which must be different in every row; without it, ids are row numbers.",
            );
            // As strings, these are words of a job.
            line(&match id {
                "row_number" | "path" => format!("id = [{}]", quoted(id)),
                _ => format!("id = {}", quoted(id)),
            });
        }
        None => {
            line("# Without a column of ids, ids are row numbers.");
            line(&format!("# id = {}", quoted(dataset.proposed_id().unwrap_or("..."))));
        }
    }
    let (text, is_guess) = text;
    line(match is_guess {
        true => {
            "# The column of texts, or a list of columns. This one was taken because its values are the longest."
        }
        false => "# The column of texts, or a list of columns.",
    });
    line(&format!("text = {}", urls(&dataset.names(text))));
    if dataset.format == Format::Csv {
        line(&format!("delimiter = {}", quoted(&char::from(dataset.csv.delimiter).to_string())));
        line(&format!("header = {}", dataset.csv.header));
        if let Some(escape) = dataset.csv.escape {
            line(&format!("escape = {}", quoted(&char::from(escape).to_string())));
        }
    }
    if dataset.encoding != Encoding::Utf8 {
        line(&format!("encoding = {}", quoted(&dataset.encoding.to_string())));
    }
    line(
        "# What happens to a row that cannot be read: \"error\" ends the run, \"reject\" puts it into the table rejects.",
    );
    line("on_error = \"reject\"");
    job(&source, shown)
}

/// The job file called `shown` for files that are documents each, in the encoding `given`, if one is.
pub(crate) fn of_texts(paths: &[String], shown: &str, given: Option<Encoding>) -> String {
    let mut source = format!("format = \"text\"\nurl = {}\n", urls(paths));
    if let Some(encoding) = given {
        source.push_str(&format!("encoding = {}\n", quoted(&encoding.to_string())));
    }
    job(&source, shown)
}

/// A job file with this section `source`, and the defaults of other sections that are often changed.
fn job(source: &str, shown: &str) -> String {
    let Shingle { normalize, unit, .. } = Shingle::default();
    let (size, threshold) = (Shingle::size_of(unit), Score::default().threshold);
    let Clusters { method, .. } = Clusters::default();
    let name = shown.rsplit(['/', '\\']).next().unwrap_or(shown);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    let mut text = String::new();
    let shown = visible(shown);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "# resemblance check {shown}   shows what this job reads and does\n\
         # resemblance run {shown}     runs it\n\
         # docs/job-file.md describes every key.\n\
         \n\
         [source]\n\
         {source}\
         \n\
         [shingle]\n\
         # What a text goes through first.\n\
         normalize = {normalize}\n\
         # A document is the set of its shingles: so many words in a row, or characters with unit = \"char\" (usually 9).\n\
         unit = {unit}\n\
         size = {size}\n\
         \n\
         [score]\n\
         # The Jaccard similarity from which two documents are a pair: the share of their shingles that both have.\n\
         threshold = {threshold}\n\
         \n\
         [clusters]\n\
         # Every removed document is similar to the one that stays; \"components\" also follows chains of pairs.\n\
         method = {method}\n\
         # Which of similar documents stays: the longest, of equally long ones the first.\n\
         keep = {keep}\n\
         \n\
         [output]\n\
         # The folder or URL of the tables of pairs, clusters, documents and rejects.\n\
         url = {output}\n",
        normalize = strings(&normalize),
        unit = word(unit),
        method = word(method),
        keep = strings(&Preference::LONGEST_FIRST.map(str::to_owned)),
        output = quoted(&format!("out/{name}/")),
    );
    text
}

fn urls(urls: &[String]) -> String {
    match urls {
        [only] => quoted(only),
        _ => strings(urls),
    }
}

fn strings(strings: &[String]) -> String {
    format!("[{}]", strings.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// The word for a setting in a job file.
fn word(setting: impl Serialize) -> String {
    Value::try_from(setting).map(|value| value.to_string()).unwrap_or_default()
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::column::Column;
    use super::*;
    use crate::job::{self, Csv, Id};

    #[test]
    fn the_file_is_a_job_with_what_was_found() {
        let column = |name: &str| Column {
            name: name.to_owned(),
            kind: "text".to_owned(),
            is_text: true,
            is_unique: true,
            example: Some("one\\ttwo \"three\" \u{1b}".replace('\u{1b}', "\\u{1b}")),
            mean_characters: 9.0,
        };
        let dataset = Dataset {
            urls: vec!["data \"1\".csv".to_owned(), "b.csv".to_owned()],
            format: Format::Csv,
            encoding: "windows-1252".parse().unwrap(),
            csv: Csv { header: false, escape: Some(b'\\'), ..Csv::new(b'\t') },
            columns: vec![column("path"), column("a\nb")],
        };
        let text = of_dataset(&dataset, "jobs/my.toml", ("a\nb", true), Some("path"));
        let job = job::resolve(job::file::read(&text, "my.toml", &[]).unwrap()).unwrap();
        assert_eq!(job.source.urls, dataset.urls);
        assert_eq!((job.source.csv, job.source.encoding), (dataset.csv, dataset.encoding));
        assert_eq!(
            (job.source.text, job.source.id),
            (vec!["a\nb".to_owned()], Id::Columns(vec!["path".to_owned()]))
        );
        assert_eq!(job.output.url, "out/my/");
        let least = "source = { url = 'a.txt' }\noutput.url = 'o'";
        let least = job::file::read(least, "a", &[]).unwrap();
        assert_eq!((job.shingle, job.score, job.clusters.method), {
            let least = job::resolve(least).unwrap();
            (least.shingle, least.score, least.clusters.method)
        });
        let text = of_texts(&["essays/".to_owned()], "essays.toml", Some(dataset.encoding));
        let job = job::resolve(job::file::read(&text, "essays.toml", &[]).unwrap()).unwrap();
        let read = (job.source.format, job.source.id, job.source.encoding);
        assert_eq!(read, (Format::Text, Id::Path, dataset.encoding));
    }
}
