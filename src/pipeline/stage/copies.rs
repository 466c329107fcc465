//! The stage copies, which finds documents with identical shingles, and documents that share a key.

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    BYTES_OF_KEY, Error, Planned, Result, Stage, StageContext, Table, WorkTable, boxed, not_null, null,
};
use super::search::{by_method, pair_limit};
use crate::frames::copies::copies;
use crate::frames::documents::{ids_of_keys, repeated};
use crate::frames::reference::{new_and_reference, same};
use crate::frames::{self, columns, no_number};
use crate::job::{SameId, SourceId};
use crate::pipeline::groups::{self, SET};
use crate::pipeline::numbers::{first_ids, keys_of};
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::tables::WorkColumns::{Flag, Numbers, Text};

impl WorkTable {
    /// Documents with at least one copy.
    pub(crate) const COPIES: Self =
        Self::new("copies", &[Numbers(&["rep", "doc", "size"]), Flag("reference")]);
    /// Keys that several documents share, and the sources of these documents.
    const SAME_KEYS: Self = Self::new("same_keys", &[Numbers(&["doc"]), Text("places")]);
}

/// Combines the rows of both tables in one frame, so that one plan computes both.
fn with_same_keys(copies: DataFrame, same_keys: Option<DataFrame>) -> Result<DataFrame> {
    let mut all = columns(["rep", "doc", "size", "reference"]);
    all.push(lit(ScalarValue::Utf8(None)).alias("places"));
    let copies = copies.select(all)?;
    let Some(same_keys) = same_keys else { return Ok(copies) };
    let same_keys = same_keys.select(vec![
        no_number().alias("rep"),
        col("doc"),
        no_number().alias("size"),
        lit(ScalarValue::Boolean(None)).alias("reference"),
        col("places"),
    ])?;
    Ok(copies.union(same_keys)?)
}

/// Finds documents with the same shingles. Refuses documents that share a key, since later stages could not distinguish them.
pub(super) static COPIES: Stage = Stage::work(
    WorkTable::COPIES,
    |_| "group documents with identical shingles, and check that keys are unique".into(),
    |_| true,
    boxed!(|cx| {
        let keys = cx.table(WorkTable::KEYS)?;
        let mut keys = match cx.reference_documents()? {
            None => keys.select(columns(SET))?,
            known => new_and_reference(keys, known, &SET)?,
        };
        if let Some(groups) = groups::keys(cx)? {
            keys = frames::with_columns(keys, groups)?;
        }
        let keys = cx.apart_from_copies(keys)?;
        let copies = copies(keys)?.filter(lit(cx.job.candidates.method.compares()))?;
        let rows = with_same_keys(copies, find_same_keys(cx).await?)?;
        let bytes = (cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE)) * BYTES_OF_KEY;
        Ok(Planned::short(bytes, vec![rows]))
    }),
)
.with_tables(|_| vec![null(WorkTable::COPIES, "places"), not_null(WorkTable::SAME_KEYS, "places")])
.then(boxed!(|cx| {
    refuse_same_keys(cx).await?;
    pair_limit::check_copies(cx).await?;
    if cx.job.compares() {
        (by_method(cx.job).check)(cx).await?;
    }
    Ok(Vec::new())
}));

const NAMED: usize = 5;

/// The sources of two documents that share a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameKeyPlaces {
    Source,
    SecondSource,
    /// One document is in the source, the other in the second source.
    BothSources,
    /// One document is in the source, the other in a reference output, and the job does not choose between them.
    SourceAndOutput,
}

impl SameKeyPlaces {
    const ALL: [Self; 4] = [Self::Source, Self::SecondSource, Self::BothSources, Self::SourceAndOutput];

    fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the documents (doc, ..) that share a key in these sources, if the job can have such documents.
    async fn documents(self, cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
        let keys = cx.table(WorkTable::KEYS)?;
        Ok(Some(match (self, cx.reference) {
            (Self::Source, _) => repeated(keys)?,
            (Self::SecondSource, Some(ReferenceDocuments::Source(_))) => {
                repeated(cx.table(WorkTable::REFERENCE_KEYS)?)?
            }
            (Self::BothSources, Some(ReferenceDocuments::Source(_))) => {
                same(cx.table(WorkTable::REFERENCE_KEYS)?, keys)?
            }
            (Self::SourceAndOutput, Some(ReferenceDocuments::Outputs(outputs)))
                if cx.job.same_id() == Some(SameId::Error) =>
            {
                let docs = outputs.chain.key_set(keys.clone().select(columns(["doc"]))?).await?;
                same(keys, outputs.docs_among(cx, &docs)?)?
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the error for the documents `found` (doc, ..), which share a key in these sources.
    async fn error(self, cx: &StageContext<'_>, found: DataFrame) -> Result<Error> {
        let documents = match self {
            Self::Source => {
                let option = "; --id row_number in find and dedup";
                return repeated_ids("source", option, cx.table(Table::Documents)?, found).await;
            }
            Self::SecondSource => {
                return repeated_ids("against.source", "", cx.table(WorkTable::REFERENCE_KEYS)?, found).await;
            }
            Self::SourceAndOutput => cx.table(Table::Documents)?,
            Self::BothSources => cx.table(WorkTable::REFERENCE_KEYS)?,
        };
        let ids = first_ids(same(documents, found)?, NAMED).await?;
        let (named, more) = (ids.join(", "), more(ids.len()));
        if self == Self::BothSources {
            return Ok(Error::input(format!(
                "documents of against.source have other ids than documents of the source but, by chance, the same 64-bit keys: \
                 {named}{more}: give one of them another id"
            )));
        }
        let advice = match cx.job.source.id {
            SourceId::RowNumber => {
                "rows of files with the same names are not the same documents: name the column that identifies a document as source.id, \
                 also in the jobs of against.output, or give the files other names each day"
            }
            SourceId::Columns(_) | SourceId::Path => {
                "set against.same_id = \"replace\" to replace those, or \"skip\" to leave the new ones out"
            }
        };
        Ok(Error::input(format!(
            "documents of the source have ids that documents of against.output have: {named}{more}; {advice}"
        )))
    }
}

/// The words that follow the ids of `count` documents in an error.
fn more(count: usize) -> &'static str {
    if count == NAMED { " (perhaps not the only ones)" } else { "" }
}

/// Returns the error for the keys `found` (doc, ..). Several `documents` (id, doc, ..) have each key. `section` is the section of the job
/// that names their source.
async fn repeated_ids(section: &str, option: &str, documents: DataFrame, found: DataFrame) -> Result<Error> {
    let least = found.select(columns(["doc"]))?.sort(vec![col("doc").sort(true, false)])?;
    let keys = keys_of(least.limit(0, Some(NAMED))?).await?;
    let (mut messages, mut same) = (Vec::new(), Vec::new());
    for batch in ids_of_keys(documents, &keys)?.collect().await? {
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

/// Finds the documents that share a key: (doc: UInt64, places: Utf8).
async fn find_same_keys(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let mut found = Vec::new();
    for places in SameKeyPlaces::ALL {
        if let Some(documents) = places.documents(cx).await? {
            found.push(Ok(documents.select(vec![col("doc"), lit(places.name()).alias("places")])?));
        }
    }
    frames::union(found)
}

/// Ends the run if the table `same_keys` has a row. Fails with `Kind::Input`, with some of the ids, if documents share a key.
async fn refuse_same_keys(cx: &StageContext<'_>) -> Result<()> {
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
