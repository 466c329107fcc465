//! Several finished outputs, read as one.

use datafusion::prelude::SessionContext;

use super::earlier::{Earlier, first_other, union};
use super::read::{Read, as_input};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::schema::Table;
use crate::stage;

/// Opens the outputs at `urls`, and makes sure that their rows are those of one job.
///
/// # Errors
/// As [`Earlier::open`] and [`Earlier::check_compared`], and where pairs were kept by other rules.
pub(super) async fn open(session: &SessionContext, urls: &[String], job: &Job) -> Result<Earlier> {
    let earlier = Earlier::open(session, urls, "the command", job).await?;
    earlier.check_compared()?;
    let types = earlier.types();
    for stored in earlier.outputs() {
        let (made, shown) = (stored.job()?, stored.layout().shown());
        if let Some(key) = other_rule(&made, job) {
            return Err(Error::job(format!(
                "{shown} was made with another `{key}` than the last output, so their pairs are not those of one run: make it \
                 again with the same one"
            )));
        }
        if stored.manifest().source != types {
            return Err(Error::job(format!(
                "{shown} has ids of another type, or other columns of the source, than the last output: make it again with the \
                 same source.id and source.columns"
            )));
        }
    }
    Ok(earlier)
}

/// The documents of all outputs, without those that were replaced, and their rejects.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn read(session: &SessionContext, earlier: &Earlier, job: &Job) -> Result<Read> {
    let types = earlier.types();
    let keeps_shingles = job.output.keep.shingles();
    let documents = earlier.live(session, |_, _| Ok(stage::reused::columns(&types, keeps_shingles)))?;
    let rejects = union(earlier.outputs().iter().map(|stored| stored.table(session, Table::Rejects)))?;
    let documents = stage::reused::reused(documents, rejects, &job.lsh)?;
    Ok(Read { documents, types, inputs: earlier.outputs().iter().map(as_input).collect() })
}

/// The first key of those that decide which pairs are kept which the two jobs have differently.
fn other_rule(made: &Job, job: &Job) -> Option<&'static str> {
    let keys = [
        ("candidates.method", made.candidates == job.candidates),
        ("score", made.score == job.score),
        ("source.group", made.source.group == job.source.group),
        ("clusters.keep", made.clusters == job.clusters),
        ("lsh", (made.lsh.bands, made.lsh.rows) == (job.lsh.bands, job.lsh.rows)),
        ("lsh.bucket_hash", made.lsh.bucket_hash == job.lsh.bucket_hash),
        ("lsh.table_size", made.lsh.table_size == job.lsh.table_size),
        ("output.expand", made.output.expand == job.output.expand),
        ("output.max_expand", made.output.max_expand == job.output.max_expand),
    ];
    first_other(&keys)
}
