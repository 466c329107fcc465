//! Small files of this machine that a job names for its settings, such as a list of stop words.

use crate::error::{Error, Result};

/// The text of the UTF-8 file at `path` of at most `max_bytes`. Messages put `what` after the path, as in "which", and
/// end with the `expected` content if the file is not UTF-8.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job): the text after the key's name.
pub(super) fn read(path: &str, what: &str, max_bytes: u64, expected: &str) -> Result<String> {
    let unread = |e| Error::job(format!("names {path:?}, {what} cannot be read")).because(e);
    if std::fs::metadata(path).map_err(unread)?.len() > max_bytes {
        return Err(Error::job(format!("names {path:?}, {what} is larger than {max_bytes} bytes")));
    }
    String::from_utf8(std::fs::read(path).map_err(unread)?)
        .map_err(|_| Error::job(format!("names {path:?}, {what} is not UTF-8: {expected}")))
}
