//! Text files: each file is one document. A [`TextStep`] may turn the contents of a file into its text.

mod html;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use encoding_rs::{Decoder, DecoderResult, UTF_8};

use crate::error::{Error, Result};
use crate::job::{self, Shingle};
use crate::kernel::text::long_text::LongText;
use crate::source::file::SourceFile;
use crate::source::format::{
    DocumentReader, ParsePlan, ParseRequest, ParsedFormat, Parser, Reading, Rewriting, SourceFormat,
    TextStep, WantedValues,
};
use crate::source::other_files::{SEARCHED, other_text};
use crate::source::reading::bytes::{BYTE_ORDER_MARK, marked_compression};
use crate::source::reading::documents::{DocumentSink, RowPlace};
use crate::source::rows::columns::{column, value_name};

pub(super) const TEXT: SourceFormat = SourceFormat {
    title: "text files",
    endings: job::Format::Text.rules().endings,
    reading: Reading::Parser(&TextFormat),
    rewriting: Rewriting::WholeFile,
};

/// The minimum size of a text that is cut into shingles while it is read, in bytes.
const LONG_TEXT: u64 = 8 * 1024 * 1024;
/// The number of bytes by which a step decides whether it applies to a file.
pub(crate) const START_BYTES: usize = 1024;

/// All steps. The first step that applies to a file is used.
const STEPS: [TextStep; 1] = [html::HTML];

fn step(source: &job::Source, path: &str, start: &[u8]) -> Option<&'static TextStep> {
    let name = job::without_compression(path).unwrap_or(path).to_ascii_lowercase();
    STEPS.iter().find(|step| (step.applies)(source, &name, start))
}

/// Returns whether the text of a file equals its stored bytes. `start` contains the first [`START_BYTES`] stored bytes.
pub(crate) fn is_stored_text(source: &job::Source, path: &str, start: &[u8]) -> bool {
    marked_compression(start).is_none() && step(source, path, start).is_none()
}

struct TextFormat;

#[async_trait]
impl ParsedFormat for TextFormat {
    async fn plan(&self, ParseRequest { source, columns, files, .. }: ParseRequest<'_>) -> Result<ParsePlan> {
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
        Ok(ParsePlan::new(WantedValues::All(1), values, files.to_vec()))
    }

    fn reader(&self, parser: &Parser, file: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        let (source, path) = (parser.source.clone(), file.path().to_owned());
        Ok(Box::new(TextReader {
            source,
            path,
            cut: parser.cut.clone(),
            chunks: Vec::new(),
            bytes: 0,
            long: None,
        }))
    }

    fn cuts_into_shingles(&self, files: &[Arc<SourceFile>], shingle: &Shingle) -> bool {
        // The size of a compressed text is not known.
        let may_be_long = |file: &Arc<SourceFile>| {
            file.size() >= LONG_TEXT || file.compression() != FileCompressionType::UNCOMPRESSED
        };
        files.iter().any(may_be_long) && LongText::can(shingle)
    }
}

/// Reads a file as one text. A long text is cut into shingles, unless a step needs its whole contents.
struct TextReader {
    source: job::Source,
    path: String,
    /// The shingle settings for long texts, or `None` if every text is read as a whole.
    cut: Option<Shingle>,
    chunks: Vec<Bytes>,
    bytes: u64,
    /// The reader of a long text, which is set after [`LONG_TEXT`] bytes.
    long: Option<LongTextReader>,
}

impl TextReader {
    fn start(&self, bytes: usize) -> Vec<u8> {
        self.chunks.iter().flatten().copied().take(bytes).collect()
    }

    fn step(&self) -> Option<&'static TextStep> {
        step(&self.source, &self.path, &self.start(START_BYTES))
    }

    /// Whether the file is too long for its step.
    fn is_too_long(&self) -> bool {
        self.bytes > self.source.max_text && self.step().is_some()
    }
}

impl DocumentReader for TextReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        let before = self.bytes;
        self.bytes += chunk.len() as u64;
        if let Some(long) = &mut self.long {
            return long.read(chunk, documents);
        }
        let chunk = std::mem::take(chunk);
        self.chunks.extend((!chunk.is_empty()).then_some(chunk));
        let is_other = self.bytes >= LONG_TEXT && other_text(&self.start(SEARCHED)).is_some();
        if is_other || self.is_too_long() {
            // The file becomes a reject, for which its start is sufficient.
            self.chunks = vec![self.start(SEARCHED).into()];
        }
        if let Some(shingle) = self.cut.as_ref().filter(|_| before < LONG_TEXT && self.bytes >= LONG_TEXT)
            && self.step().is_none()
            && !is_other
        {
            let mut long = LongTextReader::new(shingle)?;
            self.chunks.drain(..).for_each(|chunk| long.take(&chunk, false));
            self.long = Some(long);
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        if let Some(long) = &mut self.long {
            return long.end(documents);
        }
        if self.is_too_long() {
            return documents.push_too_long(RowPlace::File, self.bytes);
        }
        let step = self.step();
        let text = match self.chunks.as_mut_slice() {
            // A single chunk is not copied.
            [only] => std::mem::take(only),
            chunks => chunks.concat().into(),
        };
        self.chunks.clear();
        if let Some(kind) = other_text(&text) {
            return documents.push_other_file(kind);
        }
        documents.push_text(match (step, document(text)) {
            (Some(step), Some(contents)) => {
                Some((step.text)(std::str::from_utf8(&contents).unwrap_or_default()).into())
            }
            (_, text) => text,
        })
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
            let whole = document(Bytes::from(bytes.clone())).map(|text| text.to_vec());
            let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
            let expected = std::str::from_utf8(text).ok().map(|text| text.as_bytes().to_vec());
            prop_assert_eq!(&whole, &expected);
            prop_assert_eq!(found.map(String::into_bytes), expected);
        }
    }
}
