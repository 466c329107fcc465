//! The description of an operator, and the plan node that runs it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

/// The batches of one partition.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The description of an operator, which computes output rows from the rows of its inputs. Plans show the name and the settings of the
/// operator.
pub trait Description: fmt::Debug + Clone + Send + Sync + 'static {
    /// The operator's name in plans.
    const NAME: &'static str;

    /// Whether the node counts the output rows. If it does not, the operator records its own metrics.
    const COUNTS_ROWS: bool = true;

    /// The state that the partitions of a node share while they run. A copy of the plan has its own state.
    type Shared: Default + Send + Sync + 'static;

    /// Writes the settings for `EXPLAIN` and logs.
    fn describe(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// Describes the output of the operator for these `inputs`, and the requirements for each input.
    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape>;

    /// Starts a partition of the output.
    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches>;
}

/// The arguments for starting a partition.
pub struct Task<'a, S> {
    /// The operator's inputs.
    pub inputs: &'a [Arc<dyn ExecutionPlan>],
    /// The columns of the output.
    pub schema: SchemaRef,
    /// The state that the partitions share.
    pub shared: &'a Arc<S>,
    /// The number of the partition.
    pub partition: usize,
    /// The session, the memory pool and the stores.
    pub context: Arc<TaskContext>,
    /// The metrics of the node.
    pub metrics: &'a ExecutionPlanMetricsSet,
    /// The computing time of this partition. Operators that measure this time add to it.
    pub elapsed: Time,
}

impl<S> Task<'_, S> {
    /// Starts this partition of the `nth` input.
    pub(crate) fn rows_of(&self, nth: usize) -> Result<SendableRecordBatchStream> {
        match self.inputs.get(nth) {
            Some(input) => input.execute(self.partition, Arc::clone(&self.context)),
            None => internal_err!("an operator has no input {nth}"),
        }
    }

    /// Returns all inputs except for the last. Every task reads them completely.
    pub(crate) fn whole_inputs(&self) -> Vec<Arc<dyn ExecutionPlan>> {
        self.inputs.split_last().map_or_else(Vec::new, |(_, whole)| whole.to_vec())
    }
}

impl<T: Send + Sync + 'static> Task<'_, SharedValue<T>> {
    /// Applies `map` to each batch of `rows` and a value that all partitions share. `make` computes the value once.
    pub(crate) fn map_with_shared(
        self,
        rows: SendableRecordBatchStream,
        make: impl Future<Output = Result<T>> + Send + 'static,
        mut map: impl FnMut(&T, RecordBatch) -> Result<RecordBatch> + Send + 'static,
    ) -> Batches {
        let shared = Arc::clone(self.shared);
        let batches = async move {
            let value = shared.get(make).await?;
            Ok::<_, DataFusionError>(rows.map(move |batch| map(&value, batch?)))
        };
        stream::once(batches).try_flatten().boxed()
    }
}

/// Calls `next` with each batch in `rows`, and finally with `None`. Returns the values that `next` returns.
pub(crate) fn map_to_end<T: Send + 'static>(
    rows: SendableRecordBatchStream,
    mut next: impl FnMut(Option<RecordBatch>) -> Result<Option<T>> + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let input = rows.map_ok(Some).chain(stream::once(async { Ok(None) }));
    let batches = input.and_then(async |batch| {
        // A sort in memory never yields. So this task yields here, which lets other tasks run and makes it possible to stop the query.
        tokio::task::consume_budget().await;
        Ok(batch)
    });
    batches.map(move |batch| next(batch?)).try_filter_map(async |value| Ok(value)).boxed()
}

/// Returns the only input of the operator `name`.
pub(crate) fn only_input<'a>(
    name: &str,
    inputs: &'a [Arc<dyn ExecutionPlan>],
) -> Result<&'a Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(input),
        _ => internal_err!("{name} takes one input, not {}", inputs.len()),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    pub distribution: Distribution,
    /// The order inside each partition.
    pub ordering: Option<OrderingRequirements>,
}

