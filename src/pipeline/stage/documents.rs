//! The stages left_out, duplicates, cuts, dictionary and sketches, which read documents, and compute their shingles and sketches.

use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{
    AllSketches, Error, Job, Planned, Result, Stage, StageContext, StageTables, Table, WorkColumns,
    WorkTable, boxed, not_null, null,
};
use crate::error::counts::counted;
use crate::frames::{self, columns, utf8};
use crate::job::{DuplicateIds, Input, Reuse, SameId, ShingleHash, Source};
use crate::output::manifest::Counts;
use crate::output::write::TableRows;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::tables::SKETCH_COLUMNS;
use crate::pipeline::tables::WorkColumns::{Carried, Id, Nullable, NumberList, Numbers, Text, TextList};
use crate::source;

impl WorkTable {
    /// The number of skipped rows and files in each source.
    pub(crate) const LEFT_OUT: Self = Self::new(
        "left_out",
        &[Text("of"), Numbers(&["files", "by_where", "by_limit"]), Nullable(&Text("unread"))],
    );
    /// Documents with the same key as an earlier document, or with the id of a reference document.
    pub(crate) const DUPLICATES: Self = Self::new("duplicates", DUPLICATE_COLUMNS);
    pub(crate) const CUTS: Self = Self::new(
        "cuts",
        &[
            Text("source"),
            Numbers(&["position"]),
            Nullable(&Id),
            Nullable(&Numbers(&["doc"])),
            Nullable(&Text("reason")),
            Nullable(&TextList("texts")),
            Carried,
        ],
    );
    /// The numbers of the shingles in each document.
    pub(crate) const NUMBERS: Self = Self::new("numbers", &[Numbers(&["doc", "number"])]);
    /// The buckets of each document, and the hashes of its shingle set.
    pub(crate) const KEYS: Self =
        Self::new("keys", &[Numbers(&["doc", "set_hash_0", "set_hash_1"]), NumberList("buckets")]);
    pub(crate) const SKETCHES: Self = Self::new("sketches", SKETCH_COLUMNS);
}

pub(super) const DUPLICATE_COLUMNS: &[WorkColumns] =
    &[Text("source"), Numbers(&["position"]), Text("reason")];

const SOURCE: &str = "source";
const SECOND_SOURCE: &str = "against.source";

pub(super) static LEFT_OUT_ROWS: Stage = Stage::work(
    WorkTable::LEFT_OUT,
    |_| "count the rows that source.where and source.limit leave out".into(),
    |job| own_source(job).is_some() || job.second_source().is_some_and(Source::leaves_rows_out),
    boxed!(|cx| {
        let mut sources = Vec::new();
        if let Some((source, listed)) = own_source(cx.job).zip(cx.input.listed()) {
            sources.push((SOURCE, source, listed));
        }
        if let Some(ReferenceDocuments::Source(second)) = cx.reference
            && second.source.leaves_rows_out()
        {
            sources.push((SECOND_SOURCE, &second.source, &second.listed));
        }
        let mut counted = Vec::with_capacity(sources.len());
        for (of, source, listed) in sources {
            let left_out = source::left_out(cx.session(), source, listed).await?;
            counted.push(left_out.with_column("of", lit(of)).map_err(Error::from));
        }
        let counted = frames::union(counted)?.ok_or_else(|| Error::bug("no source leaves rows out"))?;
        Ok(Planned::new(0, vec![counted]))
    }),
);

/// The source of new documents, if the run reads texts and skips rows.
fn own_source(job: &Job) -> Option<&Source> {
    (job.reads_texts() && job.source.leaves_rows_out()).then_some(&job.source)
}

