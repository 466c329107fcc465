//! Formats rows as files for spreadsheets: CSV, and workbooks with the feature `xlsx`. CSV also has an exact style for programs.
//! `new_spreadsheet` checks the path of a new file.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
#[cfg(feature = "xlsx")]
use arrow::datatypes::DataType;
use csv::{QuoteStyle, Terminator, WriterBuilder};
#[cfg(feature = "xlsx")]
use rust_xlsxwriter::{Workbook, XlsxError};

use super::rows::each_row;
use crate::error::{Error, Result};
use crate::job::{Encoding, Format, ParsedArgument, Source};

/// Parses the path of a spreadsheet that does not exist yet.
pub(crate) fn new_spreadsheet(text: &str) -> ParsedArgument<PathBuf> {
    let path = PathBuf::from(text);
    if !is_named(&path, "csv") && !is_named(&path, "xlsx") {
        return Err("expected a file name that ends in .csv or .xlsx".to_owned());
    }
    if cfg!(not(feature = "xlsx")) && is_named(&path, "xlsx") {
        return Err(
            "this program was built without the feature `xlsx`: name a file that ends in .csv".to_owned()
        );
    }
    if path.symlink_metadata().is_ok() {
        return Err("it exists: name another file, or remove it".to_owned());
    }
    if path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir()) {
        Ok(path)
    } else {
        Err("its folder does not exist: create it first".to_owned())
    }
}

/// Whether the name of a file ends in `.` and `extension`.
pub(crate) fn is_named(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// The style of CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvStyle {
    /// UTF-8 with unchanged values.
    Exact,
    /// CSV for spreadsheets. Texts that look like formulas begin with `'`. Texts that are longer than a cell end in `…`. With semicolons
    /// between fields, numbers have a decimal comma, because both belong to the same regional settings.
    Spreadsheet {
        /// The byte between fields.
        delimiter: u8,
        /// The encoding of the file.
        encoding: Encoding,
    },
}

impl CsvStyle {
    /// CSV for spreadsheets, with commas and in UTF-8.
    pub const SPREADSHEET: Self = Self::Spreadsheet { delimiter: b',', encoding: Encoding::Utf8 };

    /// Returns the style for spreadsheets that open the files of `source`: with the same delimiter and encoding if the files are CSV.
    pub fn like(source: &Source) -> Self {
        match source.format {
            Format::Csv => Self::Spreadsheet { delimiter: source.csv.delimiter, encoding: source.encoding },
            _ => Self::SPREADSHEET,
        }
    }

    /// Encodes CSV of this style. UTF-8 for spreadsheets begins with a byte order mark, because Excel would assume another encoding. UTF-8
    /// is also used if the encoding lacks a character of the text.
    pub fn encoded(self, text: &str) -> Vec<u8> {
        let Self::Spreadsheet { encoding, .. } = self else { return text.as_bytes().to_vec() };
        encoding.encode(text).unwrap_or_else(|| format!("\u{feff}{text}").into_bytes())
    }
}

/// The maximum number of UTF-16 code units in an Excel cell.
const EXCEL_CELL: usize = 32_767;

/// The first characters of formulas, including full-width ones.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Invisible characters besides white space: soft hyphen, joiners, direction marks and byte order mark.
const UNSEEN: [char; 9] = [
    '\u{ad}', '\u{180e}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{2060}', '\u{feff}',
];

/// Formats batches as CSV (RFC 4180) with the header `names`. [`CsvStyle::encoded`] converts it to bytes. Values are not shortened unless
/// the style requires it. NULL is an empty field. Fails if Arrow cannot format a type.
pub fn csv(names: &[&str], batches: &[RecordBatch], kind: CsvStyle) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| Error::bug(format!("CSV cannot be written: {e}"));
    let (terminator, delimiter) = match kind {
        CsvStyle::Exact => (Terminator::Any(b'\n'), b','),
        CsvStyle::Spreadsheet { delimiter, .. } => (Terminator::CRLF, delimiter),
    };
    let mut builder = WriterBuilder::new();
    builder.terminator(terminator).delimiter(delimiter).quote_style(QuoteStyle::Necessary);
    let mut writer = builder.from_writer(Vec::new());
    let field = |text: String, is_number: bool| match kind {
        CsvStyle::Spreadsheet { .. } if !is_number => for_a_cell(&text),
        CsvStyle::Spreadsheet { delimiter: b';', .. } => text.replace('.', ","),
        CsvStyle::Exact | CsvStyle::Spreadsheet { .. } => text,
    };
    let header = names.iter().map(|name| field((*name).to_owned(), false));
    writer.write_record(header).map_err(|e| failed(&e))?;
    each_row(batches, |values| {
        let fields = values.into_iter().map(|(text, kind)| field(text, kind.is_numeric()));
        writer.write_record(fields).map_err(|e| failed(&e))
    })?;
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

