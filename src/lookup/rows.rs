//! Rows of a result, as cells for people, as JSON for programs, and as CSV for both.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::writer::LineDelimited;
use arrow::json::{ReaderBuilder, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use csv::{QuoteStyle, Terminator, WriterBuilder as CsvWriterBuilder};
use datafusion::prelude::DataFrame;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Collects the rows of a frame, whose columns have the names of the fields of `T`.
///
/// # Errors
/// When the tables cannot be read.
pub(crate) async fn read<T: DeserializeOwned>(frame: DataFrame) -> Result<Vec<T>> {
    let lines = json_lines(&frame.collect().await?)?;
    let rows = lines.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<T>, _>>();
    rows.map_err(|e| Error::bug("a row has other columns than were asked for").because(e))
}

/// One batch of `rows` with these columns. Values may be null, and other fields are left out.
///
/// # Errors
/// When a value has another type.
pub(crate) fn batch<T: Serialize>(rows: &[T], columns: &[(&str, DataType)]) -> Result<RecordBatch> {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(schema)))
}

/// The most characters of a cell; signatures and shingle lists are much longer.
const CELL_CHARS: usize = 60;

/// The cells of each row as text: floating-point numbers with six places, long values cut off with `…`.
///
/// # Errors
/// When Arrow cannot format a type.
pub fn cells(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default().with_null("");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| {
                ArrayFormatter::try_new(column, &options).map(|f| (f, column.data_type().is_floating()))
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |(column, floating): &(ArrayFormatter<'_>, bool)| {
                let text = column.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(number) if *floating && !text.is_empty() => format!("{number:.6}"),
                    _ => shorten(text),
                }
            };
            rows.push(columns.iter().map(cell).collect());
        }
    }
    Ok(rows)
}

/// A text of at most the width of a cell.
pub(crate) fn shorten(text: String) -> String {
    match text.char_indices().nth(CELL_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// How CSV is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvStyle {
    /// UTF-8 with every value as it is.
    Exact,
    /// For a spreadsheet that opens the file: with a byte order mark, by which Excel knows UTF-8. Texts that it would take for
    /// formulas begin with `'`, and those that are longer than a cell end in `…`.
    Spreadsheet,
}

/// The most UTF-16 code units of a cell in Excel.
const EXCEL_CELL: usize = 32_767;

/// The characters with which a formula begins, also full-width.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Characters without a width that are no white space: soft hyphen, joiners, marks of direction and byte order mark.
const UNSEEN: [char; 9] = [
    '\u{ad}', '\u{180e}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{2060}', '\u{feff}',
];

/// CSV (RFC 4180) with a header and every value whole; NULL is an empty field. `names` are those of the columns.
///
/// # Errors
/// When Arrow cannot format a type.
pub fn csv(names: &[&str], batches: &[RecordBatch], kind: CsvStyle) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| Error::bug(format!("CSV cannot be written: {e}"));
    let (terminator, mark) = match kind {
        CsvStyle::Exact => (Terminator::Any(b'\n'), ""),
        CsvStyle::Spreadsheet => (Terminator::CRLF, "\u{feff}"),
    };
    let mut builder = CsvWriterBuilder::new();
    let mut writer =
        builder.terminator(terminator).quote_style(QuoteStyle::Necessary).from_writer(Vec::new());
    let field = |text: String, is_number: bool| match kind {
        CsvStyle::Spreadsheet if !is_number => for_a_cell(&text),
        CsvStyle::Exact | CsvStyle::Spreadsheet => text,
    };
    let header = names.iter().map(|name| field((*name).to_owned(), false));
    writer.write_record(header).map_err(|e| failed(&e))?;
    let options = FormatOptions::default().with_null("");
    for batch in batches {
        let columns = batch.columns().iter();
        let columns = columns
            .map(|column| Ok((ArrayFormatter::try_new(column, &options)?, column.data_type().is_numeric())))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let fields =
                columns.iter().map(|(column, is_number)| field(column.value(row).to_string(), *is_number));
            writer.write_record(fields).map_err(|e| failed(&e))?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    Ok(format!("{mark}{}", String::from_utf8(bytes).map_err(|e| failed(&e))?))
}

/// A text that a spreadsheet shows as it is: not as a formula, and in one cell.
fn for_a_cell(text: &str) -> String {
    // Some spreadsheets drop characters that are not seen before they look for a sign; full-width signs count too.
    let unseen = |c: char| c.is_whitespace() || c.is_control() || UNSEEN.contains(&c);
    let seen = text.trim_start_matches(unseen);
    let is_formula = seen.starts_with(FORMULA) || text.starts_with(['\t', '\r', '\n']);
    let mut cell = if is_formula { format!("'{text}") } else { text.to_owned() };
    let mut units = 0;
    let over = cell.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > EXCEL_CELL
    });
    if over.is_some() {
        // The last character makes room for the mark.
        let mut units = 0;
        let end = cell.char_indices().find(|(_, c)| {
            units += c.len_utf16();
            units > EXCEL_CELL - 1
        });
        cell.truncate(end.map_or(cell.len(), |(at, _)| at));
        cell.push('…');
    }
    cell
}

