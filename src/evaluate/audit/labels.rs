//! Reads files of labels: Parquet files, and CSV files from a spreadsheet, from the page of a pack or from a program.

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use csv::{ByteRecord, ReaderBuilder};
use datafusion::common::cast::as_string_array;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::population::Ends;
use crate::address;
use crate::error::guard::guarded;
use crate::error::visible::visible;
use crate::error::{Context, Error, Result};
use crate::parquet_headers::check_file;
use crate::pipeline::ledger::without_quote;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Yes,
    No,
    /// The labeller cannot decide.
    Unsure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelRow {
    /// The number of the row, from 1, without the header.
    pub(super) row: u64,
    pub(super) label: Option<Label>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) file: String,
    /// The rows, by the key of the pair.
    pub(super) rows: BTreeMap<String, LabelRow>,
}

/// The columns that are read. A pair is identified by `key`, or by `id_a` and `id_b`, where `reference_b` says whether `id_b` is a
/// reference document.
const COLUMNS: [&str; 5] = ["label", "key", "id_a", "id_b", "reference_b"];

/// Reads a file of labels, whose name ends in .csv or .parquet. Fails with `Kind::Job` for another ending. Fails with `Kind::Input` if
/// the file cannot be read, lacks a column, or contains an unknown label or a repeated pair. The error names the row.
pub(super) fn read(file: &str) -> Result<Labels> {
    let mut labels = Labels { file: file.to_owned(), rows: BTreeMap::new() };
    if let Some(missing) = address::missing(file) {
        return Err(Error::input(format!("{missing}: name a file of labels as --labels")));
    }
    match file.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).as_deref() {
        Some("csv") => labels.read_csv(file)?,
        Some("parquet") => labels.read_parquet(file)?,
        _ => {
            return Err(Error::job(format!(
                "--labels: expected a file that ends in .csv or .parquet, and got {file}"
            )));
        }
    }
    Ok(labels)
}

/// Returns the index of each of [`COLUMNS`] among `names`, the names of the columns in a file.
fn column_indexes<'a>(file: &str, names: impl Iterator<Item = &'a str>) -> Result<[Option<usize>; 5]> {
    let names: Vec<&str> = names.map(str::trim).collect();
    let indexes = COLUMNS.map(|column| names.iter().position(|name| *name == column));
    let [label, key, id_a, id_b, _] = indexes;
    if label.is_none() || (key.is_none() && (id_a.is_none() || id_b.is_none())) {
        return Err(Error::input(format!(
            "{file} lacks the column label, or a column that names the pairs: expected label and key, as in the file that --audit \
             writes, or label, id_a and id_b"
        )));
    }
    Ok(indexes)
}

impl Labels {
    /// Adds the row with the number `row`. `values` are in the order of [`COLUMNS`].
    fn add(&mut self, row: u64, values: [Option<&str>; 5]) -> Result<()> {
        let wrong = |problem: &str| Err(Error::input(format!("{}, row {row}: {problem}", self.file)));
        let [label, key, id_a, id_b, reference_b] = values;
        let label = label.unwrap_or_default();
        let key = match (key.map(str::trim), id_a, id_b) {
            (Some(key), _, _) if !key.is_empty() => key.to_owned(),
            (None, Some(id_a), Some(id_b)) => {
                let reference_b = reference_b.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
                Ends { id_a: without_quote(id_a), id_b: without_quote(id_b), reference_b }.key()
            }
            // The end of a sheet can contain empty rows.
            _ if label.trim().is_empty() => return Ok(()),
            _ => return wrong("there is a label, but nothing that identifies its pair"),
        };
        let label = match label.trim().to_lowercase().as_str() {
            "" => None,
            "yes" | "y" | "true" | "1" | "1.0" => Some(Label::Yes),
            "no" | "n" | "false" | "0" | "0.0" => Some(Label::No),
            "unsure" | "?" => Some(Label::Unsure),
            _ => {
                return wrong(&format!(
                    "the label is \"{}\": expected yes, no or unsure (also y, n and ?), or nothing",
                    visible(label)
                ));
            }
        };
        if let Some(before) = self.rows.insert(key, LabelRow { row, label }) {
            return wrong(&format!("it has the pair of row {} again: give each pair one row", before.row));
        }
        Ok(())
    }

