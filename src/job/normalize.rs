//! The normalisation steps of a job file, which may name a file of stop words.

use super::{Normalize, setting_file};
use crate::error::{Error, Result};
use crate::kernel::text::normalize::stop_word_lists::{FILE, STEP, list};

/// The most bytes of a list, since it is sent with every task of a run.
const MAX_BYTES: u64 = 1 << 20;

impl Normalize {
    /// Parses a step of a job file: its name, or the path of a file of stop words, which is read.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) for an unknown step, and for a file that cannot be read or is not a list
    /// of words: the text after the key's name.
    pub(super) fn read(name: &str) -> Result<Self> {
        match name.strip_prefix(STEP).and_then(|list| list.strip_prefix(FILE)) {
            Some(path) => read(path).map(Normalize::StopWordList),
            None => name.parse().map_err(|e| Error::job(format!("has a wrong step: {e}"))),
        }
    }
}

/// The list in a file of this machine: UTF-8, one word a line; empty lines are ignored.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if it cannot be read or is not such a list: the text after the key's name.
fn read(path: &str) -> Result<String> {
    const WHAT: &str = "a file of stop words that";
    let wrong = |fault: &str| Error::job(format!("names {path:?}, {WHAT} {fault}"));
    if path.is_empty() {
        return Err(Error::job(format!("names no file: expected a path behind {STEP}{FILE}")));
    }
    let text = setting_file::read(path, WHAT, MAX_BYTES, "convert it")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut of_line = line.split_whitespace();
        words.extend(of_line.next());
        if of_line.next().is_some() {
            return Err(wrong(&format!("has several words in line {number}: expected one per line")));
        }
    }
    list(words.into_iter()).map_err(|e| wrong(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step may be parsed on another machine than the one that has the file.
    #[test]
    fn only_job_files_read_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "the\na\n").unwrap();
        let name = format!("stop-words:file={}", file.path().display());
        assert_eq!(Normalize::read(&name).unwrap(), Normalize::StopWordList("a the".into()));
        let error = name.parse::<Normalize>().unwrap_err().to_string();
        assert!(error.contains("shingle.normalize") && error.contains("stop-words:list="), "{error}");
    }

    #[test]
    fn a_file_has_one_word_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_string_lossy().into_owned()
        };
        assert_eq!(read(&file("good", b"\xEF\xBB\xBFthe\r\n\n An \nthe\n")).unwrap(), "an the");
        for (path, fault) in [
            (file("empty", b"\n \n"), "holds no words"),
            (file("latin", b"caf\xE9\n"), "is not UTF-8"),
            (file("two", b"the\nof the\n"), "line 2"),
            (file("comma", b"the\na,b\n"), "comma"),
            (file("large", &vec![b'a'; 1 + MAX_BYTES as usize]), "larger than"),
            (folder.path().join("missing").to_string_lossy().into_owned(), "cannot be read"),
        ] {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("{path:?}")) && error.contains(fault), "{error}");
        }
        assert!(read("").unwrap_err().to_string().contains("stop-words:file="));
    }
}
