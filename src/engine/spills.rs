//! Folders for spills: ours by the mark in their lock, and dead once nobody holds it.
//!
//! ```text
//! PARENT/resemblance-spill-PID-RANDOM/lock     marked, and locked by the process that made the folder, as long as it lives
//!                                    /...      what is spilled
//! ```
//!
//! A process removes its folders when it ends. One that is killed cannot, but the system frees its locks: the next
//! process that spills to the same parent removes what it finds marked and unlocked. A lock has its name when it is marked and
//! locked, so nobody finds it in between. A process that is killed just before that, or just after it removed its lock, leaves a
//! folder that holds no spills, and that stays.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::{SpillFile, TempFileFactory};

use crate::error::{Context, Error};
use crate::output::ours;

/// How the name of a folder starts: where to look for marks.
const PREFIX: &str = "resemblance-spill-";
const LOCK: &str = "lock";

/// The lock before it is one.
const NEW_LOCK: &str = "new-lock";

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
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(parent)?;
        let lock = lock(folder.path())?;
        let path = folder.keep();
        live(|live| live.insert(path.clone()));
        Ok(Self { path, lock: Some(lock) })
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

/// Locks a new folder. A file system without locks lets nobody else hold the lock either, so the folder is never taken for dead.
fn lock(folder: &Path) -> io::Result<File> {
    let new = folder.join(NEW_LOCK);
    let mut lock = OpenOptions::new().write(true).create_new(true).open(&new)?;
    lock.write_all(ours::FOLDER.as_bytes())?;
    // Nobody else knows the file yet.
    let _ = lock.try_lock();
    std::fs::rename(new, folder.join(LOCK))?;
    Ok(lock)
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

/// Removes the folder if it is ours and dead.
fn sweep_one(folder: &Path) -> io::Result<bool> {
    let path = folder.join(LOCK);
    if !ours::marks_folder(&path) {
        return Ok(false);
    }
    let lock = OpenOptions::new().write(true).open(&path)?;
    match lock.try_lock() {
        // Its own process may have removed it between the two looks.
        Ok(()) if ours::marks_folder(&path) => remove(folder, Some(lock)).map(|()| true),
        _ => Ok(false),
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
        let put = |path: &str, text: &str| {
            let path = parent.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        // As killed while it spilled, and as killed while it was swept.
        put("resemblance-spill-1-dead/lock", ours::FOLDER);
        put("resemblance-spill-1-dead/datafusion-x/spill", "text");
        put("resemblance-spill-2-half/lock", ours::FOLDER);
        // Somebody's folders, whatever their names are.
        put("resemblance-spill-3-mine/notes", "text");
        put("resemblance-spill-4-mine/lock", "text");
        put("resemblance-spill-5-mine/lock/lock", ours::FOLDER);
        std::fs::create_dir(parent.path().join("resemblance-spill-6-new")).unwrap();
        put("resemblance-spills/lock", ours::FOLDER);
        put("other-spill-1/lock", ours::FOLDER);
        put("resemblance-spill-file", "text");
        assert_eq!(sweep(parent.path()), 2);
        let mut left = names(parent.path());
        left.sort();
        let mine = ["3-mine", "4-mine", "5-mine", "6-new", "file"].map(|name| format!("{PREFIX}{name}"));
        let (before, after) = (["other-spill-1".to_owned()], ["resemblance-spills".to_owned()]);
        assert_eq!(left, [&before[..], &mine, &after].concat());
    }

    /// Many processes make folders while others look for dead ones: none is swept, and each is locked when it can be found.
    #[test]
    fn a_new_folder_is_never_taken_for_a_dead_one() {
        let parent = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let swept = std::thread::scope(|scope| {
            let sweeping = scope.spawn(|| {
                let (mut swept, mut looked) = (0, 0);
                while !done.load(std::sync::atomic::Ordering::Relaxed) || looked == 0 {
                    swept += sweep(parent.path());
                    looked += 1;
                }
                swept
            });
            for _ in 0..200 {
                let folder = SpillFolder::create(parent.path()).unwrap();
                assert!(ours::marks_folder(&folder.path().join(LOCK)));
                assert_eq!(names(folder.path()), [LOCK]);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            sweeping.join().unwrap()
        });
        assert_eq!((swept, names(parent.path()).len()), (0, 0));
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