impl Requirement {
    /// Accepts any partitions, in any order.
    pub(crate) fn none() -> Self {
        Self { distribution: Distribution::UnspecifiedDistribution, ordering: None }
    }

    /// Requires all rows in one partition, in any order.
    pub(crate) fn single_partition() -> Self {
        Self { distribution: Distribution::SinglePartition, ordering: None }
    }

    /// Requires rows with the same first column in the same partition, in any order.
    pub(crate) fn keyed(rows: &Schema) -> Self {
        Self { distribution: Distribution::KeyPartitioned(vec![column(rows, 0)]), ordering: None }
    }

    /// Requires rows with the same first column in the same partition. Each partition must be sorted by the first column and then by the
    /// columns at the indices in `further`.
    pub(crate) fn sorted(rows: &Schema, further: impl IntoIterator<Item = (usize, SortOptions)>) -> Self {
        let further = further.into_iter().map(|(at, options)| (at, Some(options)));
        let sorted = std::iter::once((0, None)).chain(further);
        let sorted = sorted.map(|(at, options)| PhysicalSortRequirement::new(column(rows, at), options));
        let ordering = LexRequirement::new(sorted).map(OrderingRequirements::new);
        Self { ordering, ..Self::keyed(rows) }
    }
}

/// The output of an operator, and the requirements for its inputs.
#[derive(Debug)]
pub struct Shape {
    properties: Arc<PlanProperties>,
    requirements: Vec<Requirement>,
    co_partitioned: bool,
    partitions_matter: bool,
    /// Whether each input row gives one output row.
    is_row_by_row: bool,
}

impl Shape {
    /// Describes an output with `properties` that is computed from inputs that fulfil `requirements`.
    pub(crate) fn new(properties: Arc<PlanProperties>, requirements: Vec<Requirement>) -> Self {
        let (co_partitioned, partitions_matter) = (false, false);
        Self { properties, requirements, co_partitioned, partitions_matter, is_row_by_row: false }
    }

    /// Describes an output with the columns of `schema` and `count` partitions. The output is bounded and streamed if `input` is.
    pub(crate) fn in_partitions(
        count: usize,
        schema: SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
        requirements: Vec<Requirement>,
    ) -> Self {
        Self::new(Arc::new(properties(schema, Partitioning::UnknownPartitioning(count), input)), requirements)
    }

    /// Describes an output with the columns of `schema` and as many partitions as the last input.
    pub(crate) fn over(
        inputs: &[Arc<dyn ExecutionPlan>],
        schema: SchemaRef,
        requirements: Vec<Requirement>,
    ) -> Result<Self> {
        let Some(last) = inputs.last() else { return internal_err!("an operator has no input") };
        let count = last.output_partitioning().partition_count();
        Ok(Self::in_partitions(count, schema, last, requirements))
    }

    /// Describes an output with the columns of `schema` and as many partitions as the last input. Every task reads all other inputs
    /// completely.
    pub(crate) fn beside_whole_inputs(inputs: &[Arc<dyn ExecutionPlan>], schema: SchemaRef) -> Result<Self> {
        let mut requirements = vec![Requirement::single_partition(); inputs.len().saturating_sub(1)];
        requirements.push(Requirement::none());
        Self::over(inputs, schema, requirements)
    }