    fn read_csv(&mut self, file: &str) -> Result<()> {
        let failed =
            |e: csv::Error| Error::input(format!("{file} cannot be read as a table of labels")).because(e);
        let mut first_error = None;
        // The delimiter of spreadsheets depends on the locale.
        for delimiter in [b',', b';', b'\t'] {
            let mut builder = ReaderBuilder::new();
            let mut reader = builder.delimiter(delimiter).flexible(true).from_path(file).map_err(failed)?;
            let header = reader.byte_headers().map_err(failed)?;
            let names: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
            let indexes = match column_indexes(file, names.iter().map(|name| &**name)) {
                Ok(indexes) => indexes,
                Err(error) => {
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            let (mut record, mut row) = (ByteRecord::new(), 0);
            while reader.read_byte_record(&mut record).map_err(failed)? {
                row += 1;
                let mut values = [None; 5];
                for (value, index) in values.iter_mut().zip(indexes) {
                    let field = index.and_then(|index| record.get(index));
                    *value = field.map(std::str::from_utf8).transpose().map_err(|e| {
                        Error::input(format!("{file}, row {row} is not UTF-8: save the file as CSV in UTF-8"))
                            .because(e)
                    })?;
                }
                self.add(row, values)?;
            }
            return Ok(());
        }
        first_error.map_or(Ok(()), Err)
    }

    fn read_parquet(&mut self, file: &str) -> Result<()> {
        let cannot = || format!("{file} cannot be read as a table of labels");
        let batches = guarded(|| -> Result<Vec<RecordBatch>> {
            let bytes = Bytes::from(std::fs::read(file).context(cannot)?);
            check_file(&bytes).context(cannot)?;
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).context(cannot)?;
            // Leaves out the texts of a pack.
            let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
            let reader = builder.with_projection(mask).build().context(cannot)?;
            reader.map(|batch| batch.context(cannot)).collect()
        })
        .context(cannot)??;
        let mut row = 0;
        for batch in batches {
            let schema = batch.schema();
            let indexes = column_indexes(file, schema.fields().iter().map(|field| field.name().as_str()))?;
            let mut columns = [const { None }; 5];
            for (column, index) in columns.iter_mut().zip(indexes) {
                let text = index.map(|index| cast(batch.column(index), &DataType::Utf8));
                *column = text.transpose().context(cannot)?;
            }
            for at in 0..batch.num_rows() {
                row += 1;
                let mut values = [None; 5];
                for (value, column) in values.iter_mut().zip(&columns) {
                    let Some(column) = column else { continue };
                    let column = as_string_array(column)?;
                    *value = column.is_valid(at).then(|| column.value(at));
                }
                self.add(row, values)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_rows(name: &str, content: &[u8]) -> Result<Vec<(String, u64, Option<Label>)>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let labels = read(file.to_str().unwrap())?;
        Ok(labels.rows.into_iter().map(|(key, row)| (key, row.row, row.label)).collect())
    }

    #[test]
    fn labels_of_people_programs_and_spreadsheets_are_known() {
        let content = "key,label\nk1,yes\nk2, N \nk3,?\nk4,\nk5,TRUE\nk6,0.0\n,\n";
        let expected =
            [Some(Label::Yes), Some(Label::No), Some(Label::Unsure), None, Some(Label::Yes), Some(Label::No)];
        let rows = read_rows("labels.csv", content.as_bytes()).unwrap();
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), expected);
        assert_eq!(rows[5], ("k6".to_owned(), 6, Some(Label::No)));
        let excel = "\u{feff}pair;key;label\r\n1;k1;\"y\"\r\n2;k2;\r\n";
        assert_eq!(read_rows("Labels.CSV", excel.as_bytes()).unwrap().len(), 2);
        let tabs = "label\tkey\nno\tk1\n";
        assert_eq!(read_rows("l.csv", tabs.as_bytes()).unwrap(), [("k1".to_owned(), 1, Some(Label::No))]);
    }

    #[test]
    fn ids_or_keys_name_pairs() {
        let ends = |a: &str, b: &str, reference_b| Ends { id_a: a.into(), id_b: b.into(), reference_b }.key();
        let content = "id_a,id_b,reference_b,label\n'=1+1,b,false,y\n7,8,true,n\n";
        let keys: Vec<String> =
            read_rows("l.csv", content.as_bytes()).unwrap().into_iter().map(|row| row.0).collect();
        let mut expected = [ends("=1+1", "b", false), ends("7", "8", true)];
        expected.sort();
        assert_eq!(keys, expected);
    }

    #[test]
    fn errors_name_the_row() {
        for (name, content, fault) in [
            ("l.csv", &b"key,label\nk1,yes\nk2,maybe\x1b\n"[..], "row 2: the label is \"maybe\\u{1b}\""),
            ("l.csv", b"key,label\nk1,yes\nk1,yes\n", "row 2: it has the pair of row 1 again"),
            ("l.csv", b"key,label\n,yes\n", "row 1: there is a label"),
            ("l.csv", b"key,lable\nk1,yes\n", "lacks the column label"),
            ("l.csv", b"", "lacks the column label"),
            ("l.csv", b"id_a,id_b,label\n\xe9,b,y\n", "row 1 is not UTF-8"),
            ("labels.xlsx", b"PK", ".csv or .parquet"),
            ("l.parquet", b"PAR1 no", "cannot be read"),
        ] {
            let error = read_rows(name, content).unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }
}
