//! Documents with one key, which cannot be distinguished.

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col, lit};

use super::context::StageContext;
use super::numbers::{first_ids, keys_of};
use super::reference::ReferenceDocuments;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames::duplicates::{named, repeated};
use crate::frames::{self, reference};
use crate::job::{SameId, SourceId};
use crate::schema::Table;

/// The most documents that an error names.
const NAMED: usize = 5;

/// The places of two documents with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameKeyPlaces {
    /// Both are in the source.
    Source,
    /// Both are in the second source.
    SecondSource,
    /// One is in each source.
    BothSources,
    /// One is in the source and one in a reference output, and the job does not say which of them counts.
    SourceAndOutput,
}

impl SameKeyPlaces {
    const ALL: [Self; 4] = [Self::Source, Self::SecondSource, Self::BothSources, Self::SourceAndOutput];

    /// Their name in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::SecondSource => "second_source",
            Self::BothSources => "both_sources",
            Self::SourceAndOutput => "source_and_output",
        }
    }

    /// The documents (doc, ..) with one key in these places; `None` if the job cannot have any.
    fn documents(self, cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
        let keys = cx.table(WorkTable::KEYS)?;
        Ok(Some(match (self, cx.reference) {
            (Self::Source, _) => repeated(keys)?,
            (Self::SecondSource, Some(ReferenceDocuments::Source(_))) => {
                repeated(cx.table(WorkTable::REFERENCE_KEYS)?)?
            }
            (Self::BothSources, Some(ReferenceDocuments::Source(_))) => {
                reference::same(cx.table(WorkTable::REFERENCE_KEYS)?, keys)?
            }
            (Self::SourceAndOutput, Some(ReferenceDocuments::Outputs(outputs)))
                if cx.job.same_id() == Some(SameId::Error) =>
            {
                reference::same(keys, outputs.names(cx)?)?
            }
            _ => return Ok(None),
        }))
    }

    /// The error for the documents `found` (doc, ..), which have one key in these places.
    async fn error(self, cx: &StageContext<'_>, found: DataFrame) -> Result<Error> {
        let documents = match self {
            Self::Source | Self::SourceAndOutput => cx.table(Table::Documents)?,
            Self::SecondSource | Self::BothSources => cx.table(WorkTable::REFERENCE_KEYS)?,
        };
        let section = match self {
            Self::Source => Some(("source", "; find and dedup number the rows without --id")),
            Self::SecondSource => Some(("against.source", "")),
            Self::BothSources | Self::SourceAndOutput => None,
        };
        if let Some((section, option)) = section {
            return repeated_in(section, option, documents, found).await;
        }
        let ids = first_ids(reference::same(documents, found)?, NAMED).await?;
        let (named, more) = (ids.join(", "), more(ids.len()));
        if self == Self::BothSources {
            return Ok(Error::input(format!(
                "documents of against.source have the 64-bit keys that documents of the source have, by chance: {named}{more}: give one \
                 of them another id"
            )));
        }
        let what_to_do = match cx.job.source.id {
            SourceId::RowNumber => {
                "rows of files with the same names are not the same documents: name the column that identifies a document as source.id, in \
                 the jobs of against.output too, or give the files of each day names of their own"
            }
            SourceId::Columns(_) | SourceId::Path => {
                "set against.same_id = \"replace\" to replace those, or \"skip\" to leave the new ones out"
            }
        };
        Ok(Error::input(format!(
            "documents of the source have ids that documents of against.output have: {named}{more}; {what_to_do}"
        )))
    }
}

/// What follows `count` documents that an error names.
fn more(count: usize) -> &'static str {
    if count == NAMED { " (perhaps not the only ones)" } else { "" }
}

/// The error for the keys `found` (doc, ..) that several `documents` (id, doc, ..) of the section `section` have.
async fn repeated_in(section: &str, option: &str, documents: DataFrame, found: DataFrame) -> Result<Error> {
    let least = found.select(vec![col("doc")])?.sort(vec![col("doc").sort(true, false)])?;
    let keys = keys_of(least.limit(0, Some(NAMED))?).await?;
    let (mut messages, mut same) = (Vec::new(), Vec::new());
    for batch in named(documents, &keys)?.collect().await? {
        let (least, most) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (least, most) in least.iter().flatten().zip(most.iter().flatten()) {
            if least == most {
                same.push(format!("`{least}`"));
            } else {
                messages.push(format!("`{least}` and `{most}` have the same 64-bit key"));
            }
        }
    }
    let count = messages.len() + same.len();
    match same.as_slice() {
        [] => {}
        [only] => messages.push(format!("{only} is the id of several documents")),
        all => messages.push(format!("each of {} is the id of several documents", all.join(", "))),
    }
    Ok(Error::input(format!(
        "ids must be unique, but {}{}: name a column of unique ids as {section}.id (or row_number{option}), or set \
         {section}.duplicate_ids = \"reject\"",
        messages.join("; "),
        more(count),
    )))
}

/// The documents with one key: (doc: UInt64, places: Utf8).
pub(crate) fn find(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let found = SameKeyPlaces::ALL.into_iter().filter_map(|places| {
        let documents = places.documents(cx).transpose()?;
        Some(documents.and_then(|of| Ok(of.select(vec![col("doc"), lit(places.name()).alias("places")])?)))
    });
    frames::union(found)
}

/// Ends the run if the table `same_keys` has a row.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the ids of some of the documents.
pub(crate) async fn refuse(cx: &StageContext<'_>) -> Result<()> {
    if cx.rows(WorkTable::SAME_KEYS) == 0 {
        return Ok(());
    }
    for places in SameKeyPlaces::ALL {
        let found = cx.table(WorkTable::SAME_KEYS)?.filter(col("places").eq(lit(places.name())))?;
        if found.clone().count().await? > 0 {
            return Err(places.error(cx, found).await?);
        }
    }
    Ok(())
}