/// Changes a text so that a spreadsheet shows it in one cell and not as a formula.
fn for_a_cell(text: &str) -> String {
    // Some spreadsheets ignore invisible characters before a sign, and accept full-width signs.
    let unseen = |c: char| c.is_whitespace() || c.is_control() || UNSEEN.contains(&c);
    let seen = text.trim_start_matches(unseen);
    let is_formula = seen.starts_with(FORMULA) || text.starts_with(['\t', '\r', '\n']);
    shortened_to_cell(if is_formula { format!("'{text}") } else { text.to_owned() })
}

/// Shortens a text that exceeds the limit of an Excel cell.
fn shortened_to_cell(mut cell: String) -> String {
    if fitting(&cell, EXCEL_CELL) < cell.len() {
        // Removes the last character to make room for the mark.
        cell.truncate(fitting(&cell, EXCEL_CELL - 1));
        cell.push('…');
    }
    cell
}

/// Returns the length in bytes of the longest prefix of `text` with at most `most` UTF-16 code units.
fn fitting(text: &str, most: usize) -> usize {
    let mut units = 0;
    let over = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > most
    });
    over.map_or(text.len(), |(at, _)| at)
}

/// The maximum number of rows in a sheet.
#[cfg(feature = "xlsx")]
const SHEET_ROWS: usize = 1 << 20;

/// Formats batches as a workbook (Office Open XML) with one sheet, whose first row is `names`. Texts that exceed the limit of a cell end in
/// `…`. NULL is an empty cell.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if a sheet cannot contain so many rows or columns.
#[cfg(feature = "xlsx")]
pub fn workbook(names: &[&str], batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows >= SHEET_ROWS {
        return Err(Error::job(format!(
            "the result has {rows} rows, and a sheet has at most {SHEET_ROWS} with its header: write the result with --csv"
        )));
    }
    let failed = |e: XlsxError| Error::job("the result does not fit into a workbook").because(e);
    let mut book = Workbook::new();
    let sheet = book.add_worksheet();
    sheet.set_freeze_panes(1, 0).map_err(failed)?;
    for (column, name) in (0..).zip(names) {
        sheet.write_string(0, column, *name).map_err(failed)?;
    }
    let mut row = 0;
    each_row(batches, |values| {
        row += 1;
        for (column, (text, kind)) in (0..).zip(values) {
            let written = match number(&text, kind) {
                Some(number) => sheet.write_number(row, column, number),
                None => sheet.write_string(row, column, shortened_to_cell(text)),
            };
            written.map_err(failed)?;
        }
        Ok(())
    })?;
    book.save_to_buffer().map_err(failed)
}

/// The maximum number of digits of an integer that a spreadsheet shows exactly.
#[cfg(feature = "xlsx")]
const DIGITS: usize = 15;

/// Returns the value for a cell with a number, or `None` if the cell must contain text to show the value exactly.
#[cfg(feature = "xlsx")]
fn number(text: &str, kind: &DataType) -> Option<f64> {
    let is_exact = kind.is_floating() || kind.is_numeric() && text.len() <= DIGITS;
    text.parse().ok().filter(|number: &f64| is_exact && number.is_finite())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn a_spreadsheet_gets_a_mark_and_no_formulas() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a \"b\", c"), Some("=1+1"), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(2), None]));
        let shares: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 1.0 / 3.0, -0.5]));
        let rows = RecordBatch::try_from_iter([("text", texts), ("n", numbers), ("share", shares)]).unwrap();
        let style = CsvStyle::SPREADSHEET;
        let written = csv(&["text", "n", "share"], &[rows], style).unwrap();
        let written = String::from_utf8(style.encoded(&written)).unwrap();
        let lines: Vec<&str> = written.split("\r\n").collect();
        assert_eq!(lines[0], "\u{feff}text,n,share");
        assert_eq!(lines[1], "\"a \"\"b\"\", c\",9223372036854775807,0.1");
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
