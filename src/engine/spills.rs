//! Folders for spills: ours by their name, and dead once nobody holds their lock.
//!
//! ```text
//! PARENT/resemblance-spill-PID-RANDOM/lock     locked by the process that made the folder, as long as it lives
//!                                    /...      what is spilled
//! ```
//!
//! A process removes its folders when it ends. One that is killed cannot, but the system frees its locks: the next
//! process that spills to the same parent removes what it finds unlocked.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::{SpillFile, TempFileFactory};

use crate::error::{Context, Error};

/// How the name of a folder starts. No other program makes such folders.
const PREFIX: &str = "resemblance-spill-";
const LOCK: &str = "lock";

/// Times that a folder is made again because another process took it for a dead one before it was locked.
const ATTEMPTS: usize = 100;

/// The folders of this process.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A folder of this process, removed with all that it holds when it is dropped.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    path: PathBuf,
    /// Locked, where the file system has locks.
    lock: Option<File>,
}

impl SpillFolder {
    /// Makes a folder in `parent`, for this user's eyes alone: spills hold texts of documents.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        for _ in 0..ATTEMPTS {
            let mut builder = tempfile::Builder::new();
            builder.prefix(&prefix);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let path = builder.tempdir_in(parent)?.keep();
            match claim(&path) {
                Ok(Some(lock)) => {
                    live(|live| live.insert(path.clone()));
                    return Ok(Self { path, lock: Some(lock) });
                }
                Ok(None) => {}
                Err(e) => {
                    let _ = std::fs::remove_dir_all(&path);
                    return Err(e);
                }
            }
        }
        Err(io::Error::other("every folder for spills that was made there was removed at once"))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        live(|live| live.remove(&self.path));
        if let Err(error) = remove(&self.path, self.lock.take()) {
            tracing::debug!(%error, folder = %self.path.display(), "a folder for spills was not removed");
        }
    }
}

fn live<T>(change: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    change(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The lock of a new folder; `None` if another process thought it dead and removed it.
fn claim(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // Who removes a folder holds its lock: from now on nobody does, but somebody may have before.
        Ok(()) => Ok(path.exists().then_some(lock)),
        // No locks here, and so nobody can hold one: the folder is never taken for dead.
        Err(TryLockError::Error(_)) => Ok(Some(lock)),
    }
}

/// Removes what processes that were killed left in `parent`. Returns how many folders that were.
///
/// What cannot be read or removed, such as another user's, stays.
pub(crate) fn sweep(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let ours = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.file_type().is_ok_and(|t| t.is_dir())
    };
    let mut swept = 0;
    for folder in entries.flatten().filter(ours).map(|entry| entry.path()) {
        match sweep_one(&folder) {
            Ok(true) => {
                tracing::info!(folder = %folder.display(), "removed the spills of a run that was killed");
                swept += 1;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, folder = %folder.display(), "spills of another run were not removed");
            }
        }
    }
    swept
}

/// Removes the folder if it is dead.
fn sweep_one(folder: &Path) -> io::Result<bool> {
    let path = folder.join(LOCK);
    match std::fs::symlink_metadata(&path) {
        Ok(lock) if lock.is_file() => {}
        Ok(_) => return Ok(false),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            // The lock is the first file of a folder and the last that goes. One that is empty may be new: the call
            // removes it only if it still is.
            return match std::fs::read_dir(folder)?.next() {
                None => std::fs::remove_dir(folder).map(|()| false),
                Some(_) => remove(folder, None).map(|()| true),
            };
        }
        Err(e) => return Err(e),
    }
    let lock = OpenOptions::new().write(true).open(&path)?;
    match lock.try_lock() {
        Ok(()) => remove(folder, Some(lock)).map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Removes the folder, its lock after everything else: whoever is interrupted here leaves a dead folder, not a lost one.
fn remove(folder: &Path, lock: Option<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        let removed = match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
        gone(removed)?;
    }
    gone(std::fs::remove_file(folder.join(LOCK)))?;
    drop(lock);
    gone(std::fs::remove_dir(folder))
}

