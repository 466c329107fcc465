//! CSV and JSON lines: each kept row keeps its bytes, except for its edits.

use std::borrow::Cow;

use async_compression::tokio::write::{BzEncoder, GzipEncoder, XzEncoder, ZstdEncoder};
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::TryStreamExt;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::actions::{RowAction, RowActions};
use super::annotations::{Cursor, append_names, name_exists};
use super::edits::Edits;
use super::record::Written;
use super::spans::other_text;
use super::work::{self, Work, written};
use crate::error::{Context, Error, Result};
use crate::job::Encoding;
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::{CannotAppend, FileBytes, Piece, Row, RowFormat, SourceFile, TextPlace};

/// Bytes that are gathered before they are compressed or uploaded.
const BUFFER: usize = 256 << 10;

/// Writes the kept rows of a file, and separate rejects. Returns the number of rows of the file, and the files written.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    format: &dyn RowFormat,
    file: &SourceFile,
    path: &str,
    actions: &RowActions,
    mut bytes: FileBytes,
) -> Result<(u64, Vec<Written>)> {
    let mut cutter = format.checked_cutter(&work.source)?;
    let ([mark, first], mut chunks) = file.decompressed(&work.session).await?;
    refuse_utf16_mark(work.source.encoding, &first, file.path())?;
    let begin = async |inside: &str| RowFile::begin(&work.target, inside, file.compression()).await;
    let kept = begin(path).await?;
    let rejected = if actions.any_separate() { Some(begin(&work::rejected(path)).await?) } else { None };
    let mut sorted = SortedRows { actions, kept, rejected };
    sorted.write_to_both(&mark);
    let edits = Edits::of_kept(work, file.path()).await?;
    let mut editor = match edits.is_empty() {
        true => None,
        false => Some(Editor {
            format,
            work,
            path: file.path(),
            edits,
            // Files without a header say where it is, too.
            text: format.text_place(&work.source, &work.cuts.text, b""),
            pieces: Vec::new(),
        }),
    };
    let mut next = Some(first);
    loop {
        let end = next.is_none();
        let mut take = |piece: Piece<'_>| match &mut editor {
            Some(editor) => {
                editor.pieces.push(OwnedPiece::from(piece));
                Ok(())
            }
            None => {
                sorted.take(piece);
                Ok(())
            }
        };
        match next {
            Some(chunk) => {
                bytes.add(chunk.len() as u64);
                cutter.feed(chunk, &mut take)?;
            }
            None => cutter.end(&mut take)?,
        }
        if let Some(editor) = &mut editor {
            editor.write_to(&mut sorted).await?;
        }
        if end {
            return Ok((cutter.rows(), sorted.finish().await?));
        }
        sorted.flush(BUFFER).await?;
        next = chunks.try_next().await.context(|| format!("reading {} failed", file.path()))?;
    }
}

/// Refuses a file whose byte order mark says UTF-16, which overrides an encoding of the Encoding Standard.
fn refuse_utf16_mark(encoding: Encoding, first: &Bytes, path: &str) -> Result<()> {
    let other = first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff");
    match encoding {
        Encoding::Standard(_) if other => Err(Error::input(format!(
            "{path} begins with the byte order mark of UTF-16, in which parts of characters look like the signs between \
             records: convert it to UTF-8 and run the job again"
        ))),
        _ => Ok(()),
    }
}

/// The files for the kept, removed and rejected rows of a file.
struct SortedRows<'a> {
    actions: &'a RowActions,
    kept: RowFile,
    rejected: Option<RowFile>,
}

