//! Compares the files of a result with its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Layout;
use super::manifest::{File, Run};
use crate::error::{Error, Result};

/// The number of files that are read at the same time.
const CONCURRENT_FILES: usize = 8;

/// A file that differs from its entry in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    path: String,
    difference: String,
}

impl Damage {
    /// Compares a file with its size in the store. Returns `None` if the sizes are equal. `size` is `None` if the file is missing.
    pub(super) fn from_size(file: &File, size: Option<u64>) -> Option<Self> {
        let difference = match size {
            None => format!("is gone ({} bytes in the manifest)", file.bytes),
            Some(size) if size != file.bytes => {
                format!("has {size} bytes, but {} in the manifest", file.bytes)
            }
            Some(_) => return None,
        };
        Some(Self { path: file.path.clone(), difference })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.difference)
    }
}

/// Returns the files that are missing or have a different size. Reads only metadata. In an object store, this takes one listing per folder.
pub(crate) async fn sizes(output: &Layout, files: &[&File]) -> Result<Vec<Damage>> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for file in files {
        lies_inside(output, file)?;
    }
    match output.folder() {
        Some(folder) => {
            for file in files {
                if let Ok(meta) = std::fs::metadata(folder.join(&file.path))
                    && meta.is_file()
                {
                    found.insert(file.path.clone(), meta.len());
                }
            }
        }
        None => {
            let folders =
                files.iter().map(|file| file.path.rsplit_once('/').map_or("", |(folder, _)| folder));
            let folders: BTreeSet<&str> = folders.collect();
            // The listing of the root contains all folders.
            let folders = if folders.contains("") { BTreeSet::from([""]) } else { folders };
            for folder in folders {
                for meta in output.list(folder).await? {
                    found.extend(output.inside(&meta.location).map(|inside| (inside, meta.size)));
                }
            }
        }
    }
    Ok(files.iter().filter_map(|file| Damage::from_size(file, found.get(&file.path).copied())).collect())
}

/// A callback that is called after each file with the number of bytes read so far and the total size of all files.
pub(crate) type ReadProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A callback that ignores the progress.
pub(crate) fn unseen(_done: u64, _all: u64) {}

/// Returns the files that are missing or have a different size or different bytes. Reads every byte.
pub(crate) async fn bytes(output: &Layout, files: &[&File], seen: ReadProgress<'_>) -> Result<Vec<Damage>> {
    let mut damaged = sizes(output, files).await?;
    let bad: BTreeSet<&str> = damaged.iter().map(|damage| damage.path.as_str()).collect();
    let whole: Vec<File> =
        files.iter().filter(|file| !bad.contains(file.path.as_str())).map(|file| (*file).clone()).collect();
    let sizes: Vec<u64> = whole.iter().map(|file| file.bytes).collect();
    let (mut done, all) = (0, sizes.iter().sum());
    let checked: Vec<Option<Damage>> = stream::iter(whole)
        .map(|file| {
            let output = output.clone();
            // Each file is read in its own task, so that several cores compute checksums.
            let task = tokio::spawn(async move { checksum(&output, &file).await });
            async move { task.await.map_err(|e| Error::bug("a file was not read to its end").because(e))? }
        })
        .buffered(CONCURRENT_FILES)
        .zip(stream::iter(sizes))
        .map(|(checked, bytes)| {
            done += bytes;
            seen(done, all);
            checked
        })
        .try_collect()
        .await?;
    damaged.extend(checked.into_iter().flatten());
    damaged.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(damaged)
}

async fn checksum(output: &Layout, file: &File) -> Result<Option<Damage>> {
    Ok(match output.digest(&file.path).await? {
        None => Damage::from_size(file, None),
        Some((_, crc32)) if crc32 != file.crc32 => {
            let difference = format!("has the CRC-32 {crc32:08x}, but {:08x} in the manifest", file.crc32);
            Some(Damage { path: file.path.clone(), difference })
        }
        Some(_) => None,
    })
}

/// Refuses a manifest that lists a file outside the output. This program never writes such a manifest.
fn lies_inside(output: &Layout, file: &File) -> Result<()> {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    if file.path.split('/').all(plain) {
        return Ok(());
    }
    Err(Error::input(format!(
        "a manifest of {} names the file {:?}, which is not inside the output: another program changed the manifest; run the \
         job again with --overwrite",
        output.shown(),
        file.path
    )))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckDepth {
    Sizes,
    Bytes,
}

/// Returns the manifest of the result in `output` and its damaged files, or `None` if there is no finished result. `depth` decides how much
/// of each file is compared. If another run replaces the result in the meantime, the new result is checked.
pub(crate) async fn result(
    output: &Layout,
    depth: impl Fn(&Run) -> Result<CheckDepth>,
    seen: ReadProgress<'_>,
) -> Result<Option<(Run, Vec<Damage>)>> {
    loop {
        let Some(manifest) = output.manifest().await? else { return Ok(None) };
        let files: Vec<&File> = manifest.files().collect();
        let damage = match depth(&manifest)? {
            CheckDepth::Sizes => sizes(output, &files).await?,
            CheckDepth::Bytes => bytes(output, &files, seen).await?,
        };
        // A result that was just replaced is not damaged, although its files are missing.
        if damage.is_empty() || output.manifest().await?.as_ref() == Some(&manifest) {
            return Ok(Some((manifest, damage)));
        }
    }
}

pub(crate) fn damaged(output: &Layout, damaged: &[Damage]) -> Error {
    let more = match damaged.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more damaged files", n - 1),
    };
    let first = damaged.first().map(ToString::to_string).unwrap_or_default();
    Error::input(format!(
        "the result in {output} is damaged: {first}{more}: bring the files back, or repeat the run with --overwrite or `apply` in another \
         folder (`resemblance verify {output}` names every damaged file)",
        output = output.shown()
    ))
}
