//! Lists of stop words: those with a name, and those of the user.
//!
//! A list of the user is part of the job as its words, lower-cased, sorted and each once, with spaces between them. So
//! no machine that runs a part of the job needs the file, and two lists of the same words are equal.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// The prefix of the step's name.
pub const STEP: &str = "stop-words:";
/// The prefix of a list of words.
pub(super) const LIST: &str = "list=";
/// The prefix of the path of a file of words, one a line.
pub const FILE: &str = "file=";

/// The English list of scikit-learn (`ENGLISH_STOP_WORDS`), which goes back to the Glasgow Information Retrieval Group.
const SCIKIT_LEARN_EN: &str = "scikit-learn-en";
const SCIKIT_LEARN_EN_WORDS: &str = include_str!("stop_word_lists/scikit_learn_en.txt");

/// The words of the list `name`: of a language, by its ISO 639-1 code, or of a program.
pub(super) fn named(name: &str) -> Option<Vec<&'static str>> {
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
/// [`Error`](crate::error::Error) if there are no words, or one has a comma: the text after the list's name.
pub fn list<'w>(words: impl Iterator<Item = &'w str>) -> Result<String> {
    let words: BTreeSet<String> = words.map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Error::new("holds no words"));
    }
    if let Some(word) = words.iter().find(|word| word.contains(',')) {
        return Err(Error::new(format!("holds {word:?}, but a stop word cannot have a comma: remove it")));
    }
    Ok(words.into_iter().collect::<Vec<_>>().join(" "))
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
}
