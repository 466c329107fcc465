//! Formats rows as a workbook for spreadsheets.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use rust_xlsxwriter::{Workbook, XlsxError};

use super::rows::{each_row, shortened_to_cell};
use crate::error::{Error, Result};

/// The maximum number of rows in a sheet.
const SHEET_ROWS: usize = 1 << 20;

/// Formats batches as a workbook (Office Open XML) with one sheet, whose first row is `names`. Texts that exceed the limit of a cell end in
/// `…`. NULL is an empty cell.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if a sheet cannot contain so many rows or columns.
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
const DIGITS: usize = 15;

/// Returns the value for a cell with a number, or `None` if the cell must contain text to show the value exactly.
fn number(text: &str, kind: &DataType) -> Option<f64> {
    let is_exact = kind.is_floating() || kind.is_numeric() && text.len() <= DIGITS;
    text.parse().ok().filter(|number: &f64| is_exact && number.is_finite())
}
