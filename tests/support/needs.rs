//! Requirements of tests besides the repository: data, programs, permissions. A missing one is reported and the test skipped, or
//! the test fails if it is strict.

use std::ffi::OsString;
use std::io::Write;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// `.ci/run` installs it, or the rest of its kind is there: with `RESEMBLANCE_STRICT=1`, the test fails without it.
    Expected,
    /// It is a matter of the machine, such as the permission to mount a file system: the test is skipped without it.
    Optional,
}

/// `found`, after a report if it is missing. The report goes past the capture of libtest, which shows it also for tests that pass.
pub fn needs<T>(found: Option<T>, what: impl Display, presence: Presence) -> Option<T> {
    if found.is_none() {
        let strict = std::env::var("RESEMBLANCE_STRICT").is_ok_and(|value| value == "1");
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        assert!(!(strict && presence == Presence::Expected), "missing, and RESEMBLANCE_STRICT=1: {what}");
        std::io::stderr().write_all(format!("SKIPPED: {test}: missing: {what}\n").as_bytes()).unwrap();
    }
    found
}

/// The data sets that every `../shared/data` has; a user may add others, such as 20 Newsgroups.
const DATA: [&str; 2] = ["reuters21578", "amazon-books"];

/// A file or folder of real data. Expected if the machine has the folder of data at all.
pub fn real_data(name: &str) -> Option<PathBuf> {
    let folder = repository("../shared/data");
    let expected = folder.is_dir() && DATA.iter().any(|data| name.starts_with(data));
    let presence = if expected { Presence::Expected } else { Presence::Optional };
    let path = folder.join(name);
    needs(path.exists().then_some(&path), path.display(), presence).cloned()
}

/// Python 3 with `modules`, separated by commas: that of RESEMBLANCE_PYTHON, where `.ci/run` installs them, or of PATH.
pub fn python(modules: &str) -> Option<Command> {
    let named = std::env::var_os("RESEMBLANCE_PYTHON");
    let presence = if named.is_some() { Presence::Expected } else { Presence::Optional };
    let program = named.unwrap_or_else(|| OsString::from("python3"));
    let has_modules = Command::new(&program).args(["-c", &format!("import {modules}")]).output();
    let found = has_modules.is_ok_and(|output| output.status.success());
    let what = format!("{} with the modules {modules}", program.display());
    needs(found.then(|| Command::new(&program)), what, presence)
}

/// Garage, the S3 server: the program that RESEMBLANCE_GARAGE names, or `garage` in PATH.
pub fn garage() -> Option<PathBuf> {
    let named = std::env::var_os("RESEMBLANCE_GARAGE").map(PathBuf::from);
    let presence = if named.is_some() { Presence::Expected } else { Presence::Optional };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&path).map(|folder| folder.join("garage"));
    let found = match named {
        Some(program) => Some(program).filter(|program| program.is_file()),
        None => in_path().find(|program| program.is_file()),
    };
    needs(found, "the program `garage`, in PATH or in RESEMBLANCE_GARAGE", presence)
}

/// Whether a command succeeds, which shows that this process may do what the command does.
pub fn permitted(command: &[&str], what: &str) -> bool {
    let output = Command::new(command[0]).args(&command[1..]).output();
    let works = output.is_ok_and(|output| output.status.success());
    needs(works.then_some(()), what, Presence::Optional).is_some()
}
