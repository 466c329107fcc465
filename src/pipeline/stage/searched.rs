//! The documents in which passages are searched: their texts and their order.

use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{DataFrame, col};
use datafusion::scalar::ScalarValue;

use super::interface::{Error, Result, StageContext, Table, WorkTable, needed};
use crate::frames::{self, all_columns, columns, no_number, passages};
use crate::job::Source;
use crate::pipeline::groups;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::sketches::read_texts;
use crate::schema::carried;
use crate::source::{self, Listed, ReadRequest};

/// The columns that locate a document.
const PLACE: [&str; 4] = ["source", "position", "doc", "origin"];

/// The rejected documents in which passages are searched. They are reference documents if `of_reference`, else new documents.
fn uncompared(cx: &StageContext<'_>, of_reference: bool) -> Result<DataFrame> {
    let origin = || col("origin");
    let side = if of_reference { origin().is_not_null() } else { origin().is_null() };
    Ok(cx.table(WorkTable::UNCOMPARED)?.filter(side)?)
}

async fn read(cx: &StageContext<'_>, source: &Source, listed: &Listed) -> Result<DataFrame> {
    frames::documents::documents(source::read(cx.session(), source, listed, ReadRequest::all()).await?.frame)
}

/// The texts (doc, text) of the new documents in which passages are searched.
pub(super) async fn own_texts(cx: &StageContext<'_>) -> Result<DataFrame> {
    let Some(listed) = cx.input.listed() else {
        return Err(Error::bug("texts are read, and no file was listed"));
    };
    searched(cx, read(cx, &cx.job.source, listed).await?, Table::Rejects, uncompared(cx, false)?)
}

/// The texts (doc, text) of `documents` without rejects. Rejects that are among the `uncompared` documents are included.
fn searched(
    cx: &StageContext<'_>,
    documents: DataFrame,
    rejects: Table,
    uncompared: DataFrame,
) -> Result<DataFrame> {
    match cx.rows(rejects) {
        // Without rejects, every document is searched. The selection then needs neither a join nor the texts.
        0 => Ok(documents.select(columns(["doc", "text"]))?),
        _ => passages::searched(documents, cx.table(rejects)?, uncompared),
    }
}

/// The texts (doc, text) of all reference documents in which passages are searched, without the passages that a result of `apply` cut
/// out.
pub(super) async fn reference_texts(cx: &StageContext<'_>) -> Result<DataFrame> {
    let uncompared = uncompared(cx, true)?.select(columns(PLACE))?;
    match cx.reference {
        Some(ReferenceDocuments::Source(second)) => {
            let documents = read(cx, &second.source, &second.listed).await?;
            let documents = frames::reference::with_second_source_keys(documents)?;
            searched(cx, documents, Table::ReferenceRejects, uncompared)
        }
        Some(outputs) => {
            reference_texts_at(cx, outputs.places(cx)?.select(columns(PLACE))?.union(uncompared)?).await
        }
        None => Err(Error::bug("the job has no reference documents")),
    }
}

/// Returns (source, position, doc, origin) for all documents in which passages are searched, except for compared new documents.
pub(super) fn places(cx: &StageContext<'_>) -> Result<DataFrame> {
    let uncompared = cx.table(WorkTable::UNCOMPARED)?.select(columns(PLACE))?;
    match cx.reference {
        Some(reference) => Ok(reference.places(cx)?.select(columns(PLACE))?.union(uncompared)?),
        None => Ok(uncompared),
    }
}

/// The texts (source, position, doc, text, ..) of the run's own documents at `places`.
pub(super) async fn own_texts_at(cx: &StageContext<'_>, places: DataFrame) -> Result<DataFrame> {
    read_texts(cx, places.filter(col("origin").is_null())?, None, Ok).await
}

/// The texts (doc, text) of the reference documents at `places`, without the passages that a result of `apply` cut out.
pub(super) async fn reference_texts_at(cx: &StageContext<'_>, places: DataFrame) -> Result<DataFrame> {
    let places = places.filter(col("origin").is_not_null())?;
    let texts = read_texts(cx, places, None, |read| Ok(read.select(columns(["doc", "text"]))?)).await?;
    match cx.reference_outputs().map(|outputs| outputs.chain.cuts()).transpose()?.flatten() {
        None => Ok(texts),
        Some(cuts) => passages::without_cuts(texts, cuts),
    }
}

