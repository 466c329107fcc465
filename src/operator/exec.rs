//! What all our operators are as nodes of a physical plan: everything that does not depend on what they do.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::TryStreamExt;
use futures::stream::BoxStream;

use super::node::Operator;

/// The batches of one partition.
pub(super) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// What an operator does: rows of its inputs -> rows. Its text says how, in plans.
pub(super) trait Work: fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// The operator's name in plans.
    const NAME: &'static str;

    /// The columns that come out.
    fn schema(&self) -> SchemaRef;

    /// What each input must be: how its rows are spread over partitions, and how they are sorted there.
    ///
    /// # Errors
    /// When there are other inputs, or inputs of other columns, than the operator takes.
    fn requirements(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Vec<Requirement>>;

    /// Whether partitions of the inputs that have the same number belong together.
    fn co_partitioned(&self) -> bool {
        false
    }

    /// Starts on a partition of the last input, whose partitions are also those that come out.
    fn start(
        self: Arc<Self>,
        inputs: &[Arc<dyn ExecutionPlan>],
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Batches>;

    /// The same work, not begun.
    fn fresh(&self) -> Self;

    /// What a node of a plan says of this work.
    fn operator(&self) -> Operator;
}

/// What an input must be.
#[derive(Debug, Clone)]
pub(super) struct Requirement {
    pub(super) distribution: Distribution,
    pub(super) ordering: Option<OrderingRequirements>,
}

impl Requirement {
    /// Any partitions, in any order.
    pub(super) fn none() -> Self {
        Self { distribution: Distribution::UnspecifiedDistribution, ordering: None }
    }

    /// All rows in one partition, in any order.
    pub(super) fn whole() -> Self {
        Self { distribution: Distribution::SinglePartition, ordering: None }
    }
}

/// An operator as a node of a plan.
pub(super) struct Exec<W> {
    work: Arc<W>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    requirements: Vec<Requirement>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl<W: Work> Exec<W> {
    /// What it does, as a logical node says it.
    pub(super) fn operator(&self) -> Operator {
        self.work.operator()
    }

    /// The operator over `inputs`.
    ///
    /// # Errors
    /// When they are not what the operator takes.
    pub(super) fn try_new(work: W, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let requirements = work.requirements(&inputs)?;
        let Some(last) = inputs.last() else {
            return internal_err!("{} has no input", W::NAME);
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(work.schema()),
            Partitioning::UnknownPartitioning(last.output_partitioning().partition_count()),
            last.pipeline_behavior(),
            last.boundedness(),
        );
        let (work, properties) = (Arc::new(work), Arc::new(properties));
        Ok(Self { work, inputs, requirements, properties, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl<W: Work> fmt::Debug for Exec<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(W::NAME).field("work", &self.work).finish_non_exhaustive()
    }
}

impl<W: Work> DisplayAs for Exec<W> {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", W::NAME, self.work)
    }
}

impl<W: Work> ExecutionPlan for Exec<W> {
    fn name(&self) -> &str {
        W::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let distributions = self.requirements.iter().map(|r| r.distribution.clone()).collect();
        match self.work.co_partitioned() {
            true => InputDistributionRequirements::co_partitioned(distributions),
            false => InputDistributionRequirements::new(distributions),
        }
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.requirements.iter().map(|r| r.ordering.clone()).collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // Columns are taken by their place; there is nothing to rewrite.
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(self.work.fresh(), children)?))
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
        let batches = Arc::clone(&self.work).start(&self.inputs, partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.work.schema(), batches)))
    }
}
