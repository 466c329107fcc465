//! Lines: each line of a text file that is not blank is a document.

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::job;
use crate::kernel::text::common_passages::without_spans;
use crate::source::file::SourceFile;
use crate::source::format::{
    AddedColumn, CannotAppend, DocumentReader, ParsePlan, ParseRequest, ParsedFormat, Parser, Reading,
    Rewriting, RowCutter, RowFormat, SourceFormat, TextCut, WantedValues,
};
use crate::source::reading::documents::RowPlace;
use crate::source::reading::lines::{LineCutter, LineReader, without_mark};
use crate::source::rows::columns::{NamedExpressions, column, missing, value_name};

pub(super) const LINES: SourceFormat = SourceFormat {
    title: "lines of text",
    endings: job::Format::Lines.rules().endings,
    reading: Reading::Parser(&TextLines),
    rewriting: Rewriting::Rows(&TextLines),
};

/// The columns of a line: the name of its file, its number from 1, and its text.
const COLUMNS: [&str; 3] = ["file", "line", "text"];

struct TextLines;

#[async_trait]
impl ParsedFormat for TextLines {
    async fn plan(&self, ParseRequest { source, columns, files, .. }: ParseRequest<'_>) -> Result<ParsePlan> {
        let (mut wanted, mut values) = (Vec::new(), NamedExpressions::new());
        for name in columns.iter().map(|name| (*name).to_owned()) {
            if !COLUMNS.contains(&name.as_str()) {
                return Err(missing(source, &name, "lines of text", COLUMNS.map(str::to_owned)));
            }
            if name == "file" {
                values.push((name, column("name")));
                continue;
            }
            values.push((name.clone(), column(value_name(wanted.len()))));
            wanted.push(name);
        }
        Ok(ParsePlan::new(WantedValues::Columns(wanted), values, files.to_vec()))
    }

    fn reader(&self, parser: &Parser, _: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Columns(wanted) = &parser.wanted else {
            return Err(Error::bug("a plan to read lines names no columns"));
        };
        let is_text: Vec<bool> = wanted.iter().map(|name| name == "text").collect();
        Ok(Box::new(LineReader::new(parser.source.max_text, move |line, place, documents| {
            // Rows are numbered as in the line cutter, which also skips blank lines.
            let line = without_mark(line);
            if line.trim_ascii().is_empty() {
                return Ok(());
            }
            let Ok(text) = std::str::from_utf8(line) else { return documents.reject_bytes(place) };
            let RowPlace::Line(number) = place else {
                return Err(Error::bug("a line of text is an element of an array"));
            };
            let number = number.to_string();
            let value = |is_text: &bool| Some(if *is_text { text } else { number.as_str() });
            documents.push(&is_text.iter().map(value).collect::<Vec<_>>(), None)
        })))
    }
}

impl RowFormat for TextLines {
    fn cutter(&self, _: &job::Source) -> Box<dyn RowCutter> {
        Box::new(LineCutter::default())
    }

    fn takes_columns(&self) -> bool {
        false
    }

    /// A plain line cannot contain further values.
    fn with_values(
        &self,
        _: &job::Source,
        row: &[u8],
        columns: &[AddedColumn],
    ) -> Result<Vec<u8>, CannotAppend> {
        columns.first().map_or_else(|| Ok(row.to_vec()), |(name, _)| Err(CannotAppend::NeedsQuotes(name)))
    }

    fn cut_text(&self, _: &job::Source, TextCut { row, spans, .. }: TextCut<'_>) -> Option<Vec<u8>> {
        without_spans(std::str::from_utf8(row).ok()?, spans).map(String::into_bytes)
    }
}
