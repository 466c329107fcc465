//! Text files: each file is one document.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use encoding_rs::{Decoder, DecoderResult, UTF_8};
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::job::{self, Shingle};
use crate::kernel::text::long_text::LongText;
use crate::source::file::SourceFile;
use crate::source::format::{
    DocumentReader, Listing, ParsePlan, ParsedFormat, Parser, Reading, Rewriting, SourceFormat, WantedValues,
};
use crate::source::reading::bytes::BYTE_ORDER_MARK;
use crate::source::reading::documents::DocumentSink;
use crate::source::rows::columns::{column, value_name};

pub(super) const TEXT: SourceFormat = SourceFormat {
    title: "text files",
    listing: Listing::Files,
    endings: &[],
    reading: Reading::Parser(&TextFormat),
    rewriting: Rewriting::WholeFile,
};

/// The minimum size of a text that is cut into shingles while it is read, in bytes.
const LONG_TEXT: u64 = 8 * 1024 * 1024;

struct TextFormat;

impl ParsedFormat for TextFormat {
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
            // The job can give the text any name.
            let name = source.text.iter().take(1);
            let values = name.map(|name| (name.clone(), column(value_name(0)))).collect();
            Ok(ParsePlan { wanted: WantedValues::All(1), values, files: files.to_vec() })
        })
    }

    fn reader(&self, parser: &Parser, file: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        Ok(match &parser.cut {
            Some(shingle) if file.size() >= LONG_TEXT => Box::new(LongTextReader::new(shingle)?),
            _ => Box::new(WholeTextReader::default()),
        })
    }

    fn cuts_into_shingles(&self, files: &[Arc<SourceFile>], shingle: &Shingle) -> bool {
        files.iter().any(|file| file.size() >= LONG_TEXT) && LongText::can(shingle)
    }
}

/// Reads a whole file as one text.
#[derive(Default)]
struct WholeTextReader {
    chunks: Vec<Bytes>,
}

impl DocumentReader for WholeTextReader {
    fn read(&mut self, chunk: &mut Bytes, _: &mut DocumentSink<'_>) -> Result<()> {
        let chunk = std::mem::take(chunk);
        self.chunks.extend((!chunk.is_empty()).then_some(chunk));
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let text = match self.chunks.as_mut_slice() {
            // A single chunk is not copied.
            [only] => std::mem::take(only),
            chunks => chunks.concat().into(),
        };
        self.chunks.clear();
        documents.push_text(document(text))
    }
}

/// Returns the document in the bytes of a file without a byte order mark. Returns `None` if the bytes are not UTF-8.
fn document(bytes: Bytes) -> Option<Bytes> {
    let text = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => bytes.slice_ref(rest),
        None => bytes,
    };
    std::str::from_utf8(&text).is_ok().then_some(text)
}

/// Cuts a text into shingles while it is read.
struct LongTextReader {
    decoder: Decoder,
    /// `None` after bytes that are not UTF-8.
    cut: Option<LongText>,
}

impl LongTextReader {
    fn new(shingle: &Shingle) -> Result<Self> {
        Ok(Self { decoder: UTF_8.new_decoder_with_bom_removal(), cut: Some(LongText::begin(shingle)?) })
    }

    fn take(&mut self, bytes: &[u8], last: bool) {
        let Some(cut) = &mut self.cut else { return };
        match utf8(&mut self.decoder, bytes, last) {
            Some(text) => cut.take(&text),
            None => self.cut = None,
        }
    }
}

/// Decodes the next bytes of a text without its byte order mark. Returns `None` if the bytes are not UTF-8.
fn utf8(decoder: &mut Decoder, bytes: &[u8], last: bool) -> Option<String> {
    let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len())?;
    let mut text = String::with_capacity(room);
    let (result, _) = decoder.decode_to_string_without_replacement(bytes, &mut text, last);
    (result == DecoderResult::InputEmpty).then_some(text)
}

impl DocumentReader for LongTextReader {
    fn read(&mut self, chunk: &mut Bytes, _: &mut DocumentSink<'_>) -> Result<()> {
        self.take(&std::mem::take(chunk), false);
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.take(&[], true);
        documents.push_cut(self.cut.take().map(LongText::end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_do_not_change_the_text(
            pieces in prop::collection::vec(prop_oneof![
                3 => any::<String>().prop_map(String::into_bytes),
                1 => prop::collection::vec(any::<u8>(), 0..4),
                1 => Just(BYTE_ORDER_MARK.to_vec()),
            ], 0..6),
            size in 1_usize..9,
        ) {
            let bytes = pieces.concat();
            let mut decoder = UTF_8.new_decoder_with_bom_removal();
            let chunks = bytes.chunks(size).map(|chunk| (chunk, false)).chain([(&b""[..], true)]);
            let found: Option<String> = chunks.map(|(chunk, last)| utf8(&mut decoder, chunk, last)).collect();
            let whole = document(Bytes::from(bytes.clone()));
            prop_assert_eq!(found.map(String::into_bytes), whole.map(|text| text.to_vec()));
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
