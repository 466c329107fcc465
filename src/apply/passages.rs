//! The passages that repeat inside the documents of an output, and what is done with the occurrences that do not stay.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{bool_or, sum};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use serde::{Deserialize, Serialize};

use super::decisions::{rejected, removed_ids};
use super::settings::{ApplySettings, PassageAction};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, Job};
use crate::origins::numbered;
use crate::output::Stored;
use crate::output::manifest::ReferenceOutput;
use crate::rewrite::Rejects;
use crate::schema::{IdType, Table};
use crate::source::{self, DocumentPlaces, Listed, Rewriting, format_of, text_place};
use crate::udf::expr_fn::word_count;

/// The columns of the table of spans that are cut or marked.
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

/// The numbers of what is cut or marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageCounts {
    /// The occurrences of passages that do not stay, in documents that stay.
    pub spans: u64,
    /// The documents with such occurrences.
    pub documents: u64,
    /// Their words.
    pub words: u64,
    /// Their bytes in UTF-8.
    pub bytes: u64,
    /// Documents that are removed because too few words are left of them.
    pub too_short: u64,
}

/// The spans that do not stay, of documents that stay, in the columns of [`removed_spans_schema`]; `None` if they are left alone. The
/// documents `removed` (id, ..) go, unless every document stays.
pub(super) fn removed_spans(
    stored: &Stored,
    settings: &ApplySettings,
    removed: DataFrame,
) -> Result<Option<DataFrame>> {
    if settings.passages == PassageAction::Leave {
        return Ok(None);
    }
    let schema = removed_spans_schema(stored.manifest().source.id);
    let columns: Vec<Expr> = schema.fields().iter().map(|field| col(field.name())).collect();
    let spans = of_written(stored, settings)?.filter(!col("kept"))?;
    if settings.annotate {
        return Ok(Some(spans.select(columns)?));
    }
    let gone = removed.select(vec![col("id").alias("gone_id")])?;
    let spans = gone.clone().join(spans, JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    if !matches!(settings.passages, PassageAction::Drop) {
        return Ok(Some(spans.select(columns)?));
    }
    // Only documents that the run expected to go have passages that no document keeps.
    let expected = removed_ids(stored, settings.contained)?.with_column_renamed("gone_id", "expected")?;
    let others = expected.clone().join(spans.clone(), JoinType::RightAnti, &["expected"], &["id"], None)?;
    let others = others.select(columns.clone())?;
    if stored.job().passages.is_some_and(|passages| passages.words().is_some()) {
        // Several documents may keep the windows of a run, and the span names one of them.
        return Ok(Some(others));
    }
    let expected = expected.join(spans, JoinType::RightSemi, &["expected"], &["id"], None)?;
    let kept_elsewhere = kept_elsewhere(expected, staying(stored, gone)?)?.select(columns)?;
    Ok(Some(others.union(kept_elsewhere)?))
}

/// The spans of documents that may be written.
fn of_written(stored: &Stored, settings: &ApplySettings) -> Result<DataFrame> {
    let spans = stored.table(Table::Spans)?;
    if settings.rejects == Rejects::Keep {
        return Ok(spans);
    }
    // Rejects that are left out or go elsewhere are not changed.
    let rejects =
        rejected(stored, false)?.select(vec![col("source").alias("of"), col("position").alias("at")])?;
    Ok(rejects.join(spans, JoinType::RightAnti, &["of", "at"], &["source", "position"], None)?)
}

/// The compared documents (stay_id) that are not among `gone` (gone_id).
fn staying(stored: &Stored, gone: DataFrame) -> Result<DataFrame> {
    let documents = stored.table(Table::Documents)?.select(vec![col("id").alias("stay_id")])?;
    Ok(gone.join(documents, JoinType::RightAnti, &["gone_id"], &["stay_id"], None)?)
}

/// The `spans` whose passage one of the documents `staying` (stay_id) or a reference document keeps.
fn kept_elsewhere(spans: DataFrame, staying: DataFrame) -> Result<DataFrame> {
    // A reference document may have the id of a document of the source.
    let own = when(!col("kept_reference"), col("kept_id")).end()?;
    let spans = spans.with_column("own_kept_id", own)?;
    let spans = staying.join(spans, JoinType::Right, &["stay_id"], &["own_kept_id"], None)?;
    Ok(spans.filter(col("kept_reference").or(col("stay_id").is_not_null()))?)
}

/// The documents (id, source, position) with fewer than `min_words` words after the cut, whether or not another document represents
/// them. A document with an occurrence that stays is never among them, because no other document has its passage.
///
/// # Errors
/// When a table cannot be read, or the source is gone.
pub(super) async fn short(
    (stored, sources): (&Stored, &[(Job, Listed)]),
    settings: &ApplySettings,
) -> Result<DataFrame> {
    // Whether a document stays that was not compared is said by `settings.rejects`.
    let compared = stored.table(Table::Documents)?.select(vec![col("id").alias("compared")])?;
    let spans = stored.table(Table::Spans)?;
    let spans = compared.join(spans, JoinType::RightSemi, &["compared"], &["id"], None)?;
    let columns = ["id", "source", "position", "kept", "words"].map(col).to_vec();
    let staying = staying(stored, removed_ids(stored, settings.contained)?)?;
    let cut = kept_elsewhere(spans.clone().filter(!col("kept"))?, staying)?;
    let cut = cut
        .select(columns.clone())?
        .union(spans.filter(col("kept"))?.select(columns)?)?
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
    let places =
        cut.clone().select(vec![col("cut_source").alias("source"), col("cut_position").alias("position")])?;
    // Only an output that is not merged has spans, so it has one source.
    let places = DocumentPlaces::of_rows(places, lit(0_u64)).await?;
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

/// Refuses an output or a source in which passages cannot be marked or cut as `settings` say.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with what to do; and as [`text_place`].
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
            "--passages: {} was made against {}, whose job has [passages], and does not know what apply cut out of its documents or \
             dropped, so texts could be lost: name the result of apply in against.output instead of {1}, run the job again, and apply \
             its output; `resemblance apply {1} --to FOLDER` writes a result",
            stored.layout().shown(),
            reference.output
        )));
    }
    let of_job = stored.job().clusters.contained;
    if passages.cuts() && contained.is_some() && contained != of_job {
        return Err(Error::job(
            "--contained removes other documents than the run expected when it chose the passages that stay, so that some would be lost: \
             set clusters.contained in the job, run it again, and apply its output without --contained",
        ));
    }
    for (job, listed) in sources {
        refuse_source(&job.source, passages)?;
        text_place(stored.session(), &job.source, listed).await?;
    }
    Ok(())
}

/// A reference output of the run whose result of `apply` may lack texts or documents that the run took to be there.
pub(super) fn uncertain_reference(stored: &Stored) -> Option<&ReferenceOutput> {
    let references = &stored.manifest().reference_outputs;
    references.iter().find(|reference| reference.passages && reference.applied.is_none())
}

fn refuse_source(source: &job::Source, passages: PassageAction) -> Result<()> {
    let rewriting = format_of(source.format).rewriting;
    if passages == PassageAction::Mark && matches!(rewriting, Rewriting::WholeFile) {
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
