//! The sketches that score candidates, and the texts that are read again to compute sketches.
//!
//! Usually few documents are in candidates, and shingles are nearly all of a sketch's bytes. So stages write the positions of texts
//! instead of shingles, and only the texts of candidates are read again. Shingles are stored if the shingles of all documents are needed,
//! if they are needed more than once, or if the user keeps them.

use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::context::StageContext;
use super::numbers::one_number;
use super::reference::ReferenceDocuments;
use super::runner::Planned;
use super::tables::{AllSketches, WorkTable};
use crate::error::{Error, Result};
use crate::frames::prefix::Join;
use crate::frames::{self, columns, no_number, number, prefix};
use crate::job::Shingle;
use crate::schema::Table;
use crate::source::{self, DocumentPlaces};

/// Rows with an upper bound on their number.
pub(super) struct BoundedRows {
    pub(super) frame: DataFrame,
    pub(super) count: u64,
}

impl BoundedRows {
    pub(super) fn read(cx: &StageContext<'_>, table: WorkTable) -> Result<Self> {
        Ok(Self { frame: cx.table(table)?, count: cx.rows(table) })
    }
}

pub(super) const SKETCH: [&str; 4] = ["doc", "shingle_count", "shingles", "signature"];

/// The number of bytes in a row (document, file, position). The names of files repeat, so they take few bytes.
const BYTES_OF_POSITION: u64 = 32;

/// Stands for the source of new documents while texts are read. Tables store null instead. The sources of a reused merged output count
/// down from here.
const OWN: u64 = u64::MAX;

/// Reads the texts at `places` (source, position, origin, ..). `select` selects columns of [`frames::documents`], the same for each
/// source. With `cut`, texts are split into shingles while they are read, so a long text is never in memory.
pub(super) async fn read_texts(
    cx: &StageContext<'_>,
    places: DataFrame,
    cut: Option<&Shingle>,
    select: impl Fn(DataFrame) -> Result<DataFrame>,
) -> Result<DataFrame> {
    let mut sources = cx.reference.map(ReferenceDocuments::sources).unwrap_or_default();
    sources.extend(cx.input.merged_sources().map(|(origin, source, listed)| (OWN - origin, source, listed)));
    if let Some(listed) = cx.input.listed() {
        sources.push((OWN, &cx.job.source, listed));
    }
    if sources.is_empty() {
        return Err(Error::bug("texts are read again, and no file was listed"));
    }
    // Even a frame without rows needs the columns of the texts.
    let places =
        DocumentPlaces::from_frame(places, coalesce(vec![col("origin"), lit(OWN)])).await?.or_none_in(OWN);
    let read = source::read_at(cx.session(), sources, places, cut).await?.into_iter();
    let texts = read.map(|(origin, read)| {
        let documents = frames::documents::documents(read)?;
        match cx.reference {
            // A second source has the number 0.
            Some(ReferenceDocuments::Source(_)) if origin == 0 => {
                select(frames::reference::with_second_source_keys(documents)?)
            }
            _ => select(documents),
        }
    });
    frames::union(texts)?.ok_or_else(|| Error::bug("no source is read"))
}

/// The positions (source, position, origin) of the texts of the documents `needed` (needed). The documents are this run's own documents
/// and the reference documents `known`. A stage writes the positions into `table`, unless this run has already written them.
pub(super) async fn find_texts(
    cx: &StageContext<'_>,
    table: WorkTable,
    needed: BoundedRows,
    known: Option<DataFrame>,
) -> Result<DataFrame> {
    if !cx.is_taken(table) {
        let place = |origin: Expr| [columns(["source", "position", "doc"]), vec![origin]].concat();
        let own = match cx.input.merged_sources().next() {
            Some(_) => lit(OWN) - number(col("origin_number")),
            None => no_number(),
        };
        let mut documents = cx.table(Table::Documents)?.select(place(own.alias("origin")))?;
        if let Some(known) = known {
            documents = documents.union(known.select(place(col("origin")))?)?;
        }
        let positions = frames::sketches::positions(documents, needed.frame)?;
        let bytes = (needed.count + count(cx)) * BYTES_OF_POSITION;
        cx.run_further(table, Planned::new(bytes, vec![positions])).await?;
    }
    cx.table(table)
}

/// Selects columns of all documents, including reference documents.
pub(super) fn documents(cx: &StageContext<'_>, columns: Vec<Expr>) -> Result<DataFrame> {
    let new = cx.table(Table::Documents)?.select(columns.clone())?;
    match cx.reference_documents()? {
        Some(known) => Ok(new.union(known.select(columns)?)?),
        None => Ok(new),
    }
}

/// The number of documents, including reference documents.
fn count(cx: &StageContext<'_>) -> u64 {
    cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE)
}

/// The sketches of new documents, or `None` if they are not stored.
fn stored_new(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let stored = match AllSketches::new(cx.job) {
        AllSketches::InDocuments => cx.table(Table::Documents)?,
        AllSketches::InSketches => cx.table(WorkTable::SKETCHES)?,
        AllSketches::InOutput => cx.input.stored_documents()?.ok_or_else(not_stored)?,
        AllSketches::Nowhere => return Ok(None),
    };
    Ok(Some(stored.select(columns(SKETCH))?))
}

