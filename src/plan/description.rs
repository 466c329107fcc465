//! The description of an operator, its requirements and its output, and what operators share.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Time};
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::stream::BoxStream;
use tokio::sync::OnceCell;

/// The batches of one partition.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The description of an operator, which maps rows of its inputs to rows. Plans show its name, and its settings if there are any.
pub trait Description: fmt::Debug + Clone + Send + Sync + 'static {
    /// The operator's name in plans.
    const NAME: &'static str;

    /// Whether the node counts the output rows. Otherwise the operator records its own metrics, if any.
    const COUNTS_ROWS: bool = true;

    /// The state that the partitions of a node share while they run. A copy of the plan has its own.
    type Shared: Default + Send + Sync + 'static;

    /// Writes the settings for people.
    ///
    /// # Errors
    /// The errors of `f`.
    fn describe(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// The output over `inputs`, and the requirements for each of them.
    ///
    /// # Errors
    /// When there are other inputs, or inputs of other columns, than the operator takes.
    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape>;

    /// Starts a partition of the output.
    ///
    /// # Errors
    /// When it cannot start.
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
    /// The time of this partition, for operators that measure it.
    pub elapsed: Time,
}

impl<S> Task<'_, S> {
    /// The rows of this partition of the `nth` input.
    ///
    /// # Errors
    /// When there is no such input, or it cannot start.
    pub(crate) fn rows_of(&self, nth: usize) -> Result<SendableRecordBatchStream> {
        match self.inputs.get(nth) {
            Some(input) => input.execute(self.partition, Arc::clone(&self.context)),
            None => internal_err!("an operator has no input {nth}"),
        }
    }
}

/// The only input of the operator `name`.
///
/// # Errors
/// When there are more inputs, or none.
pub(crate) fn only_input<'a>(
    name: &str,
    inputs: &'a [Arc<dyn ExecutionPlan>],
) -> Result<&'a Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(input),
        _ => internal_err!("{name} takes one input, not {}", inputs.len()),
    }
}

/// The requirements for an input.
#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    /// Its partitioning.
    pub distribution: Distribution,
    /// The order inside each partition.
    pub ordering: Option<OrderingRequirements>,
}

impl Requirement {
    /// Any partitions, in any order.
    pub(crate) fn none() -> Self {
        Self { distribution: Distribution::UnspecifiedDistribution, ordering: None }
    }

    /// All rows in one partition, in any order.
    pub(crate) fn single_partition() -> Self {
        Self { distribution: Distribution::SinglePartition, ordering: None }
    }

    /// Rows with the same first column in the same partition, in any order.
    pub(crate) fn keyed(rows: &Schema) -> Self {
        Self { distribution: Distribution::KeyPartitioned(vec![column(rows, 0)]), ordering: None }
    }

    /// Rows with the same first column in the same partition, sorted by it and by the columns at these places.
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
    pub(super) properties: Arc<PlanProperties>,
    pub(super) requirements: Vec<Requirement>,
    pub(super) co_partitioned: bool,
    pub(super) partitions_matter: bool,
    /// Whether each input row gives one output row.
    pub(super) is_row_by_row: bool,
}

impl Shape {
    /// An output with `properties`, from inputs that fulfil `requirements`.
    pub(crate) fn new(properties: Arc<PlanProperties>, requirements: Vec<Requirement>) -> Self {
        let (co_partitioned, partitions_matter) = (false, false);
        Self { properties, requirements, co_partitioned, partitions_matter, is_row_by_row: false }
    }

    /// The columns of `schema` in `count` partitions, emitted as the rows of `input` are.
    pub(crate) fn of_partitions(
        count: usize,
        schema: SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
        requirements: Vec<Requirement>,
    ) -> Self {
        Self::new(Arc::new(properties(schema, Partitioning::UnknownPartitioning(count), input)), requirements)
    }

    /// The columns of `schema` in as many partitions as the last of `inputs` has.
    ///
    /// # Errors
    /// When there are no inputs.
    pub(crate) fn over(
        inputs: &[Arc<dyn ExecutionPlan>],
        schema: SchemaRef,
        requirements: Vec<Requirement>,
    ) -> Result<Self> {
        let Some(last) = inputs.last() else { return internal_err!("an operator has no input") };
        let count = last.output_partitioning().partition_count();
        Ok(Self::of_partitions(count, schema, last, requirements))
    }

    /// The columns of `schema` in the partitions of `input`, which are made for the operator and must stay as they are.
    pub(crate) fn in_partitions_of(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Self {
        let properties = properties(schema, input.output_partitioning().clone(), input)
            .with_scheduling_type(input.properties().scheduling_type);
        Self { partitions_matter: true, ..Self::new(Arc::new(properties), vec![Requirement::none()]) }
    }

    /// Promises that the rows of a key are in the partition in which those of `input` are, if `input` is partitioned by its first
    /// column, which is also the first one of the output.
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

    /// Promises one output row for each input row, in the same order.
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

/// The rows of the files of a scan; `None` if they are not all known.
pub(crate) fn scanned_rows(scan: &FileScanConfig) -> Option<u64> {
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let rows = files.map(|file| file.statistics.as_ref()?.num_rows.get_value().copied());
    Some(rows.sum::<Option<usize>>()? as u64)
}

/// The file scan of a node; `None` if the node is another one.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// A value that is made by the first partition that needs it, in this process. An error is shared in the same way.
pub(crate) struct SharedValue<T>(OnceCell<Result<Arc<T>, Arc<DataFusionError>>>);

impl<T> Default for SharedValue<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("is_made", &self.0.initialized()).finish_non_exhaustive()
    }
}

impl<T> SharedValue<T> {
    /// The value, which `make` makes if it does not exist yet.
    ///
    /// # Errors
    /// The error of the future that tried to make it.
    pub(crate) async fn get(&self, make: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let made = self.0.get_or_init(|| async { make.await.map(Arc::new).map_err(Arc::new) }).await;
        made.clone().map_err(DataFusionError::Shared)
    }
}
