//! Compares a listing of a source with the files that an earlier run read. A file is unchanged if its size and modification time, or its
//! e_tag, are unchanged. If only the time or the e_tag differs, the checksum of the content decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crc32fast::Hasher;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::job::{self, InputFile};
use crate::source::file::SourceFile;
use crate::source::format::Reading;
use crate::source::formats::format_of;
use crate::source::formats::parquet::ParquetFile;
use crate::source::listing::Listed;
use crate::source::rows::columns::NeededColumns;
use crate::source::rows::filter::files_left_out;

/// The number of files whose content is compared at the same time.
const CONCURRENT_FILES: usize = 8;

pub(crate) struct InputComparison {
    /// Every listed file. If only the time or the e_tag of a file differs, its entry has the recorded time and e_tag.
    pub inputs: Vec<InputFile>,
    files: Vec<Arc<SourceFile>>,
    /// Files whose content must be compared, with their records.
    to_compare: Vec<(Arc<SourceFile>, InputFile)>,
    /// The first difference that the listing shows.
    pub difference: Option<String>,
    /// The first recorded file that is not listed.
    pub gone: Option<String>,
}

impl InputComparison {
    /// Compares listed files with `read`, the records of a run.
    pub(crate) fn new(listed: &Listed, read: &[InputFile]) -> Self {
        let read: BTreeMap<&str, &InputFile> = read.iter().map(|file| (file.path.as_str(), file)).collect();
        let (mut to_compare, mut difference) = (Vec::new(), None);
        let mut inputs = Vec::with_capacity(listed.files.len());
        for file in &listed.files {
            let now = file.input();
            let record = read.get(file.path()).copied();
            let change = match record {
                None => Some("is new".to_owned()),
                Some(was) if was.bytes != now.bytes => {
                    Some(format!("has {} bytes and had {}", now.bytes, was.bytes))
                }
                Some(was) if was.modified.is_none() => Some("may have been written again".to_owned()),
                Some(_) => None,
            };
            if let Some(change) = &change {
                difference.get_or_insert_with(|| format!("{} {change}", file.shown_location()));
            }
            let Some(was) = record.filter(|was| change.is_none() && was.as_listed() != now) else {
                inputs.push(now);
                continue;
            };
            // An equal e_tag means equal content.
            if now.bytes > 0 && (now.e_tag.is_none() || now.e_tag != was.e_tag) {
                to_compare.push((Arc::clone(file), was.clone()));
            }
            inputs.push(was.as_listed());
        }
        let paths: BTreeSet<&str> = inputs.iter().map(|file| file.path.as_str()).collect();
        let gone = read.keys().find(|path| !paths.contains(*path)).map(|path| format!("{path} is gone"));
        Self { inputs, files: listed.files.clone(), to_compare, difference, gone }
    }

    /// Compares the content of the files whose modification times differ. Returns the first difference. Files that `source.where` excludes
    /// by their paths are not compared.
    pub(crate) async fn different_content(
        &self,
        ctx: &SessionContext,
        source: &job::Source,
    ) -> Result<Option<String>> {
        if self.to_compare.is_empty() {
            return Ok(None);
        }
        let left_out = files_left_out(ctx, source, &self.files).await?;
        let is_read = |(file, _): &&(Arc<SourceFile>, InputFile)| {
            left_out.binary_search_by(|other| other.path.cmp(&file.path)).is_err()
        };
        let compare = async |(file, was): (Arc<SourceFile>, InputFile)| -> Result<Option<String>> {
            let location = file.shown_location();
            let now = match was.crc32_bytes {
                Some(bytes) => checksum(ctx, &file, source, bytes).await?,
                None => None,
            };
            let Some((now, crc32)) = now.zip(was.crc32) else {
                return Ok(Some(format!(
                    "{location} was written again, and the run recorded no checksum to compare it with"
                )));
            };
            Ok((now != crc32).then(|| {
                format!("{location} has other content of the same size (its checksum is {now:08x} and was {crc32:08x})")
            }))
        };
        let compared = stream::iter(self.to_compare.iter().filter(is_read).cloned())
            .map(compare)
            .buffered(CONCURRENT_FILES);
        let mut different = std::pin::pin!(compared.try_filter_map(async |how| Ok::<_, Error>(how)));
        different.try_next().await
    }
}

/// Returns the current CRC-32 of the `bytes` bytes that a run of `source` reads from a file. Returns `None` if a run now reads a different
/// number of bytes.
async fn checksum(
    ctx: &SessionContext,
    file: &Arc<SourceFile>,
    source: &job::Source,
    bytes: u64,
) -> Result<Option<u32>> {
    if let Reading::ParquetScan = format_of(source.format).reading {
        let names = NeededColumns::new(source, std::slice::from_ref(file)).in_files;
        return ParquetFile::open(ctx, file).await?.checksum(&names, bytes).await;
    }
    if bytes != file.size() {
        return Ok(None);
    }
    let mut stored = file.stored(&ctx.runtime_env()).await?;
    let mut hasher = Hasher::new();
    while let Some(chunk) = stored.try_next().await? {
        hasher.update(&chunk);
    }
    Ok(Some(hasher.finalize()))
}
