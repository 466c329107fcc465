//! The list of operators, the logical node for all of them, and the planner that makes the physical node.

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
use super::dense_pairs::DensePass;
use super::first_of_each::FirstOfEach;
use super::lists::Lists;
use super::losses::CountLosses;
use super::may_match::MayMatch;
use super::may_repeat::MayRepeat;
use super::prefixes::Prefixes;
use super::represent::Represent;
use super::score::Scoring;
use super::token_counts::TokenCounts;
use super::without_frequent::WithoutFrequent;
use crate::plan::OperatorExec;

/// Declares every operator once. From each line `Name(Description) => columns` follow the variant that plans carry, its
/// name, the columns that come out of its inputs, the physical node, and the way back from a physical node.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident($description:ty) => $columns:expr,)*) => {
        /// The description of an operator.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub(crate) enum Operator {
            $($(#[$doc])* $name($description),)*
        }

        impl Operator {
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            /// The columns that come out of `inputs`.
            fn schema(&self, inputs: &[LogicalPlan]) -> SchemaRef {
                let columns: fn(&[LogicalPlan]) -> SchemaRef = match self {
                    $(Self::$name(_) => $columns,)*
                };
                columns(inputs)
            }

            /// The operator of a physical node; `None` if it is not one of ours.
            #[cfg(feature = "cluster")]
            pub(crate) fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
                $(if let Some(description) = OperatorExec::<$description>::described(plan) {
                    return Some(Self::$name(description.clone()));
                })*
                None
            }

            /// The physical node over `inputs`.
            ///
            /// # Errors
            /// When the operator takes other inputs.
            pub(crate) fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
                match self.clone() {
                    $(Self::$name(description) => OperatorExec::plan(description, inputs),)*
                }
            }
        }
    };
}

operators! {
    /// Input: (bucket, doc, ..). See [`super::bucket_pairs`].
    BucketPairs(PairRule) => |_| super::bucket_reader::pair_schema(),
    /// Input: (token, doc, size, position, state, reference). See [`super::dense_pairs`].
    Dense(DensePass) => |_| super::bucket_reader::pair_schema(),
    /// Input: (tokens). See [`super::token_counts`].
    TokenCounts(TokenCounts) => |_| super::token_counts::schema(),
    /// Inputs: counters and documents. See [`super::prefixes`].
    Prefixes(Prefixes) => |_| super::prefixes::schema(),
    /// Inputs: counters and documents, whose columns stay. See [`super::may_match`].
    MayMatch(MayMatch) => |inputs| match inputs.last() {
        Some(documents) => super::may_match::marked(documents.schema().as_arrow()),
        None => Arc::new(Schema::empty()),
    },
    /// Input: (root, high, low, jaccard). See [`super::represent`].
    Represent(Represent) => |_| super::represent::schema(),
    /// Input: (root, place, role, set, documents, shingles). See [`super::losses`].
    Losses(CountLosses) => |_| super::losses::schema(),
    /// Inputs: sketches and probes. See [`super::score`].
    Score(Scoring) => |_| super::scorer::schema(),
    /// Input: (key: UInt64, value). See [`super::lists`].
    Lists(Lists) => |inputs| match inputs.last() {
        Some(rows) => super::lists::schema(rows.schema().as_arrow()),
        None => Arc::new(Schema::empty()),
    },
    /// Input: (key: UInt64, ..), whose columns stay. See [`super::may_repeat`].
    MayRepeat(MayRepeat) => |inputs| match inputs.last() {
        Some(rows) => Arc::new(rows.schema().as_arrow().clone()),
        None => Arc::new(Schema::empty()),
    },
    /// Input: (key.., order.., ..), whose columns stay. See [`super::first_of_each`].
    FirstOfEach(FirstOfEach) => |inputs| match inputs.last() {
        Some(rows) => super::first_of_each::marked(rows.schema().as_arrow()),
        None => Arc::new(Schema::empty()),
    },
    /// Inputs: frequent shingles and documents, whose columns stay. See [`super::without_frequent`].
    WithoutFrequent(WithoutFrequent) => |inputs| match inputs.last() {
        Some(documents) => Arc::new(documents.schema().as_arrow().clone()),
        None => Arc::new(Schema::empty()),
    },
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
