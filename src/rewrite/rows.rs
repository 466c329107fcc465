//! Rewrites CSV and JSON lines. Kept rows keep their bytes, except for cut passages and added columns.

use std::borrow::Cow;

use async_compression::tokio::write::{BzEncoder, GzipEncoder, XzEncoder, ZstdEncoder};
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::decisions::{Decision, name_exists, names, other_text, with_names};
use super::work::{DocumentCounts, RewriteSettings, RowDestination, WrittenFile, rejected_path, written};
use crate::error::{Context, Error, Result};
use crate::job::{self, Encoding};
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::{CannotAppend, FileBytes, FilePiece, Row, RowFormat, SourceFile, TextCut, TextPlace};

/// The number of bytes that are collected before they are compressed or uploaded.
const BUFFER: usize = 256 << 10;

/// Writes the kept rows in a file, and the rejects if they are separate. Returns the counts and the written files.
pub(super) async fn write(
    work: &RewriteSettings,
    format: &dyn RowFormat,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
    mut bytes: FileBytes,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let mut cutter = format.checked_cutter(&work.source)?;
    let ([mark, first], mut chunks) = file.decompressed(&work.session).await?;
    refuse_utf16_mark(work.source.encoding, &first, file.path())?;
    let begin = async |inside: &str| RowFile::begin(&work.target, inside, file.compression()).await;
    let kept = begin(path).await?;
    let rejected =
        if work.rejects.are_separate(expected) { Some(begin(&rejected_path(path)).await?) } else { None };
    // In a file without a header, the position of the text is known from the settings.
    let text = format.text_place(&work.source, &work.text, b"");
    let counts = DocumentCounts::default();
    let mut copy = RowCopy { work, format, path: file.path(), text, counts, kept, rejected };
    for file in copy.files() {
        file.buffer.extend_from_slice(&mark);
    }
    let mut next = Some(first);
    loop {
        let is_end = next.is_none();
        if let Some(chunk) = next {
            bytes.add(chunk.len() as u64);
            cutter.feed(chunk);
        }
        while let Some(piece) = cutter.next_piece(is_end) {
            copy.write(piece).await?;
        }
        if is_end {
            return copy.finish().await;
        }
        for file in copy.files() {
            file.flush(BUFFER).await?;
        }
        next = chunks.try_next().await.context(|| format!("reading {} failed", file.path()))?;
    }
}

/// Passes the pieces of a file to `take` until it returns false.
pub(crate) async fn pieces(
    session: &SessionContext,
    source: &job::Source,
    format: &dyn RowFormat,
    file: &SourceFile,
    mut take: impl FnMut(FilePiece<'_>) -> bool + Send,
) -> Result<()> {
    let mut cutter = format.checked_cutter(source)?;
    let ([_, first], mut chunks) = file.decompressed(session).await?;
    let mut next = Some(first);
    loop {
        let is_end = next.is_none();
        if let Some(chunk) = next {
            cutter.feed(chunk);
        }
        while let Some(piece) = cutter.next_piece(is_end) {
            if !take(piece) {
                return Ok(());
            }
        }
        if is_end {
            return Ok(());
        }
        next = chunks.try_next().await.context(|| format!("reading {} failed", file.path()))?;
    }
}

/// Refuses a file with the byte order mark of UTF-16. By the Encoding Standard, this mark overrides the encoding in the settings.
fn refuse_utf16_mark(encoding: Encoding, first: &Bytes, path: &str) -> Result<()> {
    let other = first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff");
    match encoding {
        Encoding::Standard(_) if other => Err(Error::input(format!(
            "{path} begins with the byte order mark of UTF-16, in which bytes inside characters can look like \
             separators: convert it to UTF-8 and run the job again"
        ))),
        _ => Ok(()),
    }
}

struct RowCopy<'a> {
    work: &'a RewriteSettings,
    format: &'a dyn RowFormat,
    path: &'a str,
    text: Option<TextPlace>,
    counts: DocumentCounts,
    kept: RowFile,
    rejected: Option<RowFile>,
}

