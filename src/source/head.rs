//! The first bytes of a file, for those who look at data before there is a job for them.

use bytes::BytesMut;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::bytes::{decompress, marked_compression};
use super::file::SourceFile;
use crate::error::{Context, Result};

/// Decompressed bytes after which a head ends, however few bytes are stored for them.
const MAX_DECOMPRESSED: usize = 32 * 1024 * 1024;

/// The first bytes of a file.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The bytes, decompressed.
    pub bytes: Vec<u8>,
    /// The number of bytes that are stored for them.
    pub stored: u64,
    /// Whether they are all of the file.
    pub whole: bool,
    /// Whether the file is compressed.
    pub compressed: bool,
}

impl SourceFile {
    /// The first bytes of the file: about `most` bytes as they are stored, decompressed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read.
    pub(crate) async fn head(&self, ctx: &SessionContext, most: usize) -> Result<Head> {
        let failed = || format!("the start of {} cannot be read", self.path());
        let mut chunks = self.stored(ctx).await?;
        let mut stored = BytesMut::new();
        while stored.len() < most
            && let Some(chunk) = chunks.try_next().await.context(failed)?
        {
            stored.extend_from_slice(&chunk);
        }
        let mut head = Head { stored: stored.len() as u64, ..Head::default() };
        head.whole = head.stored >= self.size();
        head.compressed = marked_compression(&stored).is_some();
        let stored = stream::once(async move { Ok(stored.freeze()) }).boxed();
        let mut bytes = decompress(stored, self.path(), &ctx.runtime_env().memory_pool);
        loop {
            match bytes.try_next().await {
                Ok(Some(chunk)) => head.bytes.extend_from_slice(&chunk),
                Ok(None) => return Ok(head),
                Err(error) if head.whole => return Err(error).context(failed),
                // What is compressed ends in the middle of a block.
                Err(_) => return Ok(head),
            }
            if head.bytes.len() >= MAX_DECOMPRESSED {
                head.whole = false;
                return Ok(head);
            }
        }
    }
}