/// The sketches in [`stored_new`], and the sketches of reference documents that may match new documents.
fn stored(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let Some(new) = stored_new(cx)? else { return Ok(None) };
    Ok(Some(match cx.reference_documents()? {
        Some(known) => new.union(known.select(columns(SKETCH))?)?,
        None => new,
    }))
}

/// The sketches of all documents, for jobs that store them.
pub(super) fn all(cx: &StageContext<'_>) -> Result<DataFrame> {
    stored(cx)?.ok_or_else(not_stored)
}

/// The sketches (doc, shingles, signature, ..) of the documents in the prefix join, and possibly of more documents.
pub(super) fn joined(cx: &StageContext<'_>) -> Result<BoundedRows> {
    match stored(cx)? {
        Some(frame) => Ok(BoundedRows { frame, count: count(cx) }),
        None => BoundedRows::read(cx, WorkTable::HOT_SKETCHES),
    }
}

pub(super) fn to_join(cx: &StageContext<'_>) -> Result<DataFrame> {
    if cx.job.candidates.method.joins_all() {
        return frames::copies::without_copies(all(cx)?, cx.table(WorkTable::COPIES)?);
    }
    prefix::only(joined(cx)?.frame, cx.table(WorkTable::HOT)?)
}

/// The sketches of new documents in the prefix join. If all documents are joined with reference documents, copies are included.
pub(super) fn new_to_join(cx: &StageContext<'_>) -> Result<DataFrame> {
    if cx.reference.is_some() && cx.job.candidates.method.joins_all() {
        return stored_new(cx)?.ok_or_else(not_stored);
    }
    match cx.reference_docs()? {
        Some(known) => frames::reference::without(to_join(cx)?, known),
        None => to_join(cx),
    }
}

pub(super) async fn join<'c>(cx: &'c StageContext<'_>) -> Result<&'c Join> {
    let join = cx.join.get_or_try_init(|| async {
        let (score, permutations) = (&cx.job.score, cx.job.minhash.permutations);
        let elements = prefix::elements(new_to_join(cx)?, score, permutations)?;
        Ok(Join::new(score, permutations, one_number(elements).await?, cx.reference.is_some()))
    });
    join.await
}

/// The sketches of the documents `needed` (needed) in candidates, and possibly of more documents.
pub(super) async fn candidate_sketches(cx: &StageContext<'_>, needed: BoundedRows) -> Result<BoundedRows> {
    if let Some(frame) = stored(cx)? {
        return Ok(BoundedRows { frame, count: count(cx) });
    }
    let (at, known) = (WorkTable::POSITIONS, cx.reference_documents()?);
    let frame = sketches(cx, at, needed, known, &SKETCH).await?;
    Ok(BoundedRows { frame, count: cx.rows(at) + cx.rows(WorkTable::REFERENCE) })
}

/// Returns the sketches of the documents `needed` (needed), in the columns `names`. Reads stored sketches and the `known` sketches of
/// reference documents. Computes all other sketches from texts, whose positions a stage writes into `positions`.
pub(super) async fn sketches(
    cx: &StageContext<'_>,
    positions: WorkTable,
    needed: BoundedRows,
    known: Option<DataFrame>,
    names: &[&str],
) -> Result<DataFrame> {
    let columns = || names.iter().map(|name| col(*name)).collect::<Vec<_>>();
    let frame = needed.frame.clone();
    let mut found = vec![match stored_new(cx)? {
        Some(new) => Ok(frames::among(new, needed.frame)?.select(columns())?),
        None => {
            let frequent = cx.frequent()?;
            let cut =
                |texts| Ok(frames::sketches::sketches(texts, cx.job, frequent.clone())?.select(columns())?);
            let to_cut = known.clone().map(|known| known.filter(col("shingles").is_null())).transpose()?;
            let places = find_texts(cx, positions, needed, to_cut).await?;
            read_texts(cx, places, Some(&cx.job.shingle), cut).await
        }
    }];
    if let Some(known) = known {
        let stored = known.filter(col("shingles").is_not_null())?;
        found.push(Ok(frames::among(stored, frame)?.select(columns())?));
    }
    frames::union(found)?.ok_or_else(not_stored)
}

/// The signatures (doc, signature) of all documents, or `None` if they are not stored.
pub(super) fn signatures(cx: &StageContext<'_>) -> Result<Option<BoundedRows>> {
    let signature = columns(["doc", "signature"]);
    let frame = match stored(cx)? {
        Some(stored) => stored.select(signature)?,
        None if cx.job.output.keep.signatures() => documents(cx, signature)?,
        None => return Ok(None),
    };
    Ok(Some(BoundedRows { frame, count: count(cx) }))
}

pub(super) async fn average_bytes(cx: &StageContext<'_>) -> Result<u64> {
    let average = cx.bytes_of_sketch.get_or_try_init(|| async {
        let sizes = documents(cx, columns(["shingle_count"]))?;
        let bytes = frames::scores::sketch_bytes(sizes, &cx.job.minhash)?;
        Ok(one_number(bytes).await? / count(cx).max(1))
    });
    average.await.copied()
}

/// The reference documents that can be in clusters, with the columns of [`WorkTable::REFERENCE`].
pub(super) fn clustered_reference(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    match cx.reference_outputs() {
        Some(outputs) => outputs.documents(cx, None).map(Some),
        None => cx.reference_documents(),
    }
}

fn not_stored() -> Error {
    Error::bug("the sketches of all documents were not stored")
}