impl RowCopy<'_> {
    fn files(&mut self) -> impl Iterator<Item = &mut RowFile> {
        std::iter::once(&mut self.kept).chain(&mut self.rejected)
    }

    async fn write(&mut self, piece: FilePiece<'_>) -> Result<()> {
        match piece {
            FilePiece::Header(body, end) => self.header(body, end),
            FilePiece::Other(bytes) => {
                self.kept.buffer.extend_from_slice(bytes);
                Ok(())
            }
            FilePiece::Row(row) => {
                let decision = self.work.decisions.at(self.path, row.position).await?;
                self.counts.count(decision.action);
                match (self.work.rejects.destination(decision.action), &mut self.rejected) {
                    (RowDestination::Kept, _) => return self.kept_row(row, decision),
                    (RowDestination::Rejected, Some(rejected)) => rejected.row(row.before, row.body, row.end),
                    (RowDestination::Rejected | RowDestination::Nowhere, _) => {}
                }
                Ok(())
            }
        }
    }

    fn header(&mut self, body: &[u8], end: &[u8]) -> Result<()> {
        let RewriteSettings { source, text, annotations, .. } = self.work;
        self.text = self.format.text_place(source, text, body);
        self.kept.has_header = true;
        let header = with_names(self.format, source, annotations, (body, self.path))?;
        self.kept.buffer.extend_from_slice(&header);
        if let Some(rejected) = &mut self.rejected {
            rejected.buffer.extend_from_slice(body);
        }
        for file in self.files() {
            file.buffer.extend_from_slice(end);
        }
        Ok(())
    }

    fn kept_row(&mut self, row: Row<'_>, Decision { cuts, added, .. }: Decision) -> Result<()> {
        let RewriteSettings { source, annotations, .. } = self.work;
        let Row { position, place, before, body, end, whole } = row;
        let mut body = Cow::Borrowed(body);
        if !cuts.is_empty() {
            let place = self.text.as_ref();
            let cut = place
                .and_then(|place| self.format.cut_text(source, TextCut { row: &body, place, spans: &cuts }));
            body = Cow::Owned(cut.ok_or_else(|| other_text(self.path, position))?);
        }
        // A field cannot be appended to a record that could not be parsed.
        if whole && !added.is_empty() {
            let columns: Vec<_> = names(annotations).into_iter().zip(added).collect();
            let with_values = self.format.with_values(source, &body, &columns).map_err(|why| match why {
                CannotAppend::Exists(name) => {
                    name_exists(name, &format!("{}{place} has a field `{name}`", self.path))
                }
                CannotAppend::NeedsQuotes(name) => Error::input(format!(
                    "the value of `{name}` for {}{place} needs quotes, and the file has none: set source.escape and run the \
                     job again, or apply without this column",
                    self.path
                )),
            })?;
            body = Cow::Owned(with_values);
        }
        self.kept.row(before, &body, end);
        Ok(())
    }

    async fn finish(self) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
        let mut files = Vec::new();
        // Some readers refuse a file that has neither rows nor a header.
        if self.kept.rows > 0 || self.kept.has_header {
            files.push(self.kept.finish().await?);
        }
        if let Some(rejected) = self.rejected {
            files.push(rejected.finish().await?);
        }
        Ok((self.counts, files))
    }
}

struct RowFile {
    upload: Upload,
    encoder: Box<dyn Encoder>,
    buffer: Vec<u8>,
    rows: u64,
    has_header: bool,
}

/// A compressing writer that gives access to its output.
trait Encoder: AsyncWrite + Send + Unpin {
    fn written(&mut self) -> &mut Vec<u8>;
}

/// Writes the bytes without compression.
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

    fn row(&mut self, before: &[u8], body: &[u8], end: &[u8]) {
        if self.rows > 0 {
            self.buffer.extend_from_slice(before);
        }
        self.buffer.extend_from_slice(body);
        self.buffer.extend_from_slice(end);
        self.rows += 1;
    }

    /// Compresses and uploads the buffer if it contains at least `full` bytes.
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

    async fn finish(mut self) -> Result<WrittenFile> {
        self.flush(0).await?;
        self.encoder.shutdown().await?;
        self.upload().await?;
        written(self.upload, self.rows).await
    }
}
