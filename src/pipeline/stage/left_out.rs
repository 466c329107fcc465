//! left_out: the numbers of rows and files that are no documents, by `source.where` and `source.limit`.

use arrow::datatypes::{DataType, Field};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{col, lit};

use super::interface::{
    AnyTable, Error, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, WorkTable, frames,
};
use crate::job::Source;
use crate::output::counts::Counts;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::tables::numbers;
use crate::source;

impl WorkTable {
    /// The numbers of rows and files that are left out of each source.
    pub(crate) const LEFT_OUT: Self = Self::new("left_out", columns);
}

/// The source of the job, and the second source.
const SOURCE: &str = "source";
const SECOND_SOURCE: &str = "against.source";

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![Field::new("of", DataType::Utf8, false)];
    columns.extend(numbers(["files", "by_where", "by_limit"]));
    columns.push(Field::new("unread", DataType::Utf8, true));
    columns
}

/// Counts the rows and files that are left out.
pub(super) static LEFT_OUT_ROWS: Stage = Stage::new(
    AnyTable::Work(WorkTable::LEFT_OUT),
    |_| "count the rows that source.where and source.limit leave out".into(),
    |job| own_source(job).is_some() || job.second_source().is_some_and(Source::leaves_rows_out),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let mut sources = Vec::new();
            if let Some((source, listed)) = own_source(cx.job).zip(cx.input.listed()) {
                sources.push((SOURCE, source, listed));
            }
            if let Some(ReferenceDocuments::Source(second)) = cx.reference {
                let (source, listed) = second.files();
                if source.leaves_rows_out() {
                    sources.push((SECOND_SOURCE, source, listed));
                }
            }
            let mut counted = Vec::with_capacity(sources.len());
            for (of, source, listed) in sources {
                let left_out = source::left_out(cx.session(), source, listed).await?;
                counted.push(left_out.with_column("of", lit(of)).map_err(Error::from));
            }
            let counted = frames::union(counted)?.ok_or_else(|| Error::bug("no source leaves rows out"))?;
            Ok(Planned::new(0, vec![counted]))
        })
    }),
);

/// The source that the job reads, if it leaves rows out.
fn own_source(job: &Job) -> Option<&Source> {
    (job.reads_texts() && job.source.leaves_rows_out()).then_some(&job.source)
}

/// What is left out of a source.
#[derive(Debug)]
struct LeftOut {
    files: u64,
    by_where: u64,
    by_limit: u64,
    /// A sentence about texts that the condition cannot convert.
    unread: Option<String>,
}

/// Adds what is left out of the sources to the counts of a run; where the documents of other outputs are taken, what their runs
/// left out. Returns sentences for the user.
///
/// # Errors
/// When the table cannot be read.
pub(in crate::pipeline) async fn count(cx: &StageContext<'_>, counts: &mut Counts) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if own_source(cx.job).is_some() {
        let LeftOut { files, by_where, by_limit, unread } = left_out(cx, SOURCE).await?;
        warnings.extend(unread);
        counts.files_left_out = Some(files);
        counts.rows_left_out_by_where = Some(by_where);
        counts.rows_left_out_by_limit = Some(by_limit);
    }
    for earlier in cx.input.earlier() {
        let of = &earlier.counts;
        let add = |count: &mut Option<u64>, of: Option<u64>| {
            *count = of.map_or(*count, |of| Some(count.unwrap_or_default() + of))
        };
        add(&mut counts.files_left_out, of.files_left_out);
        add(&mut counts.rows_left_out_by_where, of.rows_left_out_by_where);
        add(&mut counts.rows_left_out_by_limit, of.rows_left_out_by_limit);
    }
    if cx.job.second_source().is_some_and(Source::leaves_rows_out) {
        let LeftOut { files, by_where, by_limit, unread } = left_out(cx, SECOND_SOURCE).await?;
        warnings.extend(unread);
        counts.reference_files_left_out = Some(files);
        counts.reference_rows_left_out = Some(by_where + by_limit);
    }
    Ok(warnings)
}

/// What is left out of the source `of`.
async fn left_out(cx: &StageContext<'_>, of: &str) -> Result<LeftOut> {
    let columns = vec![col("files"), col("by_where"), col("by_limit"), frames::utf8("unread")];
    let rows = cx.table(WorkTable::LEFT_OUT)?.filter(col("of").eq(lit(of)))?.select(columns)?;
    let batches = rows.collect().await?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(Error::bug(format!("the rows that are left out of {of} were not counted")));
    };
    let number = |at| as_uint64_array(batch.column(at)).map(|column| column.value(0));
    let unread = as_string_array(batch.column(3))?.iter().flatten().find(|unread| !unread.is_empty());
    let unread = unread.map(|unread| {
        format!(
            "{of}.where converts texts, and some have another form: {unread}; these are NULL in the condition, and TRY_CAST in it says that \
             this is wanted"
        )
    });
    Ok(LeftOut { files: number(0)?, by_where: number(1)?, by_limit: number(2)?, unread })
}
