//! Stop words: named lists, and those of the user.
//!
//! A list of the user is part of the job as its words, lower-cased, sorted and each once, with spaces between them. So
//! no machine that runs a part of the job needs the file, and two lists of the same words are equal.

use std::collections::BTreeSet;

use super::setting_file;
use crate::error::{Error, Result};

/// The prefix of the step's name.
pub(super) const STEP: &str = "stop-words:";
/// The prefix of a list of words.
pub(super) const LIST: &str = "list=";
/// The prefix of the path of a file of words, one a line.
pub(super) const FILE: &str = "file=";

/// The English list of scikit-learn (`ENGLISH_STOP_WORDS`), which goes back to the Glasgow Information Retrieval Group.
const SCIKIT_LEARN_EN: &str = "scikit-learn-en";
const SCIKIT_LEARN_EN_WORDS: &str = include_str!("stop_words/scikit_learn_en.txt");

/// The most bytes of a list, since it is sent with every task of a run.
const MAX_BYTES: u64 = 1 << 20;

/// The words of the list `name`: of a language, by its ISO 639-1 code, or of a program.
pub(crate) fn named(name: &str) -> Option<Vec<&'static str>> {
    if name == SCIKIT_LEARN_EN {
        return Some(SCIKIT_LEARN_EN_WORDS.split_whitespace().collect());
    }
    stop_words::lookup(name).filter(|_| is_language(name)).map(<[_]>::to_vec)
}

fn is_language(code: &str) -> bool {
    code.len() == 2
}

/// The names of the lists: languages in their order, then programs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let languages = stop_words::available_languages().iter().copied().filter(|code| is_language(code));
    languages.chain([SCIKIT_LEARN_EN])
}

/// These words as a list that is part of the job.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if there are no words, or one has a comma: the text after the list's name.
pub(super) fn list<'w>(words: impl Iterator<Item = &'w str>) -> Result<String> {
    let words: BTreeSet<String> = words.map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Error::job("holds no words"));
    }
    if let Some(word) = words.iter().find(|word| word.contains(',')) {
        return Err(Error::job(format!("holds {word:?}, but a stop word cannot have a comma: remove it")));
    }
    Ok(words.into_iter().collect::<Vec<_>>().join(" "))
}

/// The list in a file of this machine: UTF-8, one word a line; empty lines are ignored.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if it cannot be read or is not such a list: the text after the key's name.
pub(super) fn read(path: &str) -> Result<String> {
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

    #[test]
    fn the_list_of_scikit_learn_has_318_words() {
        let words = named("scikit-learn-en").unwrap();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), 318);
        // A word that other lists do not have, and one that only they have.
        assert!(words.contains(&"fifteen") && !words.contains(&"don't"));
    }

    #[test]
    fn a_list_is_its_content() {
        assert_eq!(list(["The", "a", "the"].into_iter()).unwrap(), "a the");
        assert!(list([].into_iter()).is_err());
        assert!(list(["a,b"].into_iter()).unwrap_err().to_string().contains("comma"));
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
