//! CSV and JSON lines: every row that stays has the bytes that it had.

use async_compression::tokio::write::{GzipEncoder, ZstdEncoder};
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::TryStreamExt;
use tokio::io::AsyncWriteExt;

use super::annotations::Cursor;
use super::fate::{Fate, Fates};
use super::record::Written;
use super::text_columns::{TextColumns, header_fields};
use super::work::{KEPT, REJECTED, Work, written};
use crate::error::{Context, Error, Result};
use crate::job::{Encoding, Format};
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::{Piece, Pieces, Row, SourceFile};

/// Bytes that are gathered before they are compressed or put.
const BUFFER: usize = 256 << 10;

/// Writes the rows of a file that stay, and those of rejects apart: how many rows the file has, and the files.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    fates: &Fates,
) -> Result<(u64, Vec<Written>)> {
    let failed = || format!("reading {} failed", file.path());
    let mut pieces = Pieces::new(&work.source)?;
    let ([mark, first], mut chunks) = file.decompressed(&work.session).await?;
    refuse_other_mark(work.source.encoding, &first, file.path())?;
    let mut sorted = Sorted {
        kept: RecordFile::begin(&work.target, &format!("{KEPT}/{path}"), file.compression()).await?,
        apart: match fates.any_apart() {
            true => {
                let inside = format!("{REJECTED}/{path}");
                Some(RecordFile::begin(&work.target, &inside, file.compression()).await?)
            }
            false => None,
        },
    };
    sorted.both(&mark);
    let mut annotated = match &work.annotations {
        Some(annotations) => {
            Some((annotations.of(&work.session, &work.target, file.path()).await?, Gathered::default()))
        }
        None => None,
    };
    let mut next = Some(first);
    while let Some(chunk) = next {
        match &mut annotated {
            None => pieces.feed(chunk, &mut |piece| sorted.take(piece, fates))?,
            Some((cursor, gathered)) => {
                pieces.feed(chunk, &mut |piece| gathered.take(piece))?;
                gathered.annotate(work, file, cursor, &mut sorted.kept).await?;
            }
        }
        sorted.flush(BUFFER).await?;
        next = chunks.try_next().await.context(failed)?;
    }
    match &mut annotated {
        None => pieces.end(&mut |piece| sorted.take(piece, fates))?,
        Some((cursor, gathered)) => {
            pieces.end(&mut |piece| gathered.take(piece))?;
            gathered.annotate(work, file, cursor, &mut sorted.kept).await?;
        }
    }
    Ok((pieces.rows(), sorted.finish().await?))
}

/// Where an encoding is one of the Encoding Standard, a mark at the start of the file can say that it is UTF-16 all the same.
fn refuse_other_mark(encoding: Encoding, first: &Bytes, path: &str) -> Result<()> {
    let other = first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff");
    match encoding {
        Encoding::Standard(_) if other => Err(Error::input(format!(
            "{path} begins with the byte order mark of UTF-16, in which parts of characters look like the signs between \
             records: convert it to UTF-8 and run the job again"
        ))),
        _ => Ok(()),
    }
}

/// The files that the rows of a file are sorted into.
struct Sorted {
    kept: RecordFile,
    apart: Option<RecordFile>,
}

impl Sorted {
    fn take(&mut self, piece: Piece<'_>, fates: &Fates) -> Result<()> {
        match piece {
            Piece::Header(body, end) => {
                self.both(body);
                self.both(end);
            }
            Piece::Other(bytes) => self.kept.buffer.extend_from_slice(bytes),
            Piece::Row(Row { position, body, end, .. }) => match (fates.of(position), &mut self.apart) {
                (Fate::Keep, _) => self.kept.row(body, end),
                (Fate::Apart, Some(apart)) => apart.row(body, end),
                (Fate::Apart | Fate::Leave, _) => {}
            },
        }
        Ok(())
    }

    fn both(&mut self, bytes: &[u8]) {
        self.kept.buffer.extend_from_slice(bytes);
        if let Some(apart) = &mut self.apart {
            apart.buffer.extend_from_slice(bytes);
        }
    }

    async fn flush(&mut self, full: usize) -> Result<()> {
        self.kept.flush(full).await?;
        match &mut self.apart {
            Some(apart) => apart.flush(full).await,
            None => Ok(()),
        }
    }

    async fn finish(self) -> Result<Vec<Written>> {
        let mut files = vec![self.kept.finish().await?];
        if let Some(apart) = self.apart {
            files.push(apart.finish().await?);
        }
        Ok(files)
    }
}

/// The pieces of a chunk, which wait until it is known what their documents are told of.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    pieces: Vec<Waiting>,
}