impl SortedRows<'_> {
    fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Header(body, end) => {
                self.kept.has_header = true;
                self.write_to_both(body);
                self.write_to_both(end);
            }
            Piece::Other(bytes) => self.kept.buffer.extend_from_slice(bytes),
            Piece::Row(Row { position, body, end, .. }) => {
                match (self.actions.of(position), &mut self.rejected) {
                    (RowAction::Keep, _) => self.kept.row(body, end),
                    (RowAction::Separate, Some(rejected)) => rejected.row(body, end),
                    (RowAction::Separate | RowAction::Remove, _) => {}
                }
            }
        }
    }

    fn write_to_both(&mut self, bytes: &[u8]) {
        self.kept.buffer.extend_from_slice(bytes);
        if let Some(rejected) = &mut self.rejected {
            rejected.buffer.extend_from_slice(bytes);
        }
    }

    async fn flush(&mut self, full: usize) -> Result<()> {
        self.kept.flush(full).await?;
        match &mut self.rejected {
            Some(rejected) => rejected.flush(full).await,
            None => Ok(()),
        }
    }

    async fn finish(self) -> Result<Vec<Written>> {
        let mut files = Vec::new();
        // Some readers refuse a file that has neither rows nor a header.
        if self.kept.rows > 0 || self.kept.has_header {
            files.push(self.kept.finish().await?);
        }
        if let Some(rejected) = self.rejected {
            files.push(rejected.finish().await?);
        }
        Ok(files)
    }
}

/// Edits the rows of a chunk.
struct Editor<'a> {
    format: &'a dyn RowFormat,
    work: &'a Work,
    path: &'a str,
    edits: Edits,
    /// The place of the texts in the rows of the file.
    text: Option<TextPlace>,
    /// The pieces of the chunk, which wait until their edits are read.
    pieces: Vec<OwnedPiece>,
}

enum OwnedPiece {
    Header(Vec<u8>, Vec<u8>),
    Other(Vec<u8>),
    Row { position: u64, line: u64, whole: bool, body: Vec<u8>, end: Vec<u8> },
}

impl From<Piece<'_>> for OwnedPiece {
    fn from(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Header(body, end) => Self::Header(body.to_vec(), end.to_vec()),
            Piece::Other(bytes) => Self::Other(bytes.to_vec()),
            Piece::Row(Row { position, line, body, end, whole }) => {
                Self::Row { position, line, whole, body: body.to_vec(), end: end.to_vec() }
            }
        }
    }
}

impl Editor<'_> {
    async fn write_to(&mut self, sorted: &mut SortedRows<'_>) -> Result<()> {
        for piece in std::mem::take(&mut self.pieces) {
            match piece {
                OwnedPiece::Header(body, end) => self.header(sorted, &body, &end)?,
                OwnedPiece::Other(bytes) => sorted.take(Piece::Other(&bytes)),
                OwnedPiece::Row { position, line, whole, body, end } => {
                    let row = Row { position, line, whole, body: &body, end: &end };
                    match sorted.actions.of(position) {
                        RowAction::Keep => self.row(&mut sorted.kept, row).await?,
                        RowAction::Separate | RowAction::Remove => sorted.take(Piece::Row(row)),
                    }
                }
            }
        }
        Ok(())
    }

    fn header(&mut self, sorted: &mut SortedRows<'_>, body: &[u8], end: &[u8]) -> Result<()> {
        self.text = self.format.text_place(&self.work.source, &self.work.cuts.text, body);
        let Some(Cursor { annotations, .. }) = &self.edits.annotations else {
            sorted.take(Piece::Header(body, end));
            return Ok(());
        };
        sorted.kept.has_header = true;
        let kept = &mut sorted.kept.buffer;
        append_names(self.format, &self.work.source, annotations, (body, self.path), kept)?;
        kept.extend_from_slice(end);
        if let Some(rejected) = &mut sorted.rejected {
            rejected.buffer.extend_from_slice(body);
            rejected.buffer.extend_from_slice(end);
        }
        Ok(())
    }

    async fn row(&mut self, kept: &mut RowFile, row: Row<'_>) -> Result<()> {
        let source = &self.work.source;
        let Row { position, line, body, end, whole } = row;
        let mut body = Cow::Borrowed(body);
        if let Some(cuts) = &mut self.edits.cuts {
            let spans = cuts.at(position).await?;
            if !spans.is_empty() {
                let mut cut = Vec::with_capacity(body.len());
                let place = self.text.as_ref();
                let found =
                    place.and_then(|place| self.format.cut_text(source, place, &body, &spans, &mut cut));
                found.ok_or_else(|| other_text(self.path, position))?;
                body = Cow::Owned(cut);
            }
        }
        if let Some(cursor) = &mut self.edits.annotations {
            let values = cursor.at(position).await?;
            // A record that cannot be read has no end to which a field could be appended.
            if whole {
                let names = cursor.columns.iter().map(|column| column.name);
                let columns: Vec<_> = names.zip(values).collect();
                let appended = self.format.append_values(source, &body, &columns, &mut kept.buffer);
                appended.map_err(|why| match why {
                    CannotAppend::Exists(name) => {
                        name_exists(name, &format!("{} line {line} has a field `{name}`", self.path))
                    }
                    CannotAppend::NeedsQuotes(name) => Error::input(format!(
                        "the value of `{name}` for line {line} of {} needs quotes, and the file has none: set source.escape and run \
                         the job again, or apply without this column",
                        self.path
                    )),
                })?;
                body = Cow::Borrowed(&[]);
            }
        }
        kept.row(&body, end);
        Ok(())
    }
}

