//! Lines of other programs for the chart of seconds by number of documents.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::Series;
use crate::error::{Context, Error, Result};

/// A row of the file.
#[derive(Deserialize)]
struct SeriesRow {
    name: String,
    documents: f64,
    seconds: f64,
}

/// The lines in a CSV file with the columns `name`, `documents` and `seconds`, and a row for each point: a line for each name, in
/// order of appearance, its points sorted by number of documents. Other columns are ignored.
///
/// # Errors
/// When the file cannot be read, or a row has no name, or no two numbers over 0: the message names the file and the line.
pub(crate) fn added(path: &Path) -> Result<Vec<Series>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).context(|| format!("cannot read {shown}"))?;
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong =
        |e: csv::Error| Error::job(format!("{shown} is not the CSV that is expected here")).because(e);
    let header = rows.headers().map_err(wrong)?.clone();
    let wanted = ["name", "documents", "seconds"];
    if let Some(missing) = wanted.iter().find(|name| !header.iter().any(|column| column == **name)) {
        return Err(Error::job(format!(
            "{shown} has no column `{missing}`: expected name, documents and seconds in its first line"
        )));
    }
    let mut lines: Vec<Series> = Vec::new();
    let mut places = BTreeMap::new();
    for record in rows.records() {
        let record = record.map_err(wrong)?;
        let row: SeriesRow = record.deserialize(Some(&header)).map_err(wrong)?;
        let counts = [row.documents, row.seconds].iter().all(|n| n.is_finite() && *n > 0.0);
        if row.name.is_empty() || !counts {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(Error::job(format!(
                "{shown} line {line}: expected a name, and documents and seconds over 0"
            )));
        }
        let place = *places.entry(row.name.clone()).or_insert_with(|| {
            lines.push(Series::new(row.name, Vec::new()));
            lines.len() - 1
        });
        lines[place].points.push((row.documents, row.seconds));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Series>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        added(file.path())
    }

    #[test]
    fn each_name_is_a_line() {
        let found = of("run,name,seconds,documents\n1,b,0.5,1000\n2,a,3,10\n3, b ,0.25,100\n").unwrap();
        assert_eq!(
            found,
            [Series::new("b", vec![(100.0, 0.25), (1000.0, 0.5)]), Series::new("a", vec![(10.0, 3.0)])]
        );
        assert_eq!(of("name,documents,seconds\n").unwrap(), []);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, said) in [
            ("name,documents\na,1\n", "no column `seconds`"),
            ("", "no column `name`"),
            ("name,documents,seconds\na,1,2\n,1,2\n", "line 3"),
            ("name,documents,seconds\na,0,2\n", "line 2"),
            ("name,documents,seconds\na,1,nan\n", "line 2"),
            ("name,documents,seconds\na,many,2\n", "line: 2"),
            ("name,documents,seconds\na,1\n", "line: 2"),
        ] {
            let error = of(text).unwrap_err();
            let all = format!("{error} {}", error.one_line());
            assert!(all.contains(said), "{all}");
        }
        let missing = added(Path::new("no/such.csv")).unwrap_err();
        assert!(missing.to_string().contains("no/such.csv"), "{missing}");
    }
}
