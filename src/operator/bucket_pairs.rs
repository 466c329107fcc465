//! The self-join on the bucket: every two documents of a bucket, as one pass over rows sorted by bucket.
//!
//! A hash join would hold one side in memory, and the engine's does not spill. The rows come here sorted, by the
//! engine's own sort, which does; so all that this operator holds is the documents of one bucket, 8 bytes each.
//! A bucket of one document yields nothing and leaves here, before any pair exists.

use std::fmt;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, false),
    ]))
});

/// The columns (a, b): two different documents of one bucket, a < b. A pair comes once for each bucket it shares.
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// (bucket: UInt64, doc: UInt64), partitioned and sorted by bucket -> (a: UInt64, b: UInt64).
#[derive(Debug)]
pub struct BucketPairsExec {
    input: Arc<dyn ExecutionPlan>,
    bucket: Arc<dyn PhysicalExpr>,
    ordering: LexRequirement,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BucketPairsExec {
    /// The operator over `input`, whose first column is the bucket and whose second is the document.
    ///
    /// # Errors
    /// When `input` has other columns than two of type UInt64.
    pub fn try_new(input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema_in = input.schema();
        let types: Vec<_> = schema_in.fields().iter().map(|f| f.data_type()).collect();
        if types != [&DataType::UInt64, &DataType::UInt64] {
            return plan_err!("the pairs of a bucket are made of (bucket, doc), not of {types:?}");
        }
        let bucket: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema_in.field(0).name(), 0));
        let sorted = PhysicalSortRequirement::new(Arc::clone(&bucket), None);
        let Some(ordering) = LexRequirement::new([sorted]) else {
            return plan_err!("an ordering needs a column");
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(
                input.output_partitioning().partition_count(),
            ),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = Arc::new(properties);
        Ok(Self { input, bucket, ordering, properties, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for BucketPairsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "BucketPairsExec: bucket={}", self.bucket)
    }
}

impl ExecutionPlan for BucketPairsExec {
    fn name(&self) -> &str {
        "BucketPairsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(vec![Arc::clone(&self.bucket)])])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::new(self.ordering.clone()))]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        f(&self.bucket)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(children.swap_remove(0))?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let pairs = Pairs {
            input: self.input.execute(partition, Arc::clone(&context))?,
            rows: None,
            row: 0,
            bucket: Bucket::default(),
            held: MemoryConsumer::new("BucketPairs").register(context.memory_pool()),
            batch_size: context.session_config().batch_size(),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stream = futures::stream::try_unfold(pairs, async |mut pairs| {
            Ok(pairs.next_batch().await?.map(|batch| (batch, pairs)))
        });
        let stream =
            stream.inspect_ok(move |batch: &RecordBatch| metrics.record_output(batch.num_rows())).boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), stream)))
    }
}

/// The documents of the bucket being read, and how far its pairs have been written.
#[derive(Debug, Default)]
struct Bucket {
    id: u64,
    docs: Vec<u64>,
    /// The next pair to write is (docs[first], docs[second]).
    first: usize,
    second: usize,
}

impl Bucket {
    fn restart(&mut self, id: u64) {
        self.id = id;
        self.docs.clear();
        (self.first, self.second) = (0, 1);
    }

    /// Moves pairs to `a` and `b` until these hold `room` pairs; whether all pairs of the bucket are out.
    fn write(&mut self, a: &mut Vec<u64>, b: &mut Vec<u64>, room: usize) -> bool {
        while self.second < self.docs.len() {
            let left = self.docs[self.first];
            while self.second < self.docs.len() {
                if a.len() >= room {
                    return false;
                }
                let right = self.docs[self.second];
                self.second += 1;
                if left != right {
                    a.push(left.min(right));
                    b.push(left.max(right));
                }
            }
            self.first += 1;
            self.second = self.first + 1;
        }
        true
    }
}

struct Pairs {
    input: SendableRecordBatchStream,
    rows: Option<(UInt64Array, UInt64Array)>,
    row: usize,
    bucket: Bucket,
    held: MemoryReservation,
    batch_size: usize,
}

impl Pairs {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut a = Vec::with_capacity(self.batch_size);
        let mut b = Vec::with_capacity(self.batch_size);
        // The pairs of a bucket are written when its last row has been read, and then in as many batches as they need.
        while self.read_bucket().await? {
            if !self.bucket.write(&mut a, &mut b, self.batch_size) {
                break;
            }
            if self.rows.is_none() {
                break;
            }
        }
        if a.is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(a)), Arc::new(UInt64Array::from(b))];
        Ok(Some(RecordBatch::try_new(schema(), columns)?))
    }

    /// Reads on to the end of a bucket, unless pairs of the last one are still to be written; false at the end.
    async fn read_bucket(&mut self) -> Result<bool> {
        if self.bucket.second < self.bucket.docs.len() {
            return Ok(true);
        }
        let mut started = false;
        loop {
            if let Some((buckets, docs)) = &self.rows {
                while self.row < buckets.len() {
                    let id = buckets.value(self.row);
                    if !started {
                        self.bucket.restart(id);
                        started = true;
                    } else if id != self.bucket.id {
                        return Ok(true);
                    }
                    self.bucket.docs.push(docs.value(self.row));
                    self.row += 1;
                }
                self.held.try_resize(self.bucket.docs.capacity() * size_of::<u64>())?;
            }
            match self.input.next().await.transpose()? {
                Some(batch) => {
                    let buckets = as_uint64_array(batch.column(0))?.clone();
                    let docs = as_uint64_array(batch.column(1))?.clone();
                    self.rows = Some((buckets, docs));
                    self.row = 0;
                }
                None => {
                    self.rows = None;
                    return Ok(started);
                }
            }
        }
    }
}
