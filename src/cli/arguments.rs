//! What commands take as arguments: each is read, or refused with what is allowed.

use std::num::NonZeroUsize;

use crate::job;

type Read<T> = std::result::Result<T, String>;

/// A count of what is to be made, cut or printed.
pub(super) fn one_or_more(text: &str) -> Read<NonZeroUsize> {
    text.trim().parse().map_err(|_| "expected a whole number of 1 or more".to_owned())
}

/// A similarity that pairs can be asked to reach.
pub(super) fn similarity(text: &str) -> Read<f64> {
    match text.trim().parse::<f64>() {
        Ok(similarity) if similarity > 0.0 && similarity <= 1.0 => Ok(similarity),
        _ => Err("expected a number over 0 and at most 1".to_owned()),
    }
}

/// An amount of memory, in bytes.
pub(super) fn memory(text: &str) -> Read<u64> {
    job::parse_size(text).map_err(|e| e.to_string())
}
