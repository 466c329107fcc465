//! Documents with one key, which cannot be distinguished.

use datafusion::common::cast::as_string_array;
use datafusion::prelude::DataFrame;

use super::frames::duplicates::named;
use crate::error::{Error, Result};

/// Duplicate ids that an error names.
pub(super) const NAMED_DUPLICATES: usize = 5;

/// Ends the run if there are `repeated` keys among `documents` (id, doc, ..) of the section `section`.
pub(crate) async fn refuse_duplicates(documents: DataFrame, repeated: &[u64], section: &str) -> Result<()> {
    if repeated.is_empty() {
        return Ok(());
    }
    let named = named(documents, repeated)?;
    let mut messages = Vec::new();
    for batch in named.collect().await? {
        let (least, most) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (least, most) in least.iter().flatten().zip(most.iter().flatten()) {
            messages.push(match least == most {
                true => format!("`{least}` is the id of several documents"),
                false => format!("`{least}` and `{most}` have the same 64-bit key"),
            });
        }
    }
    let option = if section == "source" { "; --id of find and dedup" } else { "" };
    Err(Error::input(format!(
        "ids must be unique, but {}{}: name a column of unique ids as {section}.id (or row_number{option}), or set \
         {section}.duplicate_ids = \"reject\"",
        messages.join("; "),
        if messages.len() == NAMED_DUPLICATES { " (perhaps not the only ones)" } else { "" },
    )))
}
