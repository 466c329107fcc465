//! Text files: each file is one document.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::job::{self, Shingle};
use crate::kernel::text::long_text::LongText;
use crate::source::columns::{column, value_name};
use crate::source::documents::DocumentSink;
use crate::source::file::SourceFile;
use crate::source::format::{
    DocumentReader, EmptyFile, Listing, ParsePlan, ParsedFormat, Reading, Rewriting, SourceFormat,
};
use crate::source::parser::{FileToParse, Parser, WantedValues};

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "text files",
    listing: Listing::Files,
    endings: &[],
    empty_file: EmptyFile::Document,
    reading: Reading::Parser(&Text),
    rewriting: Rewriting::WholeFile,
};

/// Bytes from which a text is cut into shingles while it is read, where the settings of shingles allow it.
const LONG_TEXT: u64 = 8 * 1024 * 1024;

struct Text;

impl ParsedFormat for Text {
    fn plan<'a>(
        &'a self,
        _: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>> {
        Box::pin(async move {
            if let job::SourceId::Columns(names) = &source.id {
                return Err(Error::job(format!(
                    "text files have no column `{}` to take ids from: set [source] id to \"path\"",
                    names.join("`, `")
                )));
            }
            if let Some(name) = columns.iter().find(|name| !source.text.iter().any(|text| text == *name)) {
                return Err(Error::job(format!(
                    "text files have no column `{name}`: source.where can only use values in the path of every file, as in \
                 day=2026-11-01/a.txt"
                )));
            }
            // Whatever the job calls it, a file has one text.
            let values =
                source.text.iter().take(1).map(|name| (name.clone(), column(value_name(0)))).collect();
            Ok(ParsePlan { wanted: WantedValues::All(1), values, files: files.to_vec() })
        })
    }

    fn reader(&self, parser: &Parser, file: &FileToParse) -> Result<Box<dyn DocumentReader>> {
        Ok(match &parser.cut {
            Some(shingle) if file.pin.size >= LONG_TEXT => {
                Box::new(LongTextReader { text: Utf8Text::default(), cut: Some(LongText::begin(shingle)?) })
            }
            _ => Box::new(WholeTextReader::default()),
        })
    }

    fn cuts_into_shingles(&self, files: &[Arc<SourceFile>], shingle: &Shingle) -> bool {
        files.iter().any(|file| file.meta.size >= LONG_TEXT) && LongText::can(shingle)
    }
}

/// Reads a file as one text.
#[derive(Default)]
struct WholeTextReader {
    /// The only chunk so far, which need not be copied if no other follows.
    first: Bytes,
    /// All chunks, where there are several.
    all: BytesMut,
}

impl DocumentReader for WholeTextReader {
    fn read(&mut self, chunk: &mut Bytes, _: &mut DocumentSink<'_>) -> Result<()> {
        let chunk = std::mem::take(chunk);
        if self.first.is_empty() && self.all.is_empty() {
            self.first = chunk;
        } else if !chunk.is_empty() {
            if self.all.is_empty() {
                self.all = BytesMut::from(std::mem::take(&mut self.first));
            }
            self.all.extend_from_slice(&chunk);
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let text = match self.all.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.all).freeze(),
        };
        documents.push_text(document(text))
    }
}

/// Cuts a text into shingles as it comes.
struct LongTextReader {
    text: Utf8Text,
    cut: Option<LongText>,
}

impl DocumentReader for LongTextReader {
    fn read(&mut self, chunk: &mut Bytes, _: &mut DocumentSink<'_>) -> Result<()> {
        let chunk = std::mem::take(chunk);
        if let Some(cut) = &mut self.cut {
            self.text.take(&chunk, |part| cut.take(part));
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let cut = self.cut.take().filter(|_| self.text.is_valid());
        documents.push_cut(cut.map(LongText::end))
    }
}

/// The document in a file's bytes, without a byte order mark; `None` if they are not UTF-8.
fn document(bytes: Bytes) -> Option<Bytes> {
    let text = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => bytes.slice_ref(rest),
        None => bytes,
    };
    std::str::from_utf8(&text).is_ok().then_some(text)
}

/// The text in bytes that come in parts, as [`document`] has it.
#[derive(Debug)]
struct Utf8Text {
    /// The beginning of a character whose end has not come.
    waiting: Vec<u8>,
    /// Whether no bytes have come.
    at_start: bool,
    invalid: bool,
}

impl Default for Utf8Text {
    fn default() -> Self {
        Self { waiting: Vec::new(), at_start: true, invalid: false }
    }
}

impl Utf8Text {
    /// Passes on the text that `bytes` complete; nothing more once the text is not UTF-8.
    fn take(&mut self, bytes: &[u8], mut give: impl FnMut(&str)) {
        let mut rest = bytes;
        // At most three bytes wait, so that another one at a time is soon a character.
        while !self.waiting.is_empty()
            && let [next, tail @ ..] = rest
        {
            self.waiting.push(*next);
            rest = tail;
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = self.give(&waiting, &mut give).to_vec();
        }
        let waiting = self.give(rest, &mut give);
        self.waiting.extend_from_slice(waiting);
    }

    /// Passes on the whole characters of `bytes`. Returns the beginning of a character at their end.
    fn give<'a>(&mut self, bytes: &'a [u8], give: &mut impl FnMut(&str)) -> &'a [u8] {
        if self.invalid || bytes.is_empty() {
            return &[];
        }
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => {
                self.invalid = e.error_len().is_some();
                std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default()
            }
        };
        let mark = if self.at_start { whole.strip_prefix('\u{feff}') } else { None };
        self.at_start &= whole.is_empty();
        give(mark.unwrap_or(whole));
        &bytes[whole.len()..]
    }

    /// Whether all of it was UTF-8, once it has all come.
    fn is_valid(&self) -> bool {
        !self.invalid && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_that_comes_in_parts_is_that_of_the_whole(
            pieces in prop::collection::vec(prop_oneof![
                3 => any::<String>().prop_map(String::into_bytes),
                1 => prop::collection::vec(any::<u8>(), 0..4),
                1 => Just("\u{feff}".as_bytes().to_vec()),
            ], 0..6),
            size in 1_usize..9,
        ) {
            let bytes = pieces.concat();
            let (mut text, mut found) = (Utf8Text::default(), String::new());
            bytes.chunks(size).for_each(|chunk| text.take(chunk, |part| found.push_str(part)));
            let whole = document(Bytes::from(bytes));
            prop_assert_eq!(text.is_valid(), whole.is_some());
            if let Some(whole) = whole {
                prop_assert_eq!(found.as_bytes(), &whole[..]);
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(document(Bytes::from_static(b"\xEF\xBB\xBFtext")), Some(Bytes::from_static(b"text")));
        assert_eq!(document(Bytes::new()), Some(Bytes::new()));
    }

    #[test]
    fn other_encodings_are_a_defect() {
        assert_eq!(document(Bytes::from_static(b"caf\xE9")), None);
        assert_eq!(document(Bytes::from_static(b"\xFF\xFEt\0")), None);
    }
}
