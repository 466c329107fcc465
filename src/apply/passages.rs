//! Repeated passages inside documents. Finds the occurrences that are cut or marked, and the documents that become too short.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{bool_or, sum};
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::decisions::{rejected, removed_ids, with_columns};
use super::manifest::{ApplySettings, PassageAction};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, Job};
use crate::origins::numbered;
use crate::output::Stored;
use crate::output::manifest::ReferenceOutput;
use crate::rewrite::Rejects;
use crate::schema::{IdType, Table};
use crate::source::{self, DocumentPlaces, Listed, Rewriting, format_of, text_place};
use crate::udf::expr_fn::word_count;

pub(super) fn removed_spans_schema(id: IdType) -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        Field::new("id", id.arrow(), false),
        Field::new("source", DataType::Utf8, false),
        number("position"),
        number("byte_start"),
        number("byte_end"),
        number("words"),
        Field::new("passage_id", DataType::Utf8, false),
        Field::new("kept_id", id.arrow(), false),
        Field::new("kept_reference", DataType::Boolean, false),
        number("kept_char_start"),
    ]))
}

/// Returns the passages to cut or mark, in the columns of [`removed_spans_schema`]. Returns `None` if the settings do not change passages.
/// Passages in the documents `removed` (id, ..) are omitted. If the settings annotate documents, passages in all documents are returned.
pub(super) fn removed_spans(
    stored: &Stored,
    settings: &ApplySettings,
    removed: DataFrame,
) -> Result<Option<DataFrame>> {
    if settings.passages == PassageAction::Leave {
        return Ok(None);
    }
    let spans = written_spans(stored, settings)?.filter(!col("kept"))?;
    let spans = if settings.annotate { spans } else { cut_spans(stored, settings, spans, removed)? };
    let schema = removed_spans_schema(stored.manifest().source.id);
    Ok(Some(spans.select(schema.fields().iter().map(|field| col(field.name())).collect::<Vec<_>>())?))
}

