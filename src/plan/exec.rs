//! The node: all methods that DataFusion requires and that do not depend on the operator.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::TryStreamExt;

use super::description::{Description, Shape, Task};

/// An operator as a node of a plan.
pub struct OperatorExec<D: Description> {
    description: Arc<D>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    shape: Shape,
    shared: Arc<D::Shared>,
    metrics: ExecutionPlanMetricsSet,
}

impl<D: Description> OperatorExec<D> {
    /// The operator over `inputs`.
    ///
    /// # Errors
    /// When the operator takes other inputs.
    pub(crate) fn try_new(description: D, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        Self::over(Arc::new(description), inputs)
    }

    fn over(description: Arc<D>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let shape = description.shape(&inputs)?;
        if shape.requirements.len() != inputs.len() {
            let (wanted, found) = (shape.requirements.len(), inputs.len());
            return internal_err!("{} takes {wanted} inputs, not {found}", D::NAME);
        }
        let (shared, metrics) = (Arc::default(), ExecutionPlanMetricsSet::new());
        Ok(Self { description, inputs, shape, shared, metrics })
    }

    /// The operator over `inputs`, as a plan.
    ///
    /// # Errors
    /// When the operator takes other inputs.
    pub fn plan(description: D, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(description, inputs)?))
    }

    /// The description, if `plan` is a node of this operator.
    pub(crate) fn described(plan: &dyn ExecutionPlan) -> Option<&D> {
        plan.downcast_ref::<Self>().map(|node| node.description.as_ref())
    }
}

impl<D: Description> fmt::Debug for OperatorExec<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(D::NAME).field("description", &self.description).finish_non_exhaustive()
    }
}

impl<D: Description> DisplayAs for OperatorExec<D> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let text = fmt::from_fn(|f| self.description.describe(f)).to_string();
        f.write_str(D::NAME)?;
        if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
    }
}

impl<D: Description> ExecutionPlan for OperatorExec<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.shape.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let distributions = self.shape.requirements.iter().map(|r| r.distribution.clone()).collect();
        match self.shape.co_partitioned {
            true => InputDistributionRequirements::co_partitioned(distributions),
            false => InputDistributionRequirements::new(distributions),
        }
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.shape.requirements.iter().map(|r| r.ordering.clone()).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.shape.is_row_by_row; self.inputs.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        let single = |requirement: &Distribution| matches!(requirement, Distribution::SinglePartition);
        let requirements = self.shape.requirements.iter();
        requirements.map(|r| !self.shape.partitions_matter && !single(&r.distribution)).collect()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.shape.is_row_by_row { CardinalityEffect::Equal } else { CardinalityEffect::Unknown }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // Operators use columns by their place: there are no expressions.
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::over(Arc::clone(&self.description), children)?))
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
        let baseline = D::COUNTS_ROWS.then(|| BaselineMetrics::new(&self.metrics, partition));
        let batches = Arc::clone(&self.description).start(Task {
            inputs: &self.inputs,
            schema: self.schema(),
            shared: &self.shared,
            partition,
            context,
            metrics: &self.metrics,
            elapsed: baseline.as_ref().map_or_else(Time::new, |baseline| baseline.elapsed_compute().clone()),
        })?;
        Ok(match baseline {
            Some(baseline) => {
                let counted = batches.inspect_ok(move |batch| {
                    baseline.record_output(batch.num_rows());
                });
                Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted))
            }
            None => Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::array::{AsArray, RecordBatch, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::physical_plan::{collect, displayable};
    use futures::{StreamExt, stream};

    use super::*;
    use crate::plan::{Batches, only_input};

    /// Gives one row for each partition: how many partitions have begun.
    #[derive(Debug, Clone)]
    struct Begun {
        text: &'static str,
    }

    impl Description for Begun {
        const NAME: &'static str = "BegunExec";

        type Shared = AtomicU64;

        fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.text)
        }

        fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
            let input = only_input(Self::NAME, inputs)?;
            Ok(Shape::in_partitions_of(input, input.schema()))
        }

        fn start(self: Arc<Self>, task: Task<'_, AtomicU64>) -> Result<Batches> {
            let begun = task.shared.fetch_add(1, Ordering::Relaxed) + 1;
            let batch = RecordBatch::try_new(task.schema, vec![Arc::new(UInt64Array::from(vec![begun]))])?;
            Ok(stream::iter([Ok(batch)]).boxed())
        }
    }

    fn input(partitions: usize) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, false)]));
        MemorySourceConfig::try_new_exec(&vec![vec![]; partitions], schema, None).unwrap()
    }

    async fn rows(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> Vec<u64> {
        let batches = plan.execute(partition, Arc::default()).unwrap().try_collect::<Vec<_>>().await.unwrap();
        batches.iter().flat_map(|b| b.column(0).as_primitive::<UInt64Type>().values().to_vec()).collect()
    }

    #[tokio::test]
    async fn partitions_share_what_a_copy_of_the_plan_does_not() {
        let plan = OperatorExec::plan(Begun { text: "" }, vec![input(2)]).unwrap();
        assert_eq!((rows(&plan, 0).await, rows(&plan, 1).await), (vec![1], vec![2]));
        assert_eq!(plan.metrics().unwrap().output_rows(), Some(2));
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let copy = Arc::clone(&plan).replace_children(vec![input(1)], options).unwrap();
        assert_eq!(copy.properties().partitioning.partition_count(), 1);
        assert_eq!(collect(copy, Arc::default()).await.unwrap().len(), 1);
        assert_eq!(rows(&plan, 0).await, [3]);
    }

    #[test]
    fn a_node_of_other_inputs_is_refused() {
        for inputs in [vec![], vec![input(1), input(1)]] {
            let error = OperatorExec::plan(Begun { text: "" }, inputs).unwrap_err().to_string();
            assert!(error.contains("BegunExec takes one input"), "{error}");
        }
    }

    #[test]
    fn a_node_is_shown_by_its_name_and_what_its_description_says() {
        for (text, shown) in [("", "BegunExec\n"), ("as asked", "BegunExec: as asked\n")] {
            let plan = OperatorExec::plan(Begun { text }, vec![input(1)]).unwrap();
            assert_eq!(displayable(plan.as_ref()).one_line().to_string(), shown);
        }
    }
}
