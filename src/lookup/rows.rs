//! Rows of a result, as cells for people and as JSON for programs.

use arrow::array::RecordBatch;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::{Error, Result};

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

fn shorten(text: String) -> String {
    match text.char_indices().nth(CELL_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
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
