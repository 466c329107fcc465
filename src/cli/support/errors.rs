//! An error and its causes, in sentences.

use crate::address::secrets::masked;
use crate::error::visible::visible;
use crate::error::{Error, Kind, distinct_messages};

/// The error and its chain of causes for a terminal, each on a line of its own, without what may be secret in URLs.
pub(in crate::cli) fn explain(error: &Error) -> String {
    let said: Vec<_> = sentences(error).iter().map(|sentence| visible(sentence).into_owned()).collect();
    said.join("\n  because: ")
}

/// The error and its chain of causes, and what to do about a bug, without what may be secret in URLs.
pub(in crate::cli) fn sentences(error: &Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    said.extend(causes(error));
    if error.kind() == Kind::Bug {
        said.push("this is a bug of resemblance: please report it with the command and the job file".into());
    }
    said.iter().map(|sentence| masked(sentence)).collect()
}

/// The messages of the causes of an error, the nearest first, without those that an earlier message repeats.
pub(in crate::cli) fn causes(error: &Error) -> Vec<String> {
    distinct_messages(error).split_off(1)
}
