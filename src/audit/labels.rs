//! Reads a file of labels: CSV as a spreadsheet, the page of a pack or a program writes it, or Parquet.

use std::collections::BTreeMap;
use std::fs::File;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use csv::{ByteRecord, Reader, ReaderBuilder};
use datafusion::common::cast::as_string_array;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::population::Ends;
use crate::address;
use crate::error::guard::guarded;
use crate::error::visible::visible;
use crate::error::{Context, Error, Result};
use crate::parquet_headers::check_file;

/// A judgement on a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// It is a true duplicate.
    Yes,
    /// It is not.
    No,
    /// The labeller cannot decide.
    Unsure,
}

/// A row of a file of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelRow {
    /// Its number, from 1, without the header.
    pub(super) row: u64,
    /// `None` if nothing is written there.
    pub(super) label: Option<Label>,
}

/// The labels of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    /// The file.
    pub(super) file: String,
    /// By the keys of the pairs.
    pub(super) rows: BTreeMap<String, LabelRow>,
}

/// The columns that are read. A pair is named by `key`, or by `id_a`, `id_b` and, if there are reference documents, `reference_b`.
const COLUMNS: [&str; 5] = ["label", "key", "id_a", "id_b", "reference_b"];

/// Reads a file whose name ends in .csv or .parquet.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for another ending; [`Kind::Input`](crate::error::Kind::Input) with the row where the
/// file cannot be read, lacks a column, or has a label that is not known or a pair twice.
pub(super) fn read(file: &str) -> Result<Labels> {
    let mut labels = Labels { file: file.to_owned(), rows: BTreeMap::new() };
    if let Some(missing) = address::missing(file) {
        return Err(Error::input(format!("{missing}: name a file of labels as --labels")));
    }
    match file.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).as_deref() {
        Some("csv") => read_csv(&mut labels)?,
        Some("parquet") => read_parquet(&mut labels)?,
        _ => {
            return Err(Error::job(format!(
                "--labels: expected a file that ends in .csv or .parquet, and got {file}"
            )));
        }
    }
    Ok(labels)
}

/// The places of [`COLUMNS`] among the names of a file.
struct LabelColumns([Option<usize>; 5]);

impl LabelColumns {
    fn of<'a>(file: &str, names: impl Iterator<Item = &'a str>) -> Result<Self> {
        let names: Vec<&str> = names.map(str::trim).collect();
        let places = COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let [label, key, id_a, id_b, _] = places;
        if label.is_none() || (key.is_none() && (id_a.is_none() || id_b.is_none())) {
            return Err(Error::input(format!(
                "{file} lacks the column label, or a column that names the pairs: expected label and key, as in the file that --audit \
                 writes, or label, id_a and id_b"
            )));
        }
        Ok(Self(places))
    }
}

impl Labels {
    /// Adds a row with the values of [`COLUMNS`].
    fn add(&mut self, row: u64, values: [Option<&str>; 5]) -> Result<()> {
        let wrong = |what: String| Err(Error::input(format!("{}, row {row}: {what}", self.file)));
        let [label, key, id_a, id_b, reference_b] = values;
        let key = match (key.map(str::trim), id_a, id_b) {
            (Some(key), _, _) if !key.is_empty() => key.to_owned(),
            (None, Some(id_a), Some(id_b)) => key_of(id_a, id_b, reference_b),
            // The end of a sheet may have empty rows.
            _ if label.is_none_or(|label| label.trim().is_empty()) => return Ok(()),
            _ => return wrong("there is a label, and nothing that names its pair".to_owned()),
        };
        let Some(label) = parse(label.unwrap_or_default()) else {
            let label = visible(label.unwrap_or_default()).into_owned();
            return wrong(format!(
                "the label is \"{label}\": expected yes, no or unsure (also y, n and ?), or nothing"
            ));
        };
        if let Some(before) = self.rows.insert(key, LabelRow { row, label }) {
            return wrong(format!("it has the pair of row {} again: give each pair one row", before.row));
        }
        Ok(())
    }
}

/// The key of a pair that is named by its ids.
fn key_of(id_a: &str, id_b: &str, reference_b: Option<&str>) -> String {
    let reference_b = reference_b.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    Ends { id_a: as_written(id_a), id_b: as_written(id_b), reference_b }.key()
}

/// An id without the `'` that a CSV file for spreadsheets has before what looks like a formula.
fn as_written(id: &str) -> String {
    let formula = id.strip_prefix('\'').filter(|rest| rest.starts_with(['=', '+', '-', '@', '\t', '\r']));
    formula.unwrap_or(id).to_owned()
}

/// A label; `None` for a word that is not one, and `Some(None)` for no label.
fn parse(text: &str) -> Option<Option<Label>> {
    Some(match text.trim().to_lowercase().as_str() {
        "" => None,
        "yes" | "y" | "true" | "1" | "1.0" => Some(Label::Yes),
        "no" | "n" | "false" | "0" | "0.0" => Some(Label::No),
        "unsure" | "?" => Some(Label::Unsure),
        _ => return None,
    })
}

