//! `[against]`: the reference documents.

use super::super::source::DocumentColumns;
use super::super::{Against, Reference, SameId, Shingle, ShingleHash, Source, file};
use super::source::{filled, source_of};
use super::wrong::{Checked, Wrong, wrong};
use crate::address;

const OUTPUT: &str = "against.output";
const SOURCE: &str = "against.source";

pub(super) fn against_of(against: file::Against, reuses: bool, shingle: &Shingle) -> Checked<Against> {
    let file::Against { output, source, pairs, same_id } = against;
    if shingle.hash == ShingleHash::Dictionary {
        return wrong(
            "shingle.hash",
            "is \"dictionary\", whose numbers are those of one run: expected another one, since the documents of several runs \
             are compared",
        );
    }
    if source.is_some() && same_id.is_some() {
        return wrong(
            "against.same_id",
            "is set, and an id may be in both sources: remove the key, which is for against.output",
        );
    }
    let same_id = same_id.unwrap_or_default();
    if reuses && same_id == SameId::Skip {
        return wrong(
            "against.same_id",
            "is \"skip\", and the source is an output, whose documents are taken as they are: expected \"error\" or \
             \"replace\"",
        );
    }
    let reference = match (output, source) {
        (Some(output), None) => Reference::Outputs { urls: outputs_of(output)?, same_id },
        (None, Some(source)) => Reference::Source(Box::new(second_source(source)?)),
        (None, None) => return wrong(OUTPUT, "is required but missing, and so is `against.source`: set one"),
        (Some(_), Some(_)) => {
            return wrong(OUTPUT, "is set, and so is `against.source`: expected one of them");
        }
    };
    Ok(Against { reference, pairs })
}

/// Refuses row numbers as default ids, since the rows of two days often have the same numbers.
pub(super) fn check_id(by_default: bool, source: &Source, against: Option<&file::Against>) -> Checked<()> {
    if by_default
        && source.format.rules().columns == DocumentColumns::OfFile
        && against.is_some_and(|against| against.output.is_some())
    {
        return wrong(
            "source.id",
            "is left out, so the name of a file and the number of a row are the id, and files of two days often have the same names: \
             name the column that identifies a document, here and in the jobs of against.output; without such a column, give the files \
             of each day names of their own and set source.id = \"row_number\"",
        );
    }
    Ok(())
}

fn outputs_of(output: file::Names) -> Checked<Vec<String>> {
    let outputs = filled(OUTPUT, output, "folder or URL prefix of an output")?;
    for (at, url) in outputs.iter().enumerate() {
        address::check(url).or_else(|fault| wrong(OUTPUT, fault))?;
        if outputs.get(..at).is_some_and(|earlier| earlier.contains(url)) {
            return wrong(OUTPUT, format!("names {url:?} twice: expected each output once"));
        }
    }
    Ok(outputs)
}

/// The second source, by the rules for `[source]`.
fn second_source(source: file::Source) -> Checked<Source> {
    if source.format == Some(file::Format::Output) {
        return wrong(SOURCE, "has the format \"output\": set `against.output` instead");
    }
    if source.columns.is_some() {
        return wrong(
            SOURCE,
            "has the key `columns`, and the table documents has none of its documents: remove it",
        );
    }
    source_of(source).map_err(|Wrong { key, fault }| Wrong { key: format!("against.{key}").into(), fault })
}
