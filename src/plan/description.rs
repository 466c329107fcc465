//! What an operator says of itself, and what it is given when it starts.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Time};
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::stream::BoxStream;

/// The batches of one partition.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// What an operator does: rows of its inputs -> rows. Its text says how, in plans; an empty text leaves the name alone.
pub trait Description: fmt::Debug + fmt::Display + Clone + Send + Sync + 'static {
    /// The operator's name in plans.
    const NAME: &'static str;

    /// Whether the node counts the rows that come out. An operator that says no records what it likes, or nothing.
    const COUNTS_ROWS: bool = true;

    /// What the partitions of a node share while they run. A plan that is copied gets a new one.
    type Shared: Default + Send + Sync + 'static;

    /// What comes out of `inputs`, and what each of them must be.
    ///
    /// # Errors
    /// When there are other inputs, or inputs of other columns, than the operator takes.
    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape>;

    /// Starts on a partition of what comes out.
    ///
    /// # Errors
    /// When it cannot start.
    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches>;
}

/// What is given to an operator when it starts on a partition.
pub struct Task<'a, S> {
    /// The operator's inputs.
    pub inputs: &'a [Arc<dyn ExecutionPlan>],
    /// The columns that come out.
    pub schema: SchemaRef,
    /// What the partitions share.
    pub shared: &'a Arc<S>,
    /// Which partition.
    pub partition: usize,
    /// The session, the memory pool and the stores.
    pub context: Arc<TaskContext>,
    /// What the node measures.
    pub metrics: &'a ExecutionPlanMetricsSet,
    /// The time that the operator itself takes on this partition, for those that measure it.
    pub elapsed: Time,
}

impl<S> Task<'_, S> {
    /// The rows that the `nth` input has in this partition.
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

/// The only one of `inputs`, which are those of the operator `name`.
///
/// # Errors
/// When there are more, or none.
pub(crate) fn only_input<'a>(
    name: &str,
    inputs: &'a [Arc<dyn ExecutionPlan>],
) -> Result<&'a Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(input),
        _ => internal_err!("{name} takes one input, not {}", inputs.len()),
    }
}

/// What an input must be.
#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    /// How its rows are spread over partitions.
    pub distribution: Distribution,
    /// How they are sorted there.
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

    /// Rows of the same `key` in the same partition, in any order.
    pub(crate) fn keyed(key: Arc<dyn PhysicalExpr>) -> Self {
        Self { distribution: Distribution::KeyPartitioned(vec![key]), ordering: None }
    }

    /// Rows of the same `key` in the same partition, sorted by it.
    pub(crate) fn sorted_by(key: Arc<dyn PhysicalExpr>) -> Self {
        Self::sorted_further(key, [])
    }

    /// The same, and those of a `key` sorted by further columns.
    pub(crate) fn sorted_further(
        key: Arc<dyn PhysicalExpr>,
        further: impl IntoIterator<Item = PhysicalSortRequirement>,
    ) -> Self {
        let first = PhysicalSortRequirement::new(Arc::clone(&key), None);
        let sorted = std::iter::once(first).chain(further);
        let ordering = LexRequirement::new(sorted).map(OrderingRequirements::new);
        Self { ordering, ..Self::keyed(key) }
    }
}

/// What comes out of an operator, and what its inputs must be for it.
#[derive(Debug)]
pub struct Shape {
    pub(super) properties: Arc<PlanProperties>,
    pub(super) requirements: Vec<Requirement>,
    pub(super) co_partitioned: bool,
    pub(super) partitions_matter: bool,
    pub(super) row_by_row: bool,
}

impl Shape {
    /// What `properties` say, out of inputs that fulfil `requirements`.
    pub(crate) fn new(properties: Arc<PlanProperties>, requirements: Vec<Requirement>) -> Self {
        let (co_partitioned, partitions_matter, row_by_row) = (false, false, false);
        Self { properties, requirements, co_partitioned, partitions_matter, row_by_row }
    }

    /// The columns of `schema` in `count` partitions, which come as the rows of `input` do.
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

    /// The columns of `schema` in the partitions of `input`. These were made for the operator: spread over more of them,
    /// the rows would be of no use to it.
    pub(crate) fn in_partitions_of(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Self {
        let properties = properties(schema, input.output_partitioning().clone(), input)
            .with_scheduling_type(input.properties().scheduling_type);
        Self { partitions_matter: true, ..Self::new(Arc::new(properties), vec![Requirement::none()]) }
    }

    /// The same, where partitions of the inputs that have the same number belong together.
    pub(crate) fn co_partitioned(self, co_partitioned: bool) -> Self {
        Self { co_partitioned, ..self }
    }

    /// The same, where each row that comes in comes out as one row, in the same order.
    pub(crate) fn row_by_row(self) -> Self {
        Self { row_by_row: true, ..self }
    }
}

fn properties(
    schema: SchemaRef,
    partitioning: Partitioning,
    input: &Arc<dyn ExecutionPlan>,
) -> PlanProperties {
    let equivalences = EquivalenceProperties::new(schema);
    PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness())
}