/// The documents with a row in `table` (doc, ..), or all documents if `table` is `None`. For the columns, see [`passages::in_turn`].
pub(super) async fn in_turn(cx: &StageContext<'_>, table: Option<WorkTable>) -> Result<DataFrame> {
    let needed =
        table.map(|table| needed(cx, table, "doc")?.frame.distinct().map_err(Error::from)).transpose()?;
    let among = |documents| match &needed {
        Some(needed) => frames::among(documents, needed.clone()),
        None => Ok(documents),
    };
    let (compared, of_new) = compared_in_turn(cx, among)?;
    let columns = all_columns(&compared);
    let mut all = vec![compared.clone()];
    let turn = passages::turns(of_new);
    let marked = |documents: DataFrame, reference: bool, turn: Expr| -> Result<DataFrame> {
        let documents = documents.with_column("reference", lit(reference))?.with_column("turn", turn)?;
        Ok(among(documents)?.select(columns.clone())?)
    };
    if let Some(own) = own_uncompared(cx).await? {
        all.push(marked(own, false, turn.clone() + lit(1_u64))?);
    }
    if let Some(reference) = cx.reference
        && cx.rows(WorkTable::UNCOMPARED) > 0
    {
        let has_group =
            matches!(reference, ReferenceDocuments::Source(second) if second.source.group.is_some());
        let texts = read_texts(cx, uncompared(cx, true)?, None, |texts| {
            // Here, the number and order of an output's carried columns are unknown, so only a second source has groups.
            let group = Some(carried(0))
                .filter(|group| has_group && texts.schema().has_column_with_unqualified_name(group));
            let mut named = frames::columns(["id", "doc", "source", "position"]);
            named.push(lit(0_u64).alias("shingle_count"));
            named.push(frames::groups::group(group.as_deref()));
            Ok(texts.select(named)?)
        });
        let known = frames::keep::without_carried(texts.await?, &cx.job.clusters.order(), &compared)?;
        all.push(marked(without_place(known)?, true, turn - lit(1_u64))?);
    }
    frames::union(all.into_iter().map(Ok))?.ok_or_else(|| Error::bug("no document is searched"))
}

fn ordered_places(cx: &StageContext<'_>) -> Result<Vec<Expr>> {
    Ok([groups::ordered(cx.job)?, columns(["source", "position"])].concat())
}

/// The new documents that are searched but not compared, if there are any, with the columns of [`ordered_places`].
pub(super) async fn own_uncompared(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    if cx.rows(WorkTable::UNCOMPARED) == 0 {
        return Ok(None);
    }
    let mut all = columns(["id", "doc", "source", "position"]);
    all.push(lit(0_u64).alias("shingle_count"));
    let names = cx.job.source.columns.iter().enumerate();
    all.extend(names.map(|(at, name)| ident(carried(at)).alias(Source::stored(name))));
    let texts = own_texts_at(cx, cx.table(WorkTable::UNCOMPARED)?).await?;
    Ok(Some(texts.select(all)?.select(ordered_places(cx)?)?))
}

/// The compared documents with the columns that order them, and the value of `before` for new documents.
fn compared_in_turn(
    cx: &StageContext<'_>,
    among: impl Fn(DataFrame) -> Result<DataFrame>,
) -> Result<(DataFrame, Expr)> {
    let documents = among(cx.table(Table::Documents)?.select(ordered_places(cx)?)?)?;
    let clusters = cx.table(Table::Clusters)?;
    let spared = cx.job.clusters.spares().then(|| cx.table(Table::Spared)).transpose()?;
    let Some(reference) = cx.reference else {
        return Ok((passages::in_turn(documents, clusters, spared, None)?, lit(0_u64)));
    };
    let (known, of_new) = reference.in_order(cx, &documents)?;
    let known = Some((without_place(among(known)?)?, of_new.clone()));
    Ok((passages::in_turn(documents, clusters, spared, known)?, of_new))
}

/// Sets the positions of reference documents to null, since only spans in new documents are written.
fn without_place(documents: DataFrame) -> Result<DataFrame> {
    let documents = documents.with_column("source", lit(ScalarValue::Utf8(None)))?;
    Ok(documents.with_column("position", no_number())?)
}
