//! The job: its source, the settings of each step, and the location of the tables.
//!
//! [`mod@file`] represents the TOML file. [`resolve()`] checks this file and converts it to a [`Job`]. Each stage takes the section with
//! its name. Every section has a file with its keys, defaults and rules.

mod against;
pub mod band_choice;
mod candidates;
mod clusters;
mod encoding;
mod engine;
pub mod file;
mod fingerprint;
mod forgotten;
mod format;
mod job_as_keys;
mod lsh;
mod minhash;
mod output;
mod passages;
mod requirements;
mod resolve;
mod resolved;
mod score;
mod shingle;
mod source;
mod suggestions;
mod toml_errors;
mod values;
mod where_and_limit;

pub use self::against::{Against, NewPairs, Reference, SameId};
pub(crate) use self::candidates::SampleSearch;
pub use self::candidates::{Candidates, Compare, Method};
pub use self::clusters::{Alarms, ClusterMethod, Clusters, Per, Prefer, Preference};
pub use self::encoding::Encoding;
pub use self::engine::{EngineSettings, Mode};
pub use self::fingerprint::{FORMAT_VERSION, InputFile, ReadRanges, fingerprint};
pub use self::forgotten::Forgotten;
pub(crate) use self::forgotten::ForgottenIds;
pub(crate) use self::format::{DocumentColumns, without_compression};
pub use self::format::{Format, FormatName};
pub(crate) use self::job_as_keys::{first_difference, is_in, keys};
pub use self::lsh::{BandRule, Choice, Lsh};
pub use self::minhash::{Coefficients, Family, Minhash, Modulus, is_prime};
pub use self::output::{Columns, Expand, Keep, Output, TableFormat};
pub use self::passages::Passages;
pub use self::requirements::{Figure, Requirements};
pub use self::resolve::{Draft, resolve};
pub use self::resolved::{Input, Job, Reuse};
pub use self::score::{Score, ScoreBy};
pub(crate) use self::shingle::ShingleSection;
pub use self::source::{Csv, DuplicateIds, Html, OnError, References, Source, SourceId, SourceSection};
pub(crate) use self::values::{Names, ParsedArgument, parse_size, share, similarity, whole};
pub use self::where_and_limit::{Condition, Limit, LimitSize};
pub use crate::kernel::lsh_bands::BucketHash;
pub use crate::kernel::measure::Measure;
pub(crate) use crate::kernel::shingle::MAX_SHINGLE_SIZE;
pub use crate::kernel::shingle::{Normalize, Shingle, ShingleHash, Short, Unit, Words};
pub use crate::kernel::signature::Bits;
pub use crate::kernel::text::written_words::TextUnit;

#[cfg(test)]
pub(crate) use self::source::DOCUMENTS_COLUMNS;

/// Returns a job with these keys and the defaults.
#[cfg(test)]
pub(crate) fn with_keys(keys: &str) -> Job {
    let text = format!("source = {{ format = 'text', url = 'in' }}\noutput.url = 'out'\n{keys}");
    resolve(file::read(&text, "job.toml", &[]).unwrap()).unwrap()
}
