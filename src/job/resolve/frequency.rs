//! `shingle.max_frequency`: which shingles are left out because too many documents have them.

use super::super::{Shingle, ShingleHash, Short};
use super::wrong::{Checked, wrong};

const KEY: &str = "shingle.max_frequency";

pub(super) fn frequency_of(max_frequency: Option<f64>, shingle: &Shingle) -> Checked<Option<f64>> {
    let Some(share) = max_frequency else { return Ok(None) };
    check_frequency(share)?;
    if shingle.hash == ShingleHash::Dictionary {
        return wrong(
            KEY,
            "is set, and does not work with shingle.hash = \"dictionary\", which numbers all shingles: expected another hash",
        );
    }
    if shingle.short == Short::Empty {
        return wrong(
            KEY,
            "is set, and rejects documents without other shingles, but shingle.short = \"empty\" keeps all documents: expected \
             \"reject\" or \"whole\"",
        );
    }
    Ok(Some(share))
}

pub(super) fn check_frequency(share: f64) -> Checked<()> {
    // Written so that NaN fails too.
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => wrong(KEY, format!("is {share}: expected a number over 0 and under 1, such as 0.001")),
    }
}
