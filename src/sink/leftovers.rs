//! What dead runs leave in an output: files that no manifest names.

use std::collections::BTreeSet;
use std::path::{Path as FsPath, PathBuf};

use object_store::path::Path;

use super::Layout;
use super::layout::{WORK, is_part};
use super::manifest::{Run, Stage};
use crate::error::Result;
use crate::schema::Table;

/// A file that nobody needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its size.
    pub bytes: u64,
    pub(super) place: Place,
}

/// Where a leftover is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// An object of the output's store.
    Object(Path),
    /// The beginning of a file, which the store of this machine hides.
    Staged(PathBuf),
}

/// The files of an output that this program wrote and no manifest names, in order: parts of attempts that died, and all
/// that lies between the steps of a finished output. Files of other names are none.
///
/// # Errors
/// When the store does not answer, or a manifest is of another version: then nobody knows what it names.
pub async fn leftovers(output: &Layout) -> Result<Vec<Leftover>> {
    let mut found = Vec::new();
    let mut kept = BTreeSet::new();
    let work = output.list(WORK).await?;
    let is_stage = |path: &Path| stage_of(output, path).is_some();
    match output.read::<Run>("manifest.json").await? {
        Some(run) => kept.extend(run.paths().into_iter().map(|inside| output.path(inside))),
        None => {
            for name in work.iter().filter_map(|meta| stage_of(output, &meta.location)) {
                let inside = format!("{WORK}/{name}");
                // One that is gone by now belonged to a run that ended meanwhile.
                if let Some(stage) = output.read::<Stage>(&inside).await? {
                    kept.insert(output.path(&inside));
                    kept.extend(stage.files.iter().map(|file| output.path(&file.path)));
                }
            }
        }
    }
    let mut listed = work;
    for table in Table::ALL {
        listed.extend(output.list(table.name()).await?);
    }
    for meta in listed {
        let ours = is_part(&meta.location) || is_stage(&meta.location);
        if ours && !kept.contains(&meta.location) {
            found.push(Leftover { bytes: meta.size, place: Place::Object(meta.location) });
        }
    }
    if let Some(folder) = output.folder() {
        let folders = Table::ALL.map(Table::name).into_iter().chain([WORK]).map(|name| folder.join(name));
        found.extend(staged_in(folder));
        found.extend(folders.flat_map(|folder| staged(&folder)));
    }
    Ok(found)
}

/// The file name of a step's manifest; none for other paths.
fn stage_of(output: &Layout, path: &Path) -> Option<String> {
    let name = path.filename()?;
    (name.ends_with(".json") && *path == output.path(&format!("{WORK}/{name}"))).then(|| name.to_owned())
}

/// Beginnings of files under a folder of this machine, to any depth.
pub(super) fn staged(folder: &FsPath) -> Vec<Leftover> {
    let mut found = staged_in(folder);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.extend(staged(&entry.path()));
        }
    }
    found
}

/// Beginnings of files right in a folder of this machine: the name of a file of ours, `#` and a number.
fn staged_in(folder: &FsPath) -> Vec<Leftover> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some((whole, number)) = name.rsplit_once('#') else { continue };
        let ours = whole.starts_with("part-") && whole.ends_with(".parquet")
            || whole == "manifest.json"
            || whole.ends_with(".json") && folder.ends_with(WORK);
        if ours && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
            let bytes = entry.metadata().map_or(0, |meta| meta.len());
            found.push(Leftover { bytes, place: Place::Staged(entry.path()) });
        }
    }
    found.sort_by(|a, b| format!("{:?}", a.place).cmp(&format!("{:?}", b.place)));
    found
}