/// What somebody else removed is removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes every folder of this process, whoever still uses it: for the end of the process.
pub(crate) fn remove_all() {
    for folder in live(std::mem::take) {
        if let Err(error) = remove(&folder, None) {
            tracing::debug!(%error, folder = %folder.display(), "a folder for spills was not removed");
        }
    }
}

/// Makes spill files, in a folder that is there from the first of them on.
pub(super) struct Spills {
    parent: PathBuf,
    current: Mutex<Option<Current>>,
}

/// Dropped in this order.
struct Current {
    manager: Arc<DiskManager>,
    folder: SpillFolder,
}

impl Spills {
    /// Spill files somewhere in `parent`.
    pub(super) fn new(parent: PathBuf) -> Self {
        Self { parent, current: Mutex::default() }
    }

    fn begin(&self) -> crate::error::Result<Current> {
        let folder = SpillFolder::create(&self.parent).context(|| {
            let parent = self.parent.display();
            format!("no folder for spills can be created in {parent}: set engine.spill to another folder")
        })?;
        let mode = DiskManagerMode::Directories(vec![folder.path().to_owned()]);
        let manager = DiskManagerBuilder::default().with_max_temp_directory_size(u64::MAX).with_mode(mode);
        Ok(Current { manager: Arc::new(manager.build()?), folder })
    }
}

impl TempFileFactory for Spills {
    fn create_temp_file(&self, description: &str) -> DfResult<Arc<dyn SpillFile>> {
        let manager = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            // Systems clean up their folders for temporary files, and may find ours idle for too long.
            match current.as_ref().filter(|current| current.folder.path().is_dir()) {
                Some(current) => Arc::clone(&current.manager),
                None => {
                    let new = self.begin().map_err(DataFusionError::from)?;
                    Arc::clone(&current.insert(new).manager)
                }
            }
        };
        manager.create_tmp_file(description)
    }
}

/// The folder for `spills` as a job or a role names it, made if need be.
///
/// # Errors
/// When it cannot be made.
pub(super) fn parent(folder: Option<PathBuf>) -> crate::error::Result<PathBuf> {
    let Some(folder) = folder else { return Ok(std::env::temp_dir()) };
    std::fs::create_dir_all(&folder).map_err(|e| {
        Error::input(format!("cannot create the folder for spills {}", folder.display())).because(e)
    })?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_folder_lives_as_long_as_its_lock_is_held() {
        let parent = tempfile::tempdir().unwrap();
        let folder = SpillFolder::create(parent.path()).unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/spill"), "text").unwrap();
        assert_eq!(sweep(parent.path()), 0);
        assert!(folder.path().join("inner/spill").exists());
        drop(folder);
        assert_eq!(names(parent.path()), [""; 0]);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = parent.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        };
        // As killed while it spilled, and as killed while it was swept.
        put("resemblance-spill-1-dead/lock");
        put("resemblance-spill-1-dead/datafusion-x/spill");
        put("resemblance-spill-2-half/datafusion-x/spill");
        put("resemblance-spills/lock");
        put("other-spill-1/lock");
        put("resemblance-spill-file");
        std::fs::create_dir(parent.path().join("resemblance-spill-3-new")).unwrap();
        assert_eq!(sweep(parent.path()), 2);
        let mut left = names(parent.path());
        left.sort();
        assert_eq!(left, ["other-spill-1", "resemblance-spill-file", "resemblance-spills"]);
    }

    #[test]
    fn a_folder_that_was_cleaned_up_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let spills = Spills::new(parent.path().to_owned());
        assert_eq!(names(parent.path()), [""; 0], "nothing was spilled yet");
        let first = spills.create_temp_file("test").unwrap();
        assert!(first.path().unwrap().starts_with(parent.path()));
        std::fs::remove_dir_all(parent.path().join(&names(parent.path())[0])).unwrap();
        assert!(spills.create_temp_file("test").unwrap().path().unwrap().exists());
        assert_eq!(names(parent.path()).len(), 1);
        drop(spills);
        assert_eq!(names(parent.path()), [""; 0]);
    }
}
