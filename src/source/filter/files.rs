//! The files of a source that may have documents, by the values in their paths.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt64Array};
use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::SessionContext;

use super::condition;
use crate::error::Result;
use crate::job::Source;
use crate::source::columns::{NamedExpressions, column, partition_name};
use crate::source::file::SourceFile;

/// Those of `files` whose partition columns `names` meet what the condition of the source demands of these; but the first one,
/// which tells the columns, if none does.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the condition does not fit the columns.
pub(in crate::source) async fn files(
    ctx: &SessionContext,
    source: &Source,
    names: &[String],
    files: &[Arc<SourceFile>],
) -> Result<Vec<Arc<SourceFile>>> {
    let demanded = source.condition.as_ref().map(|condition| condition.over(names)).transpose()?.flatten();
    let Some(demanded) = demanded.filter(|_| !files.is_empty()) else { return Ok(files.to_vec()) };
    let mut columns: Vec<(String, ArrayRef)> =
        vec![("file".to_owned(), Arc::new(UInt64Array::from_iter_values(0..files.len() as u64)))];
    let mut values = NamedExpressions::new();
    for (at, name) in names.iter().enumerate() {
        let of_files = files.iter().map(|file| file.partitions.value(name).flatten());
        columns.push((partition_name(at), Arc::new(StringViewArray::from_iter(of_files))));
        values.push((name.clone(), column(partition_name(at))));
    }
    let all = ctx.read_batch(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, values)| (name, values, true)),
    )?)?;
    let meets = condition::expression(ctx, &demanded, &values, all.schema())?.meets.is_true();
    let mut met: Vec<u64> = Vec::new();
    for batch in all.filter(meets)?.select(vec![column("file")])?.collect().await? {
        met.extend_from_slice(as_uint64_array(batch.column(0))?.values());
    }
    met.sort_unstable();
    if met.is_empty() {
        met.push(0);
    }
    Ok(met.into_iter().filter_map(|at| files.get(at as usize).cloned()).collect())
}
