//! An error and its causes, in sentences.

use crate::address::secrets::masked;
use crate::error::library_errors::is_no_permission;
use crate::error::visible::visible;
use crate::error::{Error, Kind, distinct_messages};

/// The error and its chain of causes for a terminal, each on a line of its own, without what may be secret in URLs.
pub(in crate::cli) fn explain(error: &Error) -> String {
    let said: Vec<_> = sentences(error).iter().map(|sentence| visible(sentence).into_owned()).collect();
    said.join("\n  because: ")
}

/// The error and its chain of causes, and what to do about a bug, without what may be secret in URLs.
pub(in crate::cli) fn sentences(error: &Error) -> Vec<String> {
    let mut said = distinct_messages(error);
    if said.iter().any(|sentence| is_no_permission(sentence)) {
        said.push(
            "there is no permission: give it to the user of this process, or name another place".into(),
        );
    }
    if error.kind() == Kind::Bug {
        said.push("this is a bug of resemblance: please report it with the command and the job file".into());
    }
    said.iter().map(|sentence| masked(sentence)).collect()
}

/// The messages of the causes of an error, the nearest first, without those that an earlier message repeats.
pub(in crate::cli) fn causes(error: &Error) -> Vec<String> {
    distinct_messages(error).split_off(1)
}
