//! Connected components by union-find, in memory that is reserved for them.

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

use crate::clusters::Components;
use crate::error::{Error, Result};
use crate::pipeline::context::StageContext;

/// The name of the union-find in the memory pool.
const CONSUMER: &str = "connected components";

/// The quarters of the memory pool that the union-find may take. The rest is for the table that it writes.
const QUARTERS: usize = 3;

/// Rows of a batch of the table.
const BATCH_ROWS: usize = 8_192;

/// Components, and the memory that is reserved for them.
pub(super) struct ReservedComponents {
    components: Components,
    _memory: MemoryReservation,
}

/// The components by union-find; `None` if its memory would not be enough.
pub(super) async fn union_find(
    cx: &StageContext<'_>,
    edges: DataFrame,
) -> Result<Option<ReservedComponents>> {
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
    /// Their rows (doc, root).
    pub(super) fn rows(self, session: &SessionContext, schema: SchemaRef) -> Result<DataFrame> {
        let rows = FoundRows { found: Mutex::new(Some(self)), schema: Arc::clone(&schema) };
        let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
        Ok(session.read_table(Arc::new(table))?)
    }
}

/// The rows (doc, root) of components in memory, in batches: read once.
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
        let (docs, roots) = found.components.roots(from..from + BATCH_ROWS);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(docs)), Arc::new(UInt64Array::from(roots))];
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    })
}
