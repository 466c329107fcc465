//! The check that the files of a source are those that an earlier run read.
//!
//! A file is the same if its size and its time of writing are, or the name that its store gives to the content. Where those differ
//! and the size does not, the content decides: its checksum is computed again and compared with the one that the run recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crc32fast::Hasher;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::columns::NeededColumns;
use super::file::SourceFile;
use super::format::Reading;
use super::opened::files_left_out;
use super::parquet::ParquetFile;
use super::{Listed, format_of};
use crate::error::{Error, Result};
use crate::job::{self, InputFile};

/// Files whose content is compared at the same time.
const CONCURRENT_FILES: usize = 8;

/// The files of a source, as the fingerprint of an earlier run has them if their contents are what it read.
pub(crate) struct AsRead {
    /// Every file, with the time and the name of its content that the run recorded where only those differ.
    pub inputs: Vec<InputFile>,
    /// The listed files.
    files: Vec<Arc<SourceFile>>,
    /// The files whose contents must be compared before that is true, with their records.
    doubtful: Vec<(Arc<SourceFile>, InputFile)>,
    /// The first difference that needs no look at a content.
    difference: Option<String>,
    /// The first recorded file that is not in the listing.
    gone: Option<String>,
}

impl AsRead {
    /// Compares what a listing says of files with the records `read` of a run.
    pub(crate) fn new(listed: &Listed, read: &[InputFile]) -> Self {
        let read: BTreeMap<&str, &InputFile> = read.iter().map(|file| (file.path.as_str(), file)).collect();
        let (mut doubtful, mut differences) = (Vec::new(), Vec::new());
        let mut inputs = Vec::with_capacity(listed.files.len());
        for file in &listed.files {
            let now = file.input();
            let place = file.place();
            let Some(was) = read.get(file.path()) else {
                differences.push(format!("{place} is new"));
                inputs.push(now);
                continue;
            };
            if was.bytes != now.bytes {
                differences.push(format!("{place} has {} bytes and had {}", now.bytes, was.bytes));
                inputs.push(now);
                continue;
            }
            match Some(was.as_listed()).filter(|recorded| recorded.modified.is_some()) {
                Some(recorded) if recorded != now => {
                    // A store has one name for one content, so that nothing has to be read.
                    if now.bytes > 0 && (now.e_tag.is_none() || now.e_tag != recorded.e_tag) {
                        doubtful.push((Arc::clone(file), (*was).clone()));
                    }
                    inputs.push(recorded);
                }
                Some(_) => inputs.push(now),
                None => {
                    differences.push(format!("{place} may have been written again"));
                    inputs.push(now);
                }
            }
        }
        let listed_files = listed.files.clone();
        let listed: BTreeMap<&str, ()> = inputs.iter().map(|file| (file.path.as_str(), ())).collect();
        let gone = read.keys().find(|path| !listed.contains_key(*path));
        let gone = gone.map(|path| format!("{path} is gone"));
        Self { difference: differences.into_iter().next(), gone, inputs, files: listed_files, doubtful }
    }

    /// The first difference that the listing shows; `None` if it shows none.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// The first file that the run read and that is not listed.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// Compares the contents of the files whose times of writing differ: how the first one differs from what the run read. Files
    /// that `source.where` leaves out by their paths are not read, so their contents do not matter.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where one cannot be read.
    pub(crate) async fn different_content(
        &self,
        ctx: &SessionContext,
        source: &job::Source,
    ) -> Result<Option<String>> {
        if self.doubtful.is_empty() {
            return Ok(None);
        }
        let left_out = files_left_out(ctx, source, &self.files).await?;
        let is_read = |(file, _): &&(Arc<SourceFile>, InputFile)| {
            left_out.binary_search_by(|other| other.path().cmp(file.path())).is_err()
        };
        let compare = async |(file, was): (Arc<SourceFile>, InputFile)| -> Result<Option<String>> {
            let place = file.place();
            let now = match was.crc32_bytes {
                Some(bytes) => checksum(ctx, &file, source, bytes).await?,
                None => None,
            };
            let Some((now, crc32)) = now.zip(was.crc32) else {
                return Ok(Some(format!(
                    "{place} was written again, and the run recorded no checksum to compare it with"
                )));
            };
            Ok((now != crc32).then(|| {
                format!("{place} has other content of the same size (its checksum is {now:08x} and was {crc32:08x})")
            }))
        };
        let compared = stream::iter(self.doubtful.iter().filter(is_read).cloned())
            .map(compare)
            .buffered(CONCURRENT_FILES);
        let mut different = std::pin::pin!(compared.try_filter_map(async |how| Ok::<_, Error>(how)));
        different.try_next().await
    }
}

/// The CRC-32 of those `bytes` of a file which a run of `source` reads, as they are now; `None` if a run does not read so many.
async fn checksum(
    ctx: &SessionContext,
    file: &SourceFile,
    source: &job::Source,
    bytes: u64,
) -> Result<Option<u32>> {
    if let Reading::ParquetScan = format_of(source.format).reading {
        let files = [Arc::new(file.clone())];
        let names = NeededColumns::of(source, &files).of_files;
        return ParquetFile::open(ctx, file).await?.checksum(&names, bytes).await;
    }
    if bytes != file.size() {
        return Ok(None);
    }
    let mut stored = file.stored(ctx).await?;
    let mut hasher = Hasher::new();
    while let Some(chunk) = stored.try_next().await? {
        hasher.update(&chunk);
    }
    Ok(Some(hasher.finalize()))
}