    /// Describes an output with the columns of `schema` and the partitions of `input`. The optimizer must not change these partitions,
    /// because they were made for the operator.
    pub(crate) fn in_partitions_of(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Self {
        let properties = properties(schema, input.output_partitioning().clone(), input)
            .with_scheduling_type(input.properties().scheduling_type);
        Self { partitions_matter: true, ..Self::new(Arc::new(properties), vec![Requirement::none()]) }
    }

    /// Declares that the output is partitioned by its first column, if `input` is partitioned by its first column. Both columns must have
    /// the same values.
    pub(crate) fn partitioned_as(self, input: &Arc<dyn ExecutionPlan>) -> Self {
        let is_first = |key: &Arc<dyn PhysicalExpr>| {
            key.downcast_ref::<Column>().is_some_and(|column| column.index() == 0)
        };
        match input.output_partitioning() {
            by @ Partitioning::Hash(key, _) if matches!(key.as_slice(), [only] if is_first(only)) => {
                let properties = self.properties.as_ref().clone().with_partitioning(by.clone());
                Self { properties: Arc::new(properties), ..self }
            }
            _ => self,
        }
    }

    /// Requires that partitions with the same number have the same keys in all inputs.
    pub(crate) fn co_partitioned(self, co_partitioned: bool) -> Self {
        Self { co_partitioned, ..self }
    }

    /// Declares that there is one output row for each input row, in the same order.
    pub(crate) fn row_by_row(self) -> Self {
        Self { is_row_by_row: true, ..self }
    }
}

fn column(rows: &Schema, at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(rows.field(at).name(), at))
}

fn properties(
    schema: SchemaRef,
    partitioning: Partitioning,
    input: &Arc<dyn ExecutionPlan>,
) -> PlanProperties {
    let equivalences = EquivalenceProperties::new(schema);
    PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness())
}

/// Returns the number of rows in the files of a scan; `None` if the row count of a file is unknown.
pub(crate) fn scanned_rows(scan: &FileScanConfig) -> Option<u64> {
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let rows = files.map(|file| file.statistics.as_ref()?.num_rows.get_value().copied());
    Some(rows.sum::<Option<usize>>()? as u64)
}

/// Returns the file scan of a node; `None` for any other node.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// A value that the first partition computes for all partitions in this process. If the computation fails, all partitions get the error.
pub(crate) struct SharedValue<T>(OnceCell<Result<Arc<T>, Arc<DataFusionError>>>);

impl<T> Default for SharedValue<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> SharedValue<T> {
    /// Returns the value. If no partition has computed it yet, awaits `make`.
    pub(crate) async fn get(&self, make: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let made = self.0.get_or_init(|| async { make.await.map(Arc::new).map_err(Arc::new) }).await;
        made.clone().map_err(DataFusionError::Shared)
    }
}

/// An operator as a node of a plan.
pub struct OperatorExec<D: Description> {
    description: Arc<D>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    shape: Shape,
    shared: Arc<D::Shared>,
    metrics: ExecutionPlanMetricsSet,
}

impl<D: Description> OperatorExec<D> {
    fn over(description: Arc<D>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let shape = description.shape(&inputs)?;
        if shape.requirements.len() != inputs.len() {
            let (takes, given) = (shape.requirements.len(), inputs.len());
            return internal_err!("{} takes {takes} inputs, not {given}", D::NAME);
        }
        let (shared, metrics) = (Arc::default(), ExecutionPlanMetricsSet::new());
        Ok(Self { description, inputs, shape, shared, metrics })
    }

    /// Plans the operator over `inputs`. Fails if the operator does not accept these inputs.
    pub fn plan(description: D, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::over(Arc::new(description), inputs)?))
    }

    /// Returns the description if `plan` is a node of this operator.
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
        if self.shape.co_partitioned {
            InputDistributionRequirements::co_partitioned(distributions)
        } else {
            InputDistributionRequirements::new(distributions)
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
        // Operators refer to columns by position and contain no expressions.
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
        let counted = batches.inspect_ok(move |batch| {
            baseline.iter().for_each(|baseline| baseline.record_output(batch.num_rows()));
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::array::{AsArray, RecordBatch, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::physical_plan::{collect, displayable};

    use super::*;

    /// Yields one row per partition. The row contains the number of partitions that have begun.
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
    async fn partitions_share_state_and_a_copy_of_the_plan_has_its_own() {
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