/// Adds the numbers of skipped rows and files to the counts of a run. They come from the sources, and from reused and merged outputs.
/// Returns warnings.
pub(in crate::pipeline) async fn count_left_out(
    cx: &StageContext<'_>,
    counts: &mut Counts,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if own_source(cx.job).is_some() {
        let ([files, by_where, by_limit], warning) = left_out(cx, SOURCE).await?;
        warnings.extend(warning);
        counts.files_left_out = Some(files);
        counts.rows_left_out_by_where = Some(by_where);
        counts.rows_left_out_by_limit = Some(by_limit);
    }
    for earlier in cx.input.earlier() {
        let add = |count: &mut Option<u64>, more: Option<u64>| {
            *count = more.map_or(*count, |more| Some(count.unwrap_or_default() + more))
        };
        add(&mut counts.files_left_out, earlier.counts.files_left_out);
        add(&mut counts.rows_left_out_by_where, earlier.counts.rows_left_out_by_where);
        add(&mut counts.rows_left_out_by_limit, earlier.counts.rows_left_out_by_limit);
    }
    if cx.job.second_source().is_some_and(Source::leaves_rows_out) {
        let ([files, by_where, by_limit], warning) = left_out(cx, SECOND_SOURCE).await?;
        warnings.extend(warning);
        counts.reference_files_left_out = Some(files);
        counts.reference_rows_left_out = Some(by_where + by_limit);
    }
    Ok(warnings)
}

/// Returns the number of skipped files, of rows that `where` skips, and of rows that `limit` skips, for the source named `of`. Also
/// returns a warning about texts that the condition cannot convert.
async fn left_out(cx: &StageContext<'_>, of: &str) -> Result<([u64; 3], Option<String>)> {
    let all = [columns(["files", "by_where", "by_limit"]), vec![utf8("unread")]].concat();
    let rows = cx.table(WorkTable::LEFT_OUT)?.filter(col("of").eq(lit(of)))?.select(all)?;
    let batches = rows.collect().await?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(Error::bug(format!("the rows that are left out of {of} were not counted")));
    };
    let number = |at| as_uint64_array(batch.column(at)).map(|column| column.value(0));
    let unread = as_string_array(batch.column(3))?.iter().flatten().find(|unread| !unread.is_empty());
    let warning = unread.map(|unread| {
        format!(
            "{of}.where converts texts, but some cannot be converted: {unread}; these are NULL in the condition; if this is wanted, write \
             TRY_CAST in it"
        )
    });
    Ok(([number(0)?, number(1)?, number(2)?], warning))
}

/// Rejects documents with the same id as an earlier document or a reference document, if the job asks for it.
pub(super) fn first_of_each_id(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    if !cx.is_taken(WorkTable::DUPLICATES) {
        return Ok(documents);
    }
    frames::documents::reject(documents, cx.table(WorkTable::DUPLICATES)?)
}

/// Finds documents with the same id as an earlier document, in a separate pass over the source. The pass keeps only ids, and the texts of
/// documents with repeated ids. Also finds documents with the id of a reference document, if the job skips them.
pub(super) static DUPLICATES: Stage = Stage::work(
    WorkTable::DUPLICATES,
    |_| "find documents that have the id of an earlier one".into(),
    |job| {
        job.reads_texts()
            && (job.source.duplicate_ids == DuplicateIds::Reject || job.same_id() == Some(SameId::Skip))
    },
    boxed!(|cx| {
        let (job, documents) = (cx.job, cx.documents.clone());
        let mut found = None;
        if let Some(outputs) = cx.reference_outputs().filter(|_| job.same_id() == Some(SameId::Skip)) {
            found = Some(frames::documents::reference_duplicates(documents.clone(), outputs.ids(cx)?)?);
        }
        if job.source.duplicate_ids == DuplicateIds::Reject {
            let repeated = frames::documents::duplicates(documents, &job.shingle)?;
            found = Some(match found {
                Some(found) => frames::documents::either_duplicates(found, repeated)?,
                None => repeated,
            });
        }
        let found = found.ok_or_else(|| Error::bug("there is nothing to look for in ids"))?;
        Ok(Planned::new(0, vec![found]))
    }),
);

fn has_dictionary(job: &Job) -> bool {
    job.reads_texts() && job.shingle.hash == ShingleHash::Dictionary
}

