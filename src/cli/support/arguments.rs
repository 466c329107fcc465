//! Parsers of arguments. Each error says what is allowed.

use std::num::NonZeroUsize;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::error::{Error, Result};
use crate::job;
use crate::pipeline::OnExisting;

type Read<T> = std::result::Result<T, String>;

/// The largest sample that is evaluated.
pub(in crate::cli) const MAX_EVALUATED: usize = 1_000_000;

/// The most pairs of a pack to judge: their texts are held in memory.
pub(in crate::cli) const MAX_AUDITED: usize = 100_000;

/// The most rows that a command prints: they are sorted in memory.
pub(in crate::cli) const MAX_TOP: usize = 1_000_000;
/// The most documents of a sample: they are held in memory.
pub(in crate::cli) const MAX_SAMPLE: usize = 1_000_000_000;
/// The most repetitions of a measurement.
pub(in crate::cli) const MAX_REPEAT: usize = 1_000_000;

/// One of these values, by its word.
pub(in crate::cli) fn one_of<T: Copy + Send + Sync + 'static>(
    named: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(named.iter().map(|(word, _)| *word)).try_map(move |given| {
        let value = named.iter().find(|(word, _)| *word == given).map(|(_, value)| *value);
        value.ok_or_else(|| format!("there is no {given}"))
    })
}

/// A whole number from 1 to `most`.
pub(in crate::cli) fn one_to(
    most: usize,
) -> impl Fn(&str) -> Read<NonZeroUsize> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= most => Ok(number),
        _ => Err(format!("expected a whole number of 1 or more, and at most {most}")),
    }
}

/// A whole number from 0 to `most`.
pub(in crate::cli) fn zero_to(most: usize) -> impl Fn(&str) -> Read<usize> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!("expected a whole number from 0 to {most}")),
    }
}

/// A similarity threshold, in (0, 1].
pub(in crate::cli) fn similarity(text: &str) -> Read<f64> {
    match text.trim().parse::<f64>() {
        Ok(similarity) if similarity > 0.0 && similarity <= 1.0 => Ok(similarity),
        _ => Err("expected a number over 0 and at most 1".to_owned()),
    }
}

/// A share, in [0, 1].
pub(in crate::cli) fn share(text: &str) -> Read<f64> {
    match text.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

/// The id of a run in logs, records and metrics.
pub(in crate::cli) fn run_id(text: &str) -> Read<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    match (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 128 characters out of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned()),
    }
}

/// The address of a role of a cluster.
pub(in crate::cli) fn host_and_port(text: &str) -> Read<String> {
    let url = url::Url::parse(&format!("http://{text}/")).ok();
    // A URL drops the port that its scheme has anyway.
    let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).is_some_and(|port| port > 0);
    let whole = |url: &url::Url| url.path() == "/" && url.username().is_empty() && url.password().is_none();
    match url.is_some_and(|url| whole(&url) && url.query().is_none() && url.fragment().is_none()) && port {
        true => Ok(text.to_owned()),
        false => Err("expected HOST:PORT, such as localhost:50050 or [::1]:50050".to_owned()),
    }
}

/// The URL of a scheduler.
pub(in crate::cli) fn scheduler(text: &str) -> Read<String> {
    job::Engine::on_cluster(text, 0).map(|_| text.to_owned())
}

/// The engine of a command: this machine, or the cluster of the scheduler that is named.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where it is not the URL of a scheduler.
pub(in crate::cli) fn engine(scheduler: Option<&str>, memory: u64) -> Result<job::Engine> {
    match scheduler {
        None => Ok(job::Engine::local(memory)),
        Some(url) => job::Engine::on_cluster(url, memory)
            .map_err(|expected| Error::job(format!("--scheduler is {url:?}: {expected}"))),
    }
}

/// The treatment of an existing result, by `--overwrite`.
pub(in crate::cli) fn on_existing(overwrite: bool) -> OnExisting {
    if overwrite { OnExisting::Overwrite } else { OnExisting::Fail }
}

/// An amount of memory, in bytes.
pub(in crate::cli) fn memory(text: &str) -> Read<u64> {
    job::parse_size(text).map_err(|e| e.to_string())
}