/// A file of rows that is being written.
struct RowFile {
    upload: Upload,
    encoder: Box<dyn Encoder>,
    /// Bytes that are not compressed and uploaded yet.
    buffer: Vec<u8>,
    rows: u64,
    has_header: bool,
}

/// A compression, with the bytes that it has written.
trait Encoder: AsyncWrite + Send + Unpin {
    fn written(&mut self) -> &mut Vec<u8>;
}

/// No compression.
impl Encoder for Vec<u8> {
    fn written(&mut self) -> &mut Vec<u8> {
        self
    }
}

macro_rules! encoders {
    ($($encoder:ident),*) => {$(
        impl Encoder for $encoder<Vec<u8>> {
            fn written(&mut self) -> &mut Vec<u8> {
                self.get_mut()
            }
        }
    )*};
}

encoders!(BzEncoder, GzipEncoder, XzEncoder, ZstdEncoder);

impl RowFile {
    async fn begin(target: &Layout, inside: &str, compression: FileCompressionType) -> Result<Self> {
        let upload = target.upload(inside).await?;
        let written = Vec::new();
        let encoder: Box<dyn Encoder> = match compression {
            FileCompressionType::BZIP2 => Box::new(BzEncoder::new(written)),
            FileCompressionType::GZIP => Box::new(GzipEncoder::new(written)),
            FileCompressionType::XZ => Box::new(XzEncoder::new(written)),
            FileCompressionType::ZSTD => Box::new(ZstdEncoder::new(written)),
            _ => Box::new(written),
        };
        Ok(Self { upload, encoder, buffer: Vec::new(), rows: 0, has_header: false })
    }

    fn row(&mut self, body: &[u8], end: &[u8]) {
        self.buffer.extend_from_slice(body);
        self.buffer.extend_from_slice(end);
        self.rows += 1;
    }

    /// Compresses and uploads the buffer once it holds `full` bytes.
    async fn flush(&mut self, full: usize) -> Result<()> {
        if self.buffer.len() < full.max(1) {
            return Ok(());
        }
        self.encoder.write_all(&std::mem::take(&mut self.buffer)).await?;
        self.upload().await
    }

    async fn upload(&mut self) -> Result<()> {
        match std::mem::take(self.encoder.written()) {
            written if written.is_empty() => Ok(()),
            written => self.upload.put(written.into()).await,
        }
    }

    async fn finish(mut self) -> Result<Written> {
        self.flush(0).await?;
        self.encoder.shutdown().await?;
        self.upload().await?;
        written(self.upload, self.rows).await
    }
}