pub(super) static CUTS: Stage = Stage::work(
    WorkTable::CUTS,
    |job| {
        let (text, urls) = (job.source.text.join(" + "), job.source.urls.join(", "));
        format!("read {text} from {urls} and cut the shingles")
    },
    has_dictionary,
    boxed!(|cx| {
        let documents = first_of_each_id(cx, cx.documents.clone())?;
        let cuts = frames::sketches::cuts(documents, &cx.job.shingle)?;
        Ok(Planned { parts: cx.source_parts(), ..Planned::new(0, vec![cuts]) })
    }),
);

/// Numbers the shingles. A number is a rank among all shingles, so a single partition ranks all rows.
pub(super) static DICTIONARY: Stage = Stage::public(
    Table::Dictionary,
    |_| "number the distinct shingles of the collection".into(),
    has_dictionary,
    boxed!(|cx| Ok(Planned::new(0, vec![frames::sketches::numbers(cx.table(WorkTable::CUTS)?)?]))),
)
.with_tables(|_| vec![(WorkTable::NUMBERS.into(), TableRows::All), not_null(Table::Dictionary, "shingle")]);

/// Computes the shingles, signatures and buckets of all documents, or reads them from a finished output.
pub(super) static SKETCHES: Stage =
    Stage::work(WorkTable::SKETCHES, describe_sketches, |_| true, boxed!(|cx| plan_sketches(cx)))
        .with_tables(sketch_tables);

fn describe_sketches(job: &Job) -> String {
    let permutations = counted(job.minhash.permutations as u64, "permutation");
    if let Input::Reuse(Reuse { output, keeps_shingles }) = &job.input {
        let kept = if *keeps_shingles { "signatures and shingles" } else { "signatures" };
        return format!("take the {kept} of {output}, {permutations}");
    }
    if let Input::Merge(outputs) = &job.input {
        return format!("take the documents of {}", outputs.join(", "));
    }
    if job.shingle.hash == ShingleHash::Dictionary {
        return format!("take the numbers of the shingles, {permutations}");
    }
    format!(
        "read {} from {}, cut {}-{} shingles, {permutations}",
        job.source.text.join(" + "),
        job.source.urls.join(", "),
        job.shingle.size,
        format!("{:?}", job.shingle.unit).to_lowercase()
    )
}

fn sketch_tables(job: &Job) -> StageTables {
    let mut tables = vec![
        null(Table::Documents, "reason"),
        not_null(Table::Rejects, "reason"),
        null(WorkTable::KEYS, "reason"),
    ];
    if AllSketches::new(job) == AllSketches::InSketches {
        tables.push(null(WorkTable::SKETCHES, "reason"));
    }
    tables
}

fn plan_sketches<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let (job, documents) = (cx.job, cx.documents.clone());
    if !job.reads_texts() {
        return Ok(Planned::new(0, vec![documents]));
    }
    let (shingles, dictionary) = if job.shingle.hash == ShingleHash::Dictionary {
        let numbered = frames::sketches::numbered(cx.table(WorkTable::CUTS)?, cx.table(WorkTable::NUMBERS)?)?;
        (frames::sketches::measured(numbered, &job.shingle)?, Some(cx.rows(Table::Dictionary)))
    } else {
        let documents = first_of_each_id(cx, documents)?;
        (frames::sketches::counting_shingles(documents, &job.shingle, cx.frequent()?)?, None)
    };
    let signatures = frames::sketches::signatures(shingles, job, dictionary)?;
    // A run that reads texts has one source, with the number 0.
    let signatures = signatures.with_column("origin_number", lit(0_u64))?;
    let bands = if job.candidates.method.compares() {
        frames::sketches::bands(signatures, &job.lsh)?
    } else {
        frames::sketches::no_bands(signatures)?
    };
    let bytes = cx.bytes(WorkTable::CUTS) + cx.bytes(WorkTable::NUMBERS);
    Ok(Planned { parts: cx.source_parts(), ..Planned::new(bytes, vec![bands]) })
}
