//! The stages of the candidate methods, one file per method.

mod all;
mod dense;
mod lsh;
mod none;
pub(super) mod pair_limit;
mod prefix;

pub(in crate::pipeline) use self::dense::dense_groups;
pub(super) use self::lsh::drop_disagreeing;
pub(super) use self::prefix::{ALL_FREQUENCIES, NEW_FREQUENCIES};
use super::interface::CandidateSearch;
use crate::job::{Job, Method};

pub(super) fn by_method(job: &Job) -> &'static CandidateSearch {
    match job.candidates.method {
        Method::Lsh => &lsh::LSH,
        Method::All => &all::ALL,
        Method::Prefix => &prefix::PREFIX,
        Method::None => &none::NONE,
    }
}
