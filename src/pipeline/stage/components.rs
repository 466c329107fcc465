//! The stages components, large_star and small_star, which find the documents that scores connect. They use union-find if it fits in
//! memory, and otherwise the rounds of [`crate::frames::components`].

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::exec_datafusion_err;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;

use super::interface::{Error, Planned, Result, Stage, StageContext, WorkTable, boxed};
use crate::clusters::Components;
use crate::frames::columns;
use crate::frames::components::{components, edges, large_star, low_ends, small_star};
use crate::pipeline::tables::WorkColumns::Numbers;

const LARGE: &str = "large_star";
const SMALL: &str = "small_star";

impl WorkTable {
    /// A document, and the smallest document in its component.
    pub(crate) const COMPONENTS: Self = Self::new("components", &[Numbers(&["doc", "root"])]);
    /// The first half of a round: edges from every node's larger neighbours to its smallest neighbour.
    const LARGE_STAR: Self = Self::new(LARGE, &[Numbers(&["high", "low"])]);
    /// The second half of a round: edges from every node's smaller neighbours to its smallest neighbour.
    const SMALL_STAR: Self = Self::new(SMALL, &[Numbers(&["high", "low"])]);
}

pub(super) static COMPONENTS: Stage = Stage::work(
    WorkTable::COMPONENTS,
    |_| "find which documents are connected by scores".into(),
    |_| true,
    boxed!(|cx| {
        let connected = match cx.reference {
            None => cx.table(WorkTable::SCORES)?.select(columns(["a", "b"]))?,
            Some(known) => known.edges(cx).await?,
        };
        let connected = cx.joining(connected)?;
        let Some(found) = union_find(cx, connected.clone()).await? else {
            let (edges, bytes) = rounds(cx, connected).await?;
            return Ok(Planned::short(bytes, vec![components(edges)?]));
        };
        let schema = WorkTable::COMPONENTS.schema(cx.job, &cx.types);
        let rows = found.rows(cx.session(), schema)?;
        Ok(Planned::short(0, vec![rows]))
    }),
);

/// The name of the union-find in the memory pool, for messages.
const CONSUMER: &str = "connected components";

/// The union-find may use this many quarters of the memory pool. The rest is for the table that the stage writes.
const QUARTERS: usize = 3;

const BATCH_ROWS: usize = 8_192;

struct ReservedComponents {
    components: Components,
    _memory: MemoryReservation,
}

/// Finds the components by union-find. Returns `None` if they do not fit in memory.
async fn union_find(cx: &StageContext<'_>, edges: DataFrame) -> Result<Option<ReservedComponents>> {
    let pool = &cx.session().runtime_env().memory_pool;
    let bound = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / 4 * QUARTERS,
        _ => usize::MAX,
    };
    let memory = MemoryConsumer::new(CONSUMER).register(pool);
    let mut edges = edges.execute_stream().await?;
    let mut components = Components::default();
    while let Some(batch) = edges.try_next().await? {
        if cx.runner.stopped() {
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
    Ok(Some(ReservedComponents { components, _memory: memory }))
}

impl ReservedComponents {
    fn rows(self, session: &SessionContext, schema: SchemaRef) -> Result<DataFrame> {
        let rows = FoundRows { found: Mutex::new(Some(self)), schema: Arc::clone(&schema) };
        let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
        Ok(session.read_table(Arc::new(table))?)
    }
}

/// The rows (doc, root) of components in memory. Reading them frees the components, so they can be read only once.
struct FoundRows {
    found: Mutex<Option<ReservedComponents>>,
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
        let found = self.found.lock().take();
        let found = found.ok_or_else(|| exec_datafusion_err!("the components were read already"));
        let schema = Arc::clone(&self.schema);
        let batches = stream::once(async { found })
            .map_ok(move |found| stream::iter(batches(found, Arc::clone(&schema))));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.try_flatten()))
    }
}

fn batches(
    mut found: ReservedComponents,
    schema: SchemaRef,
) -> impl Iterator<Item = datafusion::error::Result<RecordBatch>> {
    (0..found.components.len()).step_by(BATCH_ROWS).map(move |from| {
        // The closure captures the whole struct, so that the memory stays reserved until the last batch.
        let found = &mut found;
        let (docs, roots) = found.components.roots(from..from + BATCH_ROWS);
        let columns = [docs, roots].map(|numbers| Arc::new(UInt64Array::from(numbers)) as ArrayRef);
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns.to_vec())?)
    })
}

/// Runs rounds until a round changes nothing. Returns the edges (high, low) of the last round, and their bytes. Only the last round is
/// kept, and a resumed run starts from it.
async fn rounds(cx: &StageContext<'_>, connected: DataFrame) -> Result<(DataFrame, u64)> {
    let finished = cx.runner.finished_earlier().await?;
    let mut round = finished.iter().filter_map(|stage| round_of(stage)).max().unwrap_or(1).max(1);
    // Whether the table of the previous round exists. This round then starts from it.
    let mut has_before = take_over(cx, WorkTable::SMALL_STAR.round(round - 1)).await?;
    loop {
        let [before, small] = [round - 1, round].map(|round| WorkTable::SMALL_STAR.round(round));
        let large = WorkTable::LARGE_STAR.round(round);
        if !take_over(cx, small).await? {
            if !take_over(cx, large).await? {
                if round > 1 && !has_before {
                    // The last round of an earlier attempt is damaged, and the round before it was removed.
                    round = 1;
                    continue;
                }
                let from = if has_before { cx.table(before)? } else { edges(connected.clone())? };
                cx.run_further(large, Planned::new(0, vec![large_star(from)?])).await?;
            }
            cx.run_further(small, Planned::new(0, vec![small_star(cx.table(large)?)?])).await?;
        }
        let done = has_before && is_same(cx, before, small).await?;
        cx.runner.remove(&large.name()).await;
        cx.runner.remove(&before.name()).await;
        if done {
            tracing::info!(rounds = round, "connected components were found");
            return Ok((cx.table(small)?, cx.bytes(small)));
        }
        (has_before, round) = (true, round + 1);
    }
}

/// Returns the number of the round if `stage` is the name of half a round.
fn round_of(stage: &str) -> Option<u32> {
    let (half, round) = stage.rsplit_once('_')?;
    [LARGE, SMALL].contains(&half).then(|| round.parse().ok())?
}

/// Takes over half a round of an earlier attempt. Returns false if no attempt finished it.
async fn take_over(cx: &StageContext<'_>, half: WorkTable) -> Result<bool> {
    if !cx.is_done(half).await? {
        return Ok(false);
    }
    cx.run_further(half, Planned::new(0, Vec::new())).await?;
    Ok(true)
}

/// Whether no edge differs between two tables: see [`low_ends`].
async fn is_same(cx: &StageContext<'_>, before: WorkTable, after: WorkTable) -> Result<bool> {
    if cx.rows(before) != cx.rows(after) {
        return Ok(false);
    }
    let sums = async |table| -> Result<Vec<RecordBatch>> { Ok(low_ends(cx.table(table)?)?.collect().await?) };
    Ok(sums(before).await? == sums(after).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_rounds_are_recognised_by_their_names() {
        assert_eq!(round_of(&WorkTable::LARGE_STAR.round(12).name()), Some(12));
        assert_eq!(round_of(&WorkTable::SMALL_STAR.round(1).name()), Some(1));
        for other in ["components", "set_hash_1", "large_star", "small_star_"] {
            assert_eq!(round_of(other), None, "{other}");
        }
    }
}
