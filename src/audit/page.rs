//! A pack as an HTML page that is used with the keyboard, and saves its labels as a file.
//!
//! Its one script is in the page, and the page allows no other: its policy has the hash of the script. It makes no request.

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::pack::{AuditedPair, Pack};
use crate::error::{Error, Result};
use crate::page::{PageWords, Side, sides};

const SCRIPT: &str = include_str!("audit.js");

/// What the template reads.
#[derive(Template)]
#[template(path = "audit.html", config = "src/page/askama.toml")]
struct AuditPage<'a> {
    pack: &'a Pack,
    pairs: Vec<PairOnPage<'a>>,
    script: &'static str,
    script_hash: String,
}

/// A pair with its texts in parts.
struct PairOnPage<'a> {
    row: &'a AuditedPair,
    what: &'a str,
    sides: [(Side, Option<&'a str>); 2],
}

/// A pack as an HTML page to judge with the keyboard, which needs nothing else.
///
/// # Errors
/// Only if there is a bug.
pub fn html(pack: &Pack) -> Result<String> {
    let pair = |row| pair_on_page(pack, row);
    let page = AuditPage {
        pack,
        pairs: pack.rows.iter().map(pair).collect(),
        script: SCRIPT,
        script_hash: STANDARD.encode(Sha256::digest(SCRIPT)),
    };
    page.render().map_err(|e| Error::bug("the page of an audit cannot be written").because(e))
}

fn pair_on_page<'a>(pack: &'a Pack, row: &'a AuditedPair) -> PairOnPage<'a> {
    let ids = [row.id_a.to_string(), row.id_b.to_string()];
    let [a, b] = sides(ids, [&row.text_a, &row.text_b], &pack.shingle);
    let stratum = pack.strata.iter().find(|stratum| stratum.name == row.stratum);
    PairOnPage {
        row,
        what: stratum.map_or("", |stratum| stratum.what.as_str()),
        sides: [(a, row.source_a.as_deref()), (b, row.source_b.as_deref())],
    }
}

impl PageWords for AuditPage<'_> {}
