//! `[against]`: the documents that earlier runs know.

use super::super::{Against, SameId, Shingle, ShingleHash, file};
use super::source::filled;
use super::wrong::{Checked, wrong};
use crate::address;

pub(super) fn against_of(against: file::Against, reuses: bool, shingle: &Shingle) -> Checked<Against> {
    const KEY: &str = "against.output";
    let file::Against { output, pairs, same_id } = against;
    let outputs = filled(KEY, output, "folder or URL prefix of an output")?;
    for (at, url) in outputs.iter().enumerate() {
        address::check(url).or_else(|said| wrong(KEY, said))?;
        if outputs.get(..at).is_some_and(|earlier| earlier.contains(url)) {
            return wrong(KEY, format!("names {url:?} twice: expected each output once"));
        }
    }
    if shingle.hash == ShingleHash::Dictionary {
        return wrong(
            "shingle.hash",
            "is \"dictionary\", whose numbers are those of one run: expected another one, since the documents of several runs \
             are compared",
        );
    }
    if reuses && same_id == SameId::Skip {
        return wrong(
            "against.same_id",
            "is \"skip\", and the source is an output, whose documents are taken as they are: expected \"error\" or \
             \"replace\"",
        );
    }
    Ok(Against { outputs, pairs, same_id })
}
