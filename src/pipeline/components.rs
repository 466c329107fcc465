//! components: by union-find while that fits, else by rounds of large-star and small-star, each a step of its own.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::exec_datafusion_err;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::DataFrame;
use futures::{TryStreamExt, stream};

use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use crate::clusters::Components;
use crate::error::{Error, Result};
use crate::stage;

/// The name by which the memory pool knows the union-find.
const CONSUMER: &str = "connected components";

/// Of the memory pool, the share that the union-find may take, in quarters. The rest is for the table that it writes.
const QUARTERS: usize = 3;

/// Rows of a batch of the table.
const BATCH_ROWS: usize = 8_192;

/// Finds the components of documents.
///
/// `edges` (a, b) are what connects documents.
pub(super) async fn components(steps: &Steps<'_>, edges: DataFrame) -> Result<()> {
    if steps.is_done(Step::Components).await? {
        return steps.run_here(Step::Components, vec![]).await;
    }
    match union_find(steps, edges.clone()).await? {
        Some(found) => {
            let schema = WorkTable::Components.schema(steps.source());
            let rows = FoundRows { found: Mutex::new(Some(found)), schema: Arc::clone(&schema) };
            let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
            let frame = steps.session().read_table(Arc::new(table))?;
            steps.run_here(Step::Components, vec![frame]).await
        }
        None => {
            let last = stars(steps, edges).await?;
            let frame = stage::components::components(steps.table(last)?)?;
            steps.run(Step::Components, steps.bytes(last), vec![frame]).await
        }
    }
}

/// Components in memory that is reserved for them.
struct Found {
    components: Components,
    _memory: MemoryReservation,
}

/// The components by union-find; `None` if it would take more memory than it may.
async fn union_find(steps: &Steps<'_>, edges: DataFrame) -> Result<Option<Found>> {
    let pool = &steps.session().runtime_env().memory_pool;
    let bound = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / 4 * QUARTERS,
        _ => usize::MAX,
    };
    let memory = MemoryConsumer::new(CONSUMER).register(pool);
    let mut edges = edges.execute_stream().await?;
    let mut components = Components::default();
    while let Some(batch) = edges.try_next().await? {
        if steps.stopped() {
            return Err(Error::interrupted());
        }
        let room = 2 * batch.num_rows();
        let fits = components
            .bytes_with_room(room)
            .is_some_and(|bytes| bytes <= bound && memory.try_resize(bytes).is_ok());
        if !fits {
            tracing::info!(
                nodes = components.len(),
                megabytes = (components.bytes() as f64 / 1e6) as u64,
                "connected components do not fit in memory, so they are found in rounds"
            );
            return Ok(None);
        }
        components.make_room(room);
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        for (&a, &b) in a.values().iter().zip(b.values()) {
            components.join(a, b);
        }
    }
    Ok(Some(Found { components, _memory: memory }))
}

/// The rows (doc, root) of components in memory, in batches: read once.
struct FoundRows {
    found: Mutex<Option<Found>>,
    schema: SchemaRef,
}

impl fmt::Debug for FoundRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CONSUMER)
    }
}

impl PartitionStream for FoundRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = found.ok_or_else(|| exec_datafusion_err!("the components were read already"));
        let schema = Arc::clone(&self.schema);
        let batches = stream::once(async { found })
            .map_ok(move |found| stream::iter(batches(found, Arc::clone(&schema))));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.try_flatten()))
    }
}

fn batches(
    mut found: Found,
    schema: SchemaRef,
) -> impl Iterator<Item = datafusion::error::Result<RecordBatch>> {
    (0..found.components.len()).step_by(BATCH_ROWS).map(move |from| {
        let (docs, roots) = found.components.roots(from..from + BATCH_ROWS);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(docs)), Arc::new(UInt64Array::from(roots))];
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    })
}

/// Runs rounds until one changes nothing. Returns the table of the last one.
///
/// Of the rounds only the last one is kept, so a run that is taken up begins with the last round that it finds.
async fn stars(steps: &Steps<'_>, connected: DataFrame) -> Result<WorkTable> {
    let there = steps.finished_earlier().await?;
    let rounds = there.iter().filter_map(|step| match Step::star_named(step)? {
        Step::LargeStar(round) | Step::SmallStar(round) => Some(round),
        _ => None,
    });
    let mut round = rounds.max().unwrap_or(1).max(1);
    // Whether there is what it starts from.
    let mut has_before = take_over(steps, Step::SmallStar(round - 1)).await?;
    loop {
        let (large, small) = (Step::LargeStar(round), Step::SmallStar(round));
        let before = WorkTable::SmallStar(round - 1);
        if !take_over(steps, small).await? {
            if !take_over(steps, large).await? {
                if round > 1 && !has_before {
                    // An earlier run's last round is damaged, and what it was made of is gone.
                    round = 1;
                    continue;
                }
                let edges = match has_before {
                    true => steps.table(before)?,
                    false => stage::components::edges(connected.clone())?,
                };
                run(steps, large, stage::components::large_star(edges)?).await?;
            }
            let edges = steps.table(WorkTable::LargeStar(round))?;
            run(steps, small, stage::components::small_star(edges)?).await?;
        }
        let after = WorkTable::SmallStar(round);
        let done = has_before && is_same(steps, before, after).await?;
        for old in [large, Step::SmallStar(round - 1)] {
            steps.remove(old).await;
        }
        if done {
            tracing::info!(rounds = round, "connected components were found");
            return Ok(after);
        }
        (has_before, round) = (true, round + 1);
    }
}

/// Takes over a half of a round of an earlier run: whether it is there.
async fn take_over(steps: &Steps<'_>, star: Step) -> Result<bool> {
    if !steps.is_done(star).await? {
        return Ok(false);
    }
    steps.expect(1);
    steps.run(star, 0, vec![]).await?;
    Ok(true)
}

async fn run(steps: &Steps<'_>, star: Step, frame: DataFrame) -> Result<()> {
    steps.expect(1);
    steps.run(star, 0, vec![frame]).await
}

/// Whether the rounds between two tables changed nothing: see [`stage::components::low_ends`].
async fn is_same(steps: &Steps<'_>, before: WorkTable, after: WorkTable) -> Result<bool> {
    if steps.rows(before) != steps.rows(after) {
        return Ok(false);
    }
    let sums = async |table| -> Result<Vec<RecordBatch>> {
        Ok(stage::components::low_ends(steps.table(table)?)?.collect().await?)
    };
    Ok(sums(before).await? == sums(after).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_known_by_their_names() {
        for star in [Step::LargeStar(12), Step::SmallStar(1)] {
            assert_eq!(Step::star_named(&star.name()), Some(star));
        }
        for other in ["components", "set_hash_1", "large_star", "small_star_"] {
            assert_eq!(Step::star_named(other), None, "{other}");
        }
    }
}
