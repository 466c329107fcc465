//! The stages of the candidate methods, one file each.

mod all;
mod lsh;
mod none;
mod prefix;

pub use self::lsh::candidates;
use super::interface::CandidateSearch;
use crate::job::{Job, Method};

/// The stages of the candidate method of `job`.
pub(super) fn by_method(job: &Job) -> &'static CandidateSearch {
    match job.candidates.method {
        Method::Lsh => &lsh::LSH,
        Method::All => &all::ALL,
        Method::Prefix => &prefix::PREFIX,
        Method::None => &none::NONE,
    }
}
