//! `source.where`, `source.limit` and `source.seed`: which rows of a source are documents.

use super::super::file;
use super::super::{Condition, Limit};
use super::wrong::{Checked, wrong};
use crate::error::one_line;

pub(super) fn rows_of(
    condition: Option<String>,
    limit: Option<file::Limit>,
    seed: Option<u64>,
) -> Checked<(Option<Condition>, Option<Limit>)> {
    let condition = match condition.map(|text| Condition::parse(&text)).transpose() {
        Ok(condition) => condition,
        Err(error) => return wrong("source.where", one_line(&error)),
    };
    let limit = match (limit, seed) {
        (Some(limit), seed) => match limit.to_string().parse() {
            Ok(size) => Some(Limit { size, seed: seed.unwrap_or_default() }),
            Err(error) => return wrong("source.limit", error.to_string()),
        },
        (None, Some(_)) => {
            return wrong(
                "source.seed",
                "is set, but only source.limit uses it: set source.limit, or remove the key",
            );
        }
        (None, None) => None,
    };
    Ok((condition, limit))
}
