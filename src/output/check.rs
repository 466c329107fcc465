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
    /// Its path inside the output.
    pub path: String,
    /// The difference.
    pub what: FileDifference,
}

/// The difference between a file and its entry in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileDifference {
    /// It does not exist.
    Gone {
        /// The size in the manifest.
        bytes: u64,
    },
    /// It has another size.
    Size {
        /// Its size.
        found: u64,
        /// The size in the manifest.
        bytes: u64,
    },
    /// It has other bytes.
    Crc32 {
        /// The CRC-32 of its bytes.
        found: u32,
        /// The CRC-32 in the manifest.
        crc32: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.what {
            FileDifference::Gone { bytes } => write!(f, "{path} is gone ({bytes} bytes in the manifest)"),
            FileDifference::Size { found, bytes } => {
                write!(f, "{path} has {found} bytes, but {bytes} in the manifest")
            }
            FileDifference::Crc32 { found, crc32 } => {
                write!(f, "{path} has the CRC-32 {found:08x}, but {crc32:08x} in the manifest")
            }
        }
    }
}

/// Those of `files` that are missing or have another size. Reads only sizes: one listing for each folder of an object
/// store.
///
/// # Errors
/// When the store does not answer, or a path leads out of the output.
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
            let folders: BTreeSet<&str> =
                files.iter().filter_map(|file| Some(file.path.rsplit_once('/')?.0)).collect();
            for folder in folders {
                for meta in output.list(folder).await? {
                    found.extend(output.inside(&meta.location).map(|inside| (inside, meta.size)));
                }
            }
        }
    }
    let mut damaged = Vec::new();
    for file in files {
        let bytes = file.bytes;
        let what = match found.get(&file.path) {
            None => FileDifference::Gone { bytes },
            Some(&found) if found != bytes => FileDifference::Size { found, bytes },
            Some(_) => continue,
        };
        damaged.push(Damage { path: file.path.clone(), what });
    }
    Ok(damaged)
}

/// Is called after each file with the bytes that were read so far, and those of all files.
pub(crate) type ReadProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A [`ReadProgress`] that does nothing.
pub(crate) fn unseen(_done: u64, _all: u64) {}

/// Those of `files` that are missing, or have another size or other bytes. Reads every byte.
///
/// # Errors
/// When the store does not answer, or a path leads out of the output.
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
            // In a task of its own, so that several cores compute.
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
    let what = match output.digest(&file.path).await? {
        None => FileDifference::Gone { bytes: file.bytes },
        Some((_, found)) if found != file.crc32 => FileDifference::Crc32 { found, crc32: file.crc32 },
        Some(_) => return Ok(None),
    };
    Ok(Some(Damage { path: file.path.clone(), what }))
}

/// Refuses a manifest that names files outside the output: it was changed.
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

/// The part of the files of a result that is compared with its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckDepth {
    /// Their sizes.
    Sizes,
    /// Every byte.
    Bytes,
}

/// The manifest of the result in `output` and its damaged files; `None` if the output holds no finished result. `depth`
/// chooses how thoroughly the files of a manifest are compared. If another run replaces the result meanwhile, the new
/// one is checked.
///
/// # Errors
/// As [`Layout::manifest`], [`sizes`], [`bytes`] and `depth`.
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
        // The files of a result that was replaced are gone, and nothing is damaged.
        if damage.is_empty() || output.manifest().await?.as_ref() == Some(&manifest) {
            return Ok(Some((manifest, damage)));
        }
    }
}

/// The error for damaged files of a finished output.
pub(crate) fn damaged(output: &Layout, damaged: &[Damage]) -> Error {
    let more = match damaged.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more damaged files", n - 1),
    };
    let first = damaged.first().map(ToString::to_string).unwrap_or_default();
    Error::input(format!(
        "the result in {output} is damaged: {first}{more}: bring the files back, or make the result again with `run \
         --overwrite`, or with `apply` in another folder (`resemblance verify {output}` names every damaged file)",
        output = output.shown()
    ))
}
