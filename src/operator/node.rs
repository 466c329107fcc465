//! One logical node for all our operators, and the planner that turns it into the physical one.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use datafusion::prelude::DataFrame;
use serde::{Deserialize, Serialize};

use super::bucket_pairs::PairRule;
use super::dense_pairs::Pass;
use super::prefixes::Prefixes;
use super::represent::Represent;
use super::score::Scoring;
use super::token_counts::TokenCounts;
use super::touched::Touched;
#[cfg(feature = "cluster")]
use crate::plan::Description;
use crate::plan::OperatorExec;

/// Which operator a node stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Operator {
    /// Over one input (bucket, doc, ..): see [`super::bucket_pairs`].
    BucketPairs(PairRule),
    /// Over one input (token, doc, size, position, state, known): see [`super::dense_pairs`].
    Dense(Pass),
    /// Over one input (tokens): see [`super::token_counts`].
    TokenCounts(TokenCounts),
    /// Over two inputs, counters and documents: see [`super::prefixes`].
    Prefixes(Prefixes),
    /// Over counters and documents, whose columns stay: see [`super::touched`].
    Touched(Touched),
    /// Over one input (root, high, low, jaccard): see [`super::represent`].
    Represent(Represent),
    /// Over two inputs, sketches and probes: see [`super::score`].
    Score(Scoring),
}

impl Operator {
    fn name(&self) -> &'static str {
        match self {
            Operator::BucketPairs(_) => "BucketPairs",
            Operator::Dense(_) => "Dense",
            Operator::TokenCounts(_) => "TokenCounts",
            Operator::Prefixes(_) => "Prefixes",
            Operator::Touched(_) => "Touched",
            Operator::Represent(_) => "Represent",
            Operator::Score(_) => "Score",
        }
    }

    /// The columns that come out of `inputs`.
    fn schema(&self, inputs: &[LogicalPlan]) -> SchemaRef {
        match self {
            Operator::BucketPairs(_) | Operator::Dense(_) => super::bucket_pairs::schema(),
            Operator::TokenCounts(_) => super::token_counts::schema(),
            Operator::Prefixes(_) => super::prefixes::schema(),
            Operator::Touched(_) => match inputs.last() {
                Some(documents) => super::touched::marked(documents.schema().as_arrow()),
                None => Arc::new(Schema::empty()),
            },
            Operator::Represent(_) => super::represent::schema(),
            Operator::Score(_) => super::score::schema(),
        }
    }

    /// The operator that a node of a physical plan stands for; `None` if it is not one of ours.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        fn described<D: Description>(plan: &dyn ExecutionPlan) -> Option<D> {
            OperatorExec::described(plan).cloned()
        }
        None.or_else(|| described(plan).map(Operator::BucketPairs))
            .or_else(|| described(plan).map(Operator::Dense))
            .or_else(|| described(plan).map(Operator::TokenCounts))
            .or_else(|| described(plan).map(Operator::Prefixes))
            .or_else(|| described(plan).map(Operator::Touched))
            .or_else(|| described(plan).map(Operator::Represent))
            .or_else(|| described(plan).map(Operator::Score))
    }

    /// The physical operator.
    ///
    /// # Errors
    /// When `inputs` are not what the operator takes.
    pub(crate) fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match self.clone() {
            Operator::BucketPairs(rule) => OperatorExec::plan(rule, inputs),
            Operator::Dense(pass) => OperatorExec::plan(pass, inputs),
            Operator::TokenCounts(counts) => OperatorExec::plan(counts, inputs),
            Operator::Prefixes(prefixes) => OperatorExec::plan(prefixes, inputs),
            Operator::Touched(touched) => OperatorExec::plan(touched, inputs),
            Operator::Represent(represent) => OperatorExec::plan(represent, inputs),
            Operator::Score(scoring) => OperatorExec::plan(scoring, inputs),
        }
    }
}

/// A frame that runs `operator` over `inputs`; the first input's session plans it.
///
/// # Errors
/// When `inputs` is empty.
pub(crate) fn apply(operator: Operator, inputs: Vec<DataFrame>) -> crate::error::Result<DataFrame> {
    let mut state: Option<SessionState> = None;
    let mut plans = Vec::with_capacity(inputs.len());
    for input in inputs {
        let (input_state, plan) = input.into_parts();
        state.get_or_insert(input_state);
        plans.push(plan);
    }
    let Some(state) = state else {
        return Err(crate::error::Error::bug("an operator needs an input"));
    };
    let schema = Arc::new(DFSchema::try_from(operator.schema(&plans))?);
    let node = Node { operator, inputs: plans, schema };
    Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

#[derive(Debug, Clone)]
struct Node {
    operator: Operator,
    inputs: Vec<LogicalPlan>,
    schema: DFSchemaRef,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.operator == other.operator && self.inputs == other.inputs
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operator.name().hash(state);
        self.inputs.hash(state);
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Node {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<datafusion::prelude::Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", self.operator)
    }

    fn with_exprs_and_inputs(
        &self,
        _exprs: Vec<datafusion::prelude::Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        Ok(Self { operator: self.operator.clone(), inputs, schema: Arc::clone(&self.schema) })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // Every input column is read whatever the output columns are: stages select what they need before.
        Some(self.inputs.iter().map(|input| (0..input.schema().fields().len()).collect()).collect())
    }
}

/// Makes physical operators of our nodes. Part of every session that plans stages.
#[derive(Debug, Default)]
pub(crate) struct OperatorPlanner;

#[async_trait]
impl ExtensionPlanner for OperatorPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning_context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Node>() else {
            return Ok(None);
        };
        Ok(Some(node.operator.over(physical_inputs.to_vec())?))
    }
}