/// Keeps the `spans` that are cut or marked in documents outside `removed` (id, ..).
fn cut_spans(
    stored: &Stored,
    settings: &ApplySettings,
    spans: DataFrame,
    removed: DataFrame,
) -> Result<DataFrame> {
    let gone = removed.select_exprs(&["id AS gone_id"])?;
    let spans = gone.clone().join(spans, JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    if settings.passages != PassageAction::Drop {
        return Ok(spans);
    }
    // A document that the run expected to be removed can stay if its representative becomes too short. Then the document with the kept
    // occurrence of a passage may be gone. In any other document, a passage is always kept by some document.
    let expected = removed_ids(stored, settings.contained)?.with_column_renamed("gone_id", "expected")?;
    let others = expected.clone().join(spans.clone(), JoinType::RightAnti, &["expected"], &["id"], None)?;
    if stored.job().passages.is_some_and(|passages| passages.words().is_some()) {
        // Spans do not name every document that keeps a window of their words, so the check is not possible.
        return Ok(others);
    }
    let expected = expected.join(spans, JoinType::RightSemi, &["expected"], &["id"], None)?;
    Ok(others.union(kept_elsewhere(expected, staying(stored, gone)?)?)?)
}

/// Returns the passages in documents that may be written.
fn written_spans(stored: &Stored, settings: &ApplySettings) -> Result<DataFrame> {
    let spans = stored.table(Table::Spans)?;
    if settings.rejects == Rejects::Keep {
        return Ok(spans);
    }
    // Rejected documents are not changed if they are dropped or written to separate files.
    let rejects = rejected(stored, false)?.select_exprs(&["source AS file", "position AS row_number"])?;
    Ok(rejects.join(spans, JoinType::RightAnti, &["file", "row_number"], &["source", "position"], None)?)
}

/// Returns the compared documents (stay_id) that are not in `gone` (gone_id).
fn staying(stored: &Stored, gone: DataFrame) -> Result<DataFrame> {
    let documents = stored.table(Table::Documents)?.select_exprs(&["id AS stay_id"])?;
    Ok(gone.join(documents, JoinType::RightAnti, &["gone_id"], &["stay_id"], None)?)
}

/// Keeps the `spans` of passages that a document in `staying` (stay_id) or a reference document keeps.
fn kept_elsewhere(spans: DataFrame, staying: DataFrame) -> Result<DataFrame> {
    // The join by id skips reference documents, which can have the same ids as documents in the source.
    let spans = with_columns(spans, &[("own_kept_id", "CASE WHEN NOT kept_reference THEN kept_id END")])?;
    let spans = staying.join(spans, JoinType::Right, &["stay_id"], &["own_kept_id"], None)?;
    let kept = spans.filter(col("kept_reference").or(col("stay_id").is_not_null()))?;
    Ok(kept.drop_columns(&["stay_id", "own_kept_id"])?)
}

/// Returns the documents (id, source, position) with fewer than `min_words` words after the cut. A document that keeps an occurrence of a
/// passage is never returned, because no other document would contain the passage.
pub(super) async fn short(
    (stored, sources): (&Stored, &[(Job, Listed)]),
    settings: &ApplySettings,
) -> Result<DataFrame> {
    // `settings.rejects` decides about uncompared documents.
    let compared = stored.table(Table::Documents)?.select_exprs(&["id AS compared"])?;
    let spans = stored.table(Table::Spans)?;
    let spans = compared.join(spans, JoinType::RightSemi, &["compared"], &["id"], None)?;
    let columns = ["id", "source", "position", "kept", "words"];
    let staying = staying(stored, removed_ids(stored, settings.contained)?)?;
    let cut = kept_elsewhere(spans.clone().filter(!col("kept"))?, staying)?;
    let cut = cut
        .select_columns(&columns)?
        .union(spans.filter(col("kept"))?.select_columns(&columns)?)?
        .aggregate(
            vec![col("id"), col("source"), col("position")],
            vec![bool_or(col("kept")).alias("keeps"), sum(col("words")).alias("cut_words")],
        )?
        .filter(!col("keeps"))?
        .select(vec![
            col("id"),
            cast(col("source"), DataType::Utf8).alias("cut_source"),
            cast(col("position"), DataType::UInt64).alias("cut_position"),
            col("cut_words"),
        ])?;
    let places = cut.clone().select_exprs(&["cut_source AS source", "cut_position AS position"])?;
    // Merged outputs have no spans, so there is one source.
    let places = DocumentPlaces::from_frame(places, lit(0_u64)).await?;
    let texts = source::read_at(stored.session(), numbered(sources), places, None).await?;
    let number = |name: &str| cast(col(name), DataType::Int64);
    let columns =
        vec![col("id"), col("cut_source").alias("source"), number("cut_position").alias("position")];
    let Some((_, texts)) = texts.into_iter().next() else {
        return Ok(cut.filter(lit(false))?.select(columns)?);
    };
    let texts = texts.select(vec![
        cast(col("source"), DataType::Utf8).alias("source"),
        col("position"),
        word_count(col("text"), &stored.job().shingle).alias("text_words"),
    ])?;
    let (left, right) = (&["cut_source", "cut_position"], &["source", "position"]);
    let rows = cut.join(texts, JoinType::Inner, left, right, None)?;
    let left = number("text_words") - number("cut_words");
    Ok(rows.filter(left.lt(lit(settings.min_words.min(i64::MAX as u64) as i64)))?.select(columns)?)
}

/// Refuses, with `Kind::Job` and advice, an output or a source whose passages cannot be marked or cut with `settings`.
pub(super) async fn refuse(
    (stored, sources): (&Stored, &[(Job, Listed)]),
    settings: &ApplySettings,
) -> Result<()> {
    let ApplySettings { passages, annotate, contained, .. } = *settings;
    if passages == PassageAction::Leave {
        return Ok(());
    }
    if !stored.manifest().tables.contains_key(Table::Spans.name()) {
        return Err(Error::job(format!(
            "--passages: {} has no table spans: add the section [passages] to its job, run it again, and apply its output",
            stored.layout().shown()
        )));
    }
    if annotate && passages == PassageAction::Drop {
        return Err(Error::job(
            "--annotate keeps every document, and --passages drop removes those that become too short: use --passages cut, or leave out \
             --annotate",
        ));
    }
    if let Some(reference) = uncertain_reference(stored).filter(|_| passages.cuts()) {
        return Err(Error::job(format!(
            "--passages: {} was made against {}, whose job has [passages], so texts that apply cut or dropped could be lost: name the \
             result of apply in against.output instead of {1}, run the job again, and apply its output; `resemblance apply {1} --to \
             FOLDER` writes a result",
            stored.layout().shown(),
            reference.output
        )));
    }
    let of_job = stored.job().clusters.contained;
    if passages.cuts() && contained.is_some() && contained != of_job {
        return Err(Error::job(
            "--contained removes other documents than the run expected, so that some passages would be lost: set clusters.contained in the \
             job, run it again, and apply its output without --contained",
        ));
    }
    for (job, listed) in sources {
        refuse_source(&job.source, passages)?;
        text_place(stored.session(), &job.source, listed).await?;
    }
    Ok(())
}

/// Returns a reference output that the run treated as complete, although a result of `apply` over this output may lack texts or documents.
pub(super) fn uncertain_reference(stored: &Stored) -> Option<&ReferenceOutput> {
    let references = &stored.manifest().reference_outputs;
    references.iter().find(|reference| reference.passages && reference.applied.is_none())
}

fn refuse_source(source: &job::Source, passages: PassageAction) -> Result<()> {
    let format = format_of(source.format);
    let rewriting = format.rewriting;
    if passages == PassageAction::Mark && !format.takes_columns() {
        return Err(Error::job(
            "text files have no columns that --passages mark could add to: use --passages cut, or read the table spans of the output",
        ));
    }
    let has_bytes = matches!(rewriting, Rewriting::Rows(_) | Rewriting::WholeFile);
    let is_readable = match passages {
        PassageAction::Mark => matches!(source.encoding, Encoding::Utf8 | Encoding::Utf8Lossy),
        _ => source.encoding == Encoding::Utf8,
    };
    if has_bytes && !is_readable {
        return Err(Error::job(format!(
            "--passages writes UTF-8, and source.encoding is {}: convert the files to UTF-8 and run the job again, or apply without \
             --passages",
            source.encoding
        )));
    }
    Ok(())
}
