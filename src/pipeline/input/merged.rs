//! Several finished outputs, merged into one.

use datafusion::prelude::SessionContext;

use super::read::{FirstStageInput, as_input};
use crate::error::{Error, Result};
use crate::frames;
use crate::job::Job;
use crate::pipeline::reference::chain::{Chain, first_other, union};
use crate::schema::Table;

/// Opens the outputs at `urls`, and checks that one run could have found their pairs.
///
/// # Errors
/// As [`Chain::open`] and [`Chain::check_compared`], and [`Kind::Job`](crate::error::Kind::Job) if an output was made
/// by other rules.
pub(crate) async fn open(session: &SessionContext, urls: &[String], job: &Job) -> Result<Chain> {
    let chain = Chain::open(session, urls, "the command", job).await?;
    chain.check_compared()?;
    chain.check_ids().await?;
    let types = chain.types();
    for stored in chain.outputs() {
        let (made, shown) = (stored.job(), stored.layout().shown());
        if let Some(key) = other_rule(made, job) {
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
    Ok(chain)
}

/// The documents of all outputs, without those that were replaced, and their rejects.
pub(crate) fn read(chain: &Chain, job: &Job) -> Result<FirstStageInput> {
    let types = chain.types();
    let keeps_shingles = job.output.keep.shingles();
    let documents =
        chain.live(|at, _| Ok(frames::reused::columns(&types, keeps_shingles, chain.origin(at))))?;
    let rejects = union(chain.outputs().iter().enumerate().map(|(at, stored)| {
        Ok(stored.table(Table::Rejects)?.with_column("origin_number", chain.origin(at))?)
    }))?;
    let documents = frames::reused::reused(documents, rejects, &job.lsh)?;
    Ok(FirstStageInput { documents, types, inputs: chain.outputs().iter().map(as_input).collect() })
}

/// The first key that decides pairs or clusters and differs between two jobs.
fn other_rule(made: &Job, job: &Job) -> Option<&'static str> {
    let keys = [
        ("candidates.method", made.candidates == job.candidates),
        ("score", made.score == job.score),
        ("source.group", made.source.group == job.source.group),
        ("clusters.method", made.clusters.method == job.clusters.method),
        ("clusters.keep", made.clusters.order() == job.clusters.order()),
        ("clusters.contained", made.clusters.contained == job.clusters.contained),
        ("lsh", (made.lsh.bands, made.lsh.rows) == (job.lsh.bands, job.lsh.rows)),
        ("lsh.bucket_hash", made.lsh.bucket_hash == job.lsh.bucket_hash),
        ("lsh.table_size", made.lsh.table_size == job.lsh.table_size),
        ("output.expand", made.output.expand == job.output.expand),
        ("output.max_expand", made.output.max_expand == job.output.max_expand),
    ];
    first_other(&keys)
}
