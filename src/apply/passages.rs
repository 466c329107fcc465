//! The passages that repeat inside the documents of an output, and what is done with the occurrences that do not stay.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::common::cast::as_int64_array;
use datafusion::functions_aggregate::expr_fn::{bool_or, count, sum};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::decisions::{TOO_SHORT, rejected, removed_ids, removed_schema};
use super::passage_action::{PassageCounts, Passages};
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::frames::by_group;
use crate::job::{self, Encoding, Job};
use crate::origins::numbered;
use crate::output::Stored;
use crate::output::manifest::ReferenceOutput;
use crate::rewrite::Rejects;
use crate::schema::{IdType, Table};
use crate::source::{self, Listed, Places, Rewriting, format_of, text_place};
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

/// The columns of the table of documents that become too short.
pub(super) fn short_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", id.arrow(), false),
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
    ]))
}

/// The spans that do not stay, of documents that stay, in the columns of [`removed_spans_schema`]. The documents `removed` (id, ..) go.
pub(super) fn removed_spans(
    stored: &Stored,
    settings: Settings,
    removed: Option<DataFrame>,
) -> Result<DataFrame> {
    let schema = removed_spans_schema(stored.manifest().source.id);
    let columns: Vec<Expr> = schema.fields().iter().map(|field| col(field.name())).collect();
    let spans = of_written(stored, settings)?.filter(!col("kept"))?;
    let Some(removed) = removed else { return Ok(spans.select(columns)?) };
    let gone = removed.select(vec![col("id").alias("gone_id")])?;
    let spans = gone.clone().join(spans, JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    if !matches!(settings.passages, Passages::Drop { .. }) {
        return Ok(spans.select(columns)?);
    }
    // Only documents that the run expected to go have passages that no document keeps.
    let expected = removed_ids(stored, settings.contained)?.with_column_renamed("gone_id", "expected")?;
    let others = expected.clone().join(spans.clone(), JoinType::RightAnti, &["expected"], &["id"], None)?;
    let others = others.select(columns.clone())?;
    if stored.job().passages.is_some_and(|passages| passages.words().is_some()) {
        // Several documents may keep the windows of a run, and the span names one of them.
        return Ok(others);
    }
    let expected = expected.join(spans, JoinType::RightSemi, &["expected"], &["id"], None)?;
    Ok(others.union(kept_elsewhere(expected, staying(stored, gone)?)?.select(columns)?)?)
}

/// The spans of documents that may be written.
fn of_written(stored: &Stored, settings: Settings) -> Result<DataFrame> {
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

/// The documents that hold fewer than `min_words` words after the cut, in the columns of [`short_schema`], also of those that another
/// one represents. Documents that hold an occurrence that stays are not among them, because no other document has its passage.
///
/// # Errors
/// When a table cannot be read, or the source is gone.
pub(super) async fn short(
    (stored, sources): (&Stored, &[(Job, Listed)]),
    settings: Settings,
    min_words: u64,
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
    let places = Places::of_rows(places, lit(0_u64)).await?;
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
    Ok(rows.filter(left.lt(lit(min_words.min(i64::MAX as u64) as i64)))?.select(columns)?)
}

/// The documents `dropped` (id, source, position, ..) in the columns of [`removed_schema`]. `group` is the column of their groups, if the
/// job has one.
pub(super) fn removed_as_short(
    stored: &Stored,
    dropped: DataFrame,
    group: Option<&str>,
) -> Result<DataFrame> {
    let groups = stored.table(Table::Documents)?;
    let groups =
        groups.select(vec![col("id").alias("of_id"), col("origin_number"), by_group::group(group)])?;
    let rows = dropped.join(groups, JoinType::Inner, &["id"], &["of_id"], None)?;
    let value = |field: &FieldRef| {
        let value = match field.name().as_str() {
            name @ ("id" | "source" | "position" | "origin_number" | "group") => col(name),
            "reason" => lit(TOO_SHORT),
            _ => lit(ScalarValue::Null),
        };
        cast(value, field.data_type().clone()).alias(field.name())
    };
    let schema = removed_schema(stored.manifest().source.id);
    Ok(rows.select(schema.fields().iter().map(value).collect::<Vec<_>>())?)
}

/// The numbers of the spans of [`removed_spans`] and of the documents that are `dropped`.
pub(super) async fn counts(spans: DataFrame, dropped: Option<DataFrame>) -> Result<PassageCounts> {
    let bytes = sum(col("byte_end") - col("byte_start")).alias("bytes");
    let by_document = spans.aggregate(
        vec![col("source"), col("position")],
        vec![count(lit(1)).alias("spans"), sum(col("words")).alias("words"), bytes],
    )?;
    let all = by_document.aggregate(
        vec![],
        vec![
            sum(col("spans")).alias("spans"),
            count(lit(1)).alias("documents"),
            sum(col("words")).alias("words"),
            sum(col("bytes")).alias("bytes"),
        ],
    )?;
    let columns = ["spans", "documents", "words", "bytes"];
    let all = all.select(columns.map(|name| cast(col(name), DataType::Int64).alias(name)).to_vec())?;
    let mut numbers = [0_u64; 4];
    for batch in all.collect().await? {
        for (number, column) in numbers.iter_mut().zip(batch.columns()) {
            // A sum of no rows is null.
            *number += as_int64_array(column)?.iter().flatten().map(i64::cast_unsigned).sum::<u64>();
        }
    }
    let [spans, documents, words, bytes] = numbers;
    let too_short = match dropped {
        Some(dropped) => dropped.count().await? as u64,
        None => 0,
    };
    Ok(PassageCounts { spans, documents, words, bytes, too_short })
}

/// Refuses an output or a source in which passages cannot be marked or cut as `settings` say.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with what to do; and as [`text_place`].
pub(super) async fn refuse((stored, sources): (&Stored, &[(Job, Listed)]), settings: Settings) -> Result<()> {
    let Settings { passages, annotate, contained, .. } = settings;
    if passages == Passages::Leave {
        return Ok(());
    }
    if !stored.manifest().tables.contains_key(Table::Spans.name()) {
        return Err(Error::job(format!(
            "--passages: {} has no table spans: add the section [passages] to its job, run it again, and apply its output",
            stored.layout().shown()
        )));
    }
    if annotate && matches!(passages, Passages::Drop { .. }) {
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

fn refuse_source(source: &job::Source, passages: Passages) -> Result<()> {
    let rewriting = format_of(source.format).rewriting;
    if passages == Passages::Mark && matches!(rewriting, Rewriting::WholeFile) {
        return Err(Error::job(
            "text files have no columns that --passages mark could add to: use --passages cut, or read the table spans of the output",
        ));
    }
    let has_bytes = matches!(rewriting, Rewriting::Rows(_) | Rewriting::WholeFile);
    let is_readable = match passages {
        Passages::Mark => matches!(source.encoding, Encoding::Utf8 | Encoding::Utf8Lossy),
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