/// One JSON object per line, with every value whole; NULL is `null`, so that every object has every column.
///
/// # Errors
/// When a type has no JSON form.
pub fn json_lines(batches: &[RecordBatch]) -> Result<String> {
    let options = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = options.build::<_, LineDelimited>(Vec::new());
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    String::from_utf8(writer.into_inner()).map_err(|e| Error::bug("JSON that is not UTF-8").because(e))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn batch() -> RecordBatch {
        let texts = StringArray::from(vec![Some("a \"b\", c"), Some("=1+1"), None, Some("two\nlines")]);
        let numbers = Int64Array::from(vec![Some(-1), Some(2), None, Some(i64::MAX)]);
        let shares = Float64Array::from(vec![0.1, 1.0 / 3.0, -0.5, 1.0]);
        RecordBatch::try_from_iter([
            ("text", Arc::new(texts) as _),
            ("n", Arc::new(numbers) as _),
            ("share", Arc::new(shares) as _),
        ])
        .unwrap()
    }

    #[test]
    fn csv_has_every_value_whole() {
        let written = csv(&["text", "n", "share"], &[batch()], CsvStyle::Exact).unwrap();
        assert_eq!(
            written,
            "text,n,share\n\"a \"\"b\"\", c\",-1,0.1\n=1+1,2,0.3333333333333333\n,,-0.5\n\"two\nlines\",\
             9223372036854775807,1.0\n"
        );
        assert_eq!(csv(&["a", "b"], &[], CsvStyle::Exact).unwrap(), "a,b\n");
    }

    #[test]
    fn a_spreadsheet_gets_a_mark_and_no_formulas() {
        let written = csv(&["text", "n", "share"], &[batch()], CsvStyle::Spreadsheet).unwrap();
        let lines: Vec<&str> = written.split("\r\n").collect();
        assert_eq!(lines[0], "\u{feff}text,n,share");
        assert_eq!(lines[2], "'=1+1,2,0.3333333333333333");
        assert_eq!(lines[3], ",,-0.5", "a negative number is no formula");
        let signs = ["=A1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"];
        let hidden = [" =1", "\n=1", "\u{200b}=1", "\u{feff}@A", "\u{a0} \u{ad}+1", "\u{0}=1", "\nwords"];
        for formula in signs.into_iter().chain(hidden) {
            assert_eq!(for_a_cell(formula), format!("'{formula}"));
        }
        for text in ["a=b", " a", "\u{feff}a", ""] {
            assert_eq!(for_a_cell(text), text);
        }
        let longest = "é".repeat(EXCEL_CELL);
        assert_eq!(for_a_cell(&longest), longest);
        let cut = for_a_cell(&"😀".repeat(EXCEL_CELL));
        assert!(cut.ends_with('…') && cut.encode_utf16().count() <= EXCEL_CELL, "{}", cut.len());
    }
}
