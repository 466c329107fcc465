//! The texts of some documents, from the files that a job reads.

use std::collections::BTreeMap;

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{SessionContext, col, lit};

use crate::error::Result;
use crate::job::Source;
use crate::pipeline::numbers::utf8;
use crate::source;

/// id -> text, of those of `ids` that the source still holds. Reads every file once more; formats of several documents
/// a file give no other way.
///
/// # Errors
/// When the source cannot be read.
pub async fn texts(
    session: &SessionContext,
    source: &Source,
    ids: &[&str],
) -> Result<BTreeMap<String, String>> {
    let wanted = ids.iter().map(|id| lit(*id)).collect();
    // As text, whatever type they have: so they were asked for.
    let documents = source::open(session, source).await?.frame.select(vec![utf8("id"), utf8("text")])?;
    let mut texts = BTreeMap::new();
    for batch in documents.filter(col("id").in_list(wanted, false))?.collect().await? {
        let (ids, found) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let rows = ids.iter().zip(found).filter_map(|(id, text)| Some((id?.to_owned(), text?.to_owned())));
        texts.extend(rows);
    }
    Ok(texts)
}