/// A piece by the ends of its parts in the bytes.
enum Waiting {
    Header { body: usize, end: usize },
    Other { end: usize },
    Row { position: u64, line: u64, whole: bool, body: usize, end: usize },
}

impl Gathered {
    fn take(&mut self, piece: Piece<'_>) -> Result<()> {
        let mut add = |bytes: &[u8]| {
            self.bytes.extend_from_slice(bytes);
            self.bytes.len()
        };
        let waiting = match piece {
            Piece::Header(body, end) => Waiting::Header { body: add(body), end: add(end) },
            Piece::Other(bytes) => Waiting::Other { end: add(bytes) },
            Piece::Row(Row { position, line, body, end, whole }) => {
                Waiting::Row { position, line, whole, body: add(body), end: add(end) }
            }
        };
        self.pieces.push(waiting);
        Ok(())
    }

    async fn annotate(
        &mut self,
        work: &Work,
        file: &SourceFile,
        cursor: &mut Cursor,
        kept: &mut RecordFile,
    ) -> Result<()> {
        let columns = match work.source.format {
            Format::Csv => TextColumns::Csv(work.source.csv),
            _ => TextColumns::Json,
        };
        let mut from = 0;
        for piece in self.pieces.drain(..) {
            match piece {
                Waiting::Header { body, end } => {
                    let fields = header_fields(work.source.csv, &self.bytes[from..body], file.path())?;
                    kept.buffer.extend_from_slice(&fields);
                    kept.buffer.extend_from_slice(&self.bytes[body..end]);
                    from = end;
                }
                Waiting::Other { end } => {
                    kept.buffer.extend_from_slice(&self.bytes[from..end]);
                    from = end;
                }
                Waiting::Row { position, line, whole, body, end } => {
                    let annotation = cursor.at(position).await?;
                    let row = &self.bytes[from..body];
                    match whole {
                        true => columns
                            .append(row, annotation.as_ref(), &mut kept.buffer)
                            .context(|| format!("{} line {line} cannot be annotated", file.path()))?,
                        // A record that cannot be read has no end that a field could be put to.
                        false => kept.buffer.extend_from_slice(row),
                    }
                    kept.row(&[], &self.bytes[body..end]);
                    from = end;
                }
            }
            kept.flush(BUFFER).await?;
        }
        self.bytes.clear();
        Ok(())
    }
}

/// A file of records that is written.
struct RecordFile {
    upload: Upload,
    encoder: Encoder,
    /// Bytes that are not compressed and put yet.
    buffer: Vec<u8>,
    rows: u64,
}

enum Encoder {
    Plain,
    Gzip(Box<GzipEncoder<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<Vec<u8>>>),
}

impl RecordFile {
    async fn begin(target: &Layout, inside: &str, compression: FileCompressionType) -> Result<Self> {
        let upload = target.upload(inside).await?;
        let encoder = match compression {
            FileCompressionType::GZIP => Encoder::Gzip(Box::new(GzipEncoder::new(Vec::new()))),
            FileCompressionType::ZSTD => Encoder::Zstd(Box::new(ZstdEncoder::new(Vec::new()))),
            _ => Encoder::Plain,
        };
        Ok(Self { upload, encoder, buffer: Vec::new(), rows: 0 })
    }

    fn row(&mut self, body: &[u8], end: &[u8]) {
        self.buffer.extend_from_slice(body);
        self.buffer.extend_from_slice(end);
        self.rows += 1;
    }

    /// Compresses and puts what was gathered, where that is so many bytes.
    async fn flush(&mut self, full: usize) -> Result<()> {
        if self.buffer.len() < full.max(1) {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.buffer);
        let compressed = match &mut self.encoder {
            Encoder::Plain => bytes,
            Encoder::Gzip(encoder) => {
                encoder.write_all(&bytes).await?;
                std::mem::take(encoder.get_mut())
            }
            Encoder::Zstd(encoder) => {
                encoder.write_all(&bytes).await?;
                std::mem::take(encoder.get_mut())
            }
        };
        match compressed.is_empty() {
            true => Ok(()),
            false => self.upload.put(compressed.into()).await,
        }
    }

    async fn finish(mut self) -> Result<Written> {
        self.flush(0).await?;
        let rest = match self.encoder {
            Encoder::Plain => Vec::new(),
            Encoder::Gzip(mut encoder) => {
                encoder.shutdown().await?;
                encoder.into_inner()
            }
            Encoder::Zstd(mut encoder) => {
                encoder.shutdown().await?;
                encoder.into_inner()
            }
        };
        if !rest.is_empty() {
            self.upload.put(rest.into()).await?;
        }
        written(self.upload, self.rows).await
    }
}