fn read_csv(labels: &mut Labels) -> Result<()> {
    let file = labels.file.clone();
    let failed =
        |e: csv::Error| Error::input(format!("{file} cannot be read as a table of labels")).because(e);
    let open = |delimiter: u8| -> Result<Reader<File>> {
        ReaderBuilder::new().delimiter(delimiter).flexible(true).from_path(&file).map_err(failed)
    };
    // Spreadsheets write the delimiter of their country.
    let mut found = None;
    for delimiter in [b',', b';', b'\t'] {
        let mut reader = open(delimiter)?;
        let header = reader.byte_headers().map_err(failed)?.clone();
        let names: Vec<String> =
            header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let places = LabelColumns::of(&file, names.iter().map(String::as_str));
        if places.is_ok() || found.is_none() {
            let is_right = places.is_ok();
            found = Some((reader, places));
            if is_right {
                break;
            }
        }
    }
    let Some((mut reader, places)) = found else { return Ok(()) };
    let LabelColumns(places) = places?;
    let mut record = ByteRecord::new();
    for row in 1.. {
        if !reader.read_byte_record(&mut record).map_err(failed)? {
            break;
        }
        let mut values = [None; 5];
        for (value, place) in values.iter_mut().zip(places) {
            let field = place.and_then(|place| record.get(place));
            *value = field.map(std::str::from_utf8).transpose().map_err(|e| {
                Error::input(format!("{file}, row {row} is not UTF-8: save the file as CSV in UTF-8"))
                    .because(e)
            })?;
        }
        labels.add(row, values)?;
    }
    Ok(())
}

fn read_parquet(labels: &mut Labels) -> Result<()> {
    let file = labels.file.clone();
    let why = || format!("{file} cannot be read as a table of labels");
    let batches = guarded(|| -> Result<Vec<RecordBatch>> {
        let bytes = Bytes::from(std::fs::read(&file).context(why)?);
        check_file(&bytes).context(why)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).context(why)?;
        // Of a pack, the texts are not read.
        let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
        let reader = builder.with_projection(mask).build().context(why)?;
        reader.map(|batch| batch.context(why)).collect()
    })
    .context(why)??;
    let mut row = 0;
    for batch in batches {
        let schema = batch.schema();
        let LabelColumns(places) =
            LabelColumns::of(&file, schema.fields().iter().map(|field| field.name().as_str()))?;
        let mut columns = [const { None }; 5];
        for (column, place) in columns.iter_mut().zip(places) {
            *column =
                place.map(|place| cast(batch.column(place), &DataType::Utf8)).transpose().context(why)?;
        }
        for at in 0..batch.num_rows() {
            row += 1;
            let mut values = [None; 5];
            for (value, column) in values.iter_mut().zip(&columns) {
                let Some(column) = column else { continue };
                let column = as_string_array(column)?;
                *value = column.is_valid(at).then(|| column.value(at));
            }
            // A key that is null is no better than none.
            labels.add(row, values)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, content: &[u8]) -> Result<Vec<(String, u64, Option<Label>)>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let labels = read(file.to_str().unwrap())?;
        Ok(labels.rows.into_iter().map(|(key, row)| (key, row.row, row.label)).collect())
    }

    fn refused(content: &str) -> String {
        of("labels.csv", content.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn labels_are_words_that_people_and_programs_write() {
        let content = "key,label\nk1,yes\nk2, N \nk3,?\nk4,\nk5,TRUE\nk6,0.0\n,\n";
        let expected =
            [Some(Label::Yes), Some(Label::No), Some(Label::Unsure), None, Some(Label::Yes), Some(Label::No)];
        let rows = of("labels.csv", content.as_bytes()).unwrap();
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), expected);
        assert_eq!(rows[5], ("k6".to_owned(), 6, Some(Label::No)));
    }

    #[test]
    fn spreadsheets_write_marks_and_other_delimiters() {
        let excel = "\u{feff}pair;key;label\r\n1;k1;\"y\"\r\n2;k2;\r\n";
        assert_eq!(of("Labels.CSV", excel.as_bytes()).unwrap().len(), 2);
        let tabs = "label\tkey\nno\tk1\n";
        assert_eq!(of("l.csv", tabs.as_bytes()).unwrap(), [("k1".to_owned(), 1, Some(Label::No))]);
    }

    #[test]
    fn ids_name_pairs_as_well_as_keys() {
        let ends = |a: &str, b: &str, reference_b| Ends { id_a: a.into(), id_b: b.into(), reference_b }.key();
        let content = "id_a,id_b,reference_b,label\n'=1+1,b,false,y\n7,8,true,n\n";
        let keys: Vec<String> =
            of("l.csv", content.as_bytes()).unwrap().into_iter().map(|row| row.0).collect();
        let mut expected = [ends("=1+1", "b", false), ends("7", "8", true)];
        expected.sort();
        assert_eq!(keys, expected);
    }

    #[test]
    fn errors_name_the_row() {
        assert!(
            refused("key,label\nk1,yes\nk2,maybe\u{1b}\n").contains("row 2: the label is \"maybe\\u{1b}\"")
        );
        assert!(refused("key,label\nk1,yes\nk1,yes\n").contains("row 2: it has the pair of row 1 again"));
        assert!(refused("key,label\n,yes\n").contains("row 1: there is a label"));
        assert!(refused("key,lable\nk1,yes\n").contains("lacks the column label"));
        assert!(refused("").contains("lacks the column label"));
        let latin = of("l.csv", b"id_a,id_b,label\n\xe9,b,y\n").unwrap_err().to_string();
        assert!(latin.contains("row 1 is not UTF-8"), "{latin}");
        assert!(of("labels.xlsx", b"PK").unwrap_err().to_string().contains(".csv or .parquet"));
        assert!(of("l.parquet", b"PAR1 no").unwrap_err().to_string().contains("cannot be read"));
    }
}
