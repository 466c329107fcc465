//! Folders for spills. A folder belongs to this program if its lock file is marked. It is dead if no process holds the lock.
//!
//! ```text
//! PARENT/resemblance-spill-PID-RANDOM/lock                   marked, and locked by the process that made the folder while it lives
//!                                    /resemblance-rows/...  spilled rows
//! ```
//!
//! Other users cannot read a folder, and folders of other users are never removed.
//!
//! A process removes its folders when it ends. If it is killed, the system releases its locks. The next process that spills to the same
//! parent removes all marked and unlocked folders. A lock file gets its name only after it is marked and locked, so other processes do
//! not find it earlier. An empty folder remains if a process is killed just before it renames its lock file, or just after it removes the
//! file.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::{SpillFile, TempFileFactory};
use parking_lot::Mutex;

use crate::error::{Context, Error};
use crate::output::ownership;

const PREFIX: &str = "resemblance-spill-";
const LOCK: &str = "lock";

/// The folder for spilled rows.
const FILES: &str = "resemblance-rows";

/// The name of the lock file before it is locked.
const NEW_LOCK: &str = "new-lock";

static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A spill folder of this process. Dropping the value removes the folder and its files.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    folder: PathBuf,
    files: PathBuf,
    /// The lock file, which is locked if the file system supports locks.
    lock: Option<File>,
}

impl SpillFolder {
    /// Creates a folder in `parent` that other users cannot read, since spills contain texts of documents.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(parent)?;
        let lock = lock(folder.path())?;
        std::fs::create_dir(folder.path().join(FILES))?;
        let path = folder.keep();
        live(|live| live.insert(path.clone()));
        Ok(Self { files: path.join(FILES), folder: path, lock: Some(lock) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.files
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        live(|live| live.remove(&self.folder));
        if let Err(error) = remove(&self.folder, self.lock.take()) {
            tracing::debug!(%error, folder = %self.folder.display(), "a folder for spills was not removed");
        }
    }
}

fn live<T>(change: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    change(&mut LIVE.lock())
}

/// Locks a new folder. Without locks in the file system, no process can lock it, so it never counts as dead.
fn lock(folder: &Path) -> io::Result<File> {
    let new = folder.join(NEW_LOCK);
    let mut lock = OpenOptions::new().write(true).create_new(true).open(&new)?;
    lock.write_all(ownership::FOLDER.as_bytes())?;
    // No other process knows this file yet.
    let _ = lock.try_lock();
    std::fs::rename(new, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes the folders of killed processes in `parent`, and returns their number. Keeps folders that cannot be read or removed.
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

/// Removes the folder if it belongs to this program and is dead. Returns whether it was removed.
fn sweep_one(folder: &Path) -> io::Result<bool> {
    let path = folder.join(LOCK);
    if !is_own(folder)? || !ownership::marks_folder(&path) {
        return Ok(false);
    }
    let lock = OpenOptions::new().write(true).open(&path)?;
    match lock.try_lock() {
        // Before this process got the lock, the owner may have removed the lock file.
        Ok(()) if ownership::marks_folder(&path) => remove(folder, Some(lock)).map(|()| true),
        _ => Ok(false),
    }
}

/// Whether a folder belongs to this user and is not a link.
#[cfg(unix)]
fn is_own(folder: &Path) -> io::Result<bool> {
    let found = std::fs::symlink_metadata(folder)?;
    // The owner of a new unnamed file is this user.
    Ok(found.is_dir() && found.uid() == tempfile::tempfile()?.metadata()?.uid())
}

/// Whether a folder is not a link. Systems other than Unix separate the folders of users.
#[cfg(not(unix))]
fn is_own(folder: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(folder)?.is_dir())
}

/// Removes the folder, and its lock file last, so that the folder still counts as dead if the process is killed in between. Follows no
/// link to a folder. A folder that another user puts in its place contains no `resemblance-rows`.
fn remove(folder: &Path, lock: Option<File>) -> io::Result<()> {
    ignore_missing(std::fs::remove_dir_all(folder.join(FILES)))?;
    let removed = std::fs::remove_dir_all(folder);
    drop(lock);
    ignore_missing(removed)
}

/// Ignores the error if another process has already removed the file.
fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes every spill folder of this process at its end, even if the folder is still in use.
pub(crate) fn remove_all() {
    for folder in live(std::mem::take) {
        if let Err(error) = remove(&folder, None) {
            tracing::debug!(%error, folder = %folder.display(), "a folder for spills was not removed");
        }
    }
}

pub(super) struct Spills {
    parent: PathBuf,
    current: Mutex<Option<Current>>,
}

/// The fields are dropped in this order, so that no file is open when the folder is removed.
struct Current {
    manager: Arc<DiskManager>,
    folder: SpillFolder,
}

impl Spills {
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
            let mut current = self.current.lock();
            // The system may remove old temporary folders.
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

/// Returns the parent folder for spills: `folder`, which is created if it is missing, or the system's temporary folder.
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

    #[cfg(unix)]
    #[test]
    fn a_folder_of_another_user_stays_and_links_are_not_followed() {
        use std::os::unix::fs::{chown, symlink};
        let parent = tempfile::tempdir().unwrap();
        let at = |path: &str| parent.path().join(path);
        for folder in ["resemblance-spill-1-dead", "resemblance-spill-2-foreign", "mine"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join(LOCK), ownership::FOLDER).unwrap();
        }
        for link in ["1-dead/resemblance-rows", "1-dead/more", "3-link"] {
            symlink(at("mine"), at(&format!("{PREFIX}{link}"))).unwrap();
        }
        // Only root can change the owner of a folder. For other users, the folder `/` is foreign.
        let given = chown(at("resemblance-spill-2-foreign"), Some(4_711), None).is_ok();
        assert!(given || !is_own(Path::new("/")).unwrap());
        assert_eq!(sweep(parent.path()), if given { 1 } else { 2 });
        assert!(!at("resemblance-spill-1-dead").exists() && at("mine/lock").exists());
        assert_eq!(at("resemblance-spill-2-foreign/lock").exists(), given);
        assert!(at("resemblance-spill-3-link").is_symlink());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = parent.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        // One process was killed while it spilled, and another while it was swept.
        put("resemblance-spill-1-dead/lock", ownership::FOLDER);
        put("resemblance-spill-1-dead/datafusion-x/spill", "text");
        put("resemblance-spill-2-half/lock", ownership::FOLDER);
        // Folders that do not belong to this program, with any name.
        put("resemblance-spill-3-mine/notes", "text");
        put("resemblance-spill-4-mine/lock", "text");
        put("resemblance-spill-5-mine/lock/lock", ownership::FOLDER);
        std::fs::create_dir(parent.path().join("resemblance-spill-6-new")).unwrap();
        put("resemblance-spills/lock", ownership::FOLDER);
        put("other-spill-1/lock", ownership::FOLDER);
        put("resemblance-spill-file", "text");
        assert_eq!(sweep(parent.path()), 2);
        let mut left = names(parent.path());
        left.sort();
        let mine = ["3-mine", "4-mine", "5-mine", "6-new", "file"].map(|name| format!("{PREFIX}{name}"));
        let (before, after) = (["other-spill-1".to_owned()], ["resemblance-spills".to_owned()]);
        assert_eq!(left, [&before[..], &mine, &after].concat());
    }

    /// Many processes create folders while others look for dead folders. No folder is swept, and each is locked when it can be found.
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
                assert!(ownership::marks_folder(&folder.folder.join(LOCK)));
                assert_eq!(names(folder.path()), [""; 0]);
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
