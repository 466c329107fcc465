//! The list of operators, the logical node for all operators, and the planner that makes their physical nodes.

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

use super::bucket_pairs::{PairRule, pair_schema};
use super::clusters::{CountLosses, Represent, losses_schema, represented_schema};
use super::copy_pairs::{CopyPairs, copy_pairs_schema};
use super::dense_pairs::DensePass;
use super::filters::{MayMatch, MayRepeat, WithoutFrequent, may_match_schema};
use super::keyed_rows::{FirstOfEach, Lists, is_first_schema, lists_schema};
use super::prefixes::{Prefixes, TokenCounts, counter_schema, prefix_schema};
use super::score::Scoring;
use super::sketches::score_schema;
use crate::plan::OperatorExec;

/// Declares every operator once. Each line `Name(Description) => columns` generates the variant in plans, its name, and the conversions to
/// and from its physical node. `columns` is a function that returns the output columns for the columns of the last input.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident($description:ty) => $columns:expr,)*) => {
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

            fn schema(&self, input: &Schema) -> SchemaRef {
                let columns: fn(&Schema) -> SchemaRef = match self {
                    $(Self::$name(_) => $columns,)*
                };
                columns(input)
            }

            /// Returns the operator of a physical node; `None` for any other node.
            #[cfg(feature = "cluster")]
            pub(crate) fn described(plan: &dyn ExecutionPlan) -> Option<Self> {
                $(if let Some(description) = OperatorExec::<$description>::described(plan) {
                    return Some(Self::$name(description.clone()));
                })*
                None
            }

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
    BucketPairs(PairRule) => |_| pair_schema(),
    /// Input: (rep, id, size, shingle_count).
    CopyPairs(CopyPairs) => copy_pairs_schema,
    /// Input: (token, doc, size, position, state, reference). See [`super::dense_pairs`].
    Dense(DensePass) => |_| pair_schema(),
    /// Input: (tokens).
    TokenCounts(TokenCounts) => |_| counter_schema(),
    /// Inputs: counters and documents.
    Prefixes(Prefixes) => |_| prefix_schema(),
    /// Inputs: counters and documents. The output has the columns of the documents and `may_match`.
    MayMatch(MayMatch) => may_match_schema,
    /// Input: (root, high, low, jaccard).
    Represent(Represent) => |_| represented_schema(),
    /// Input: (root, place, role, set, documents, shingles).
    Losses(CountLosses) => |_| losses_schema(),
    /// Inputs: sketches and probes.
    Score(Scoring) => |_| score_schema(),
    /// Input: (key: UInt64, value).
    Lists(Lists) => lists_schema,
    /// Input: (key: UInt64, ..). The output has the same columns.
    MayRepeat(MayRepeat) => |rows| Arc::new(rows.clone()),
    /// Input: (key.., order.., ..). The output has the same columns and `is_first`.
    FirstOfEach(FirstOfEach) => is_first_schema,
    /// Inputs: frequent shingles and documents. The output has the columns of the documents.
    WithoutFrequent(WithoutFrequent) => |documents| Arc::new(documents.clone()),
}

/// Returns a frame that runs `operator` over `inputs`. The session of the first input plans the frame.
pub(crate) fn apply(operator: Operator, inputs: Vec<DataFrame>) -> crate::error::Result<DataFrame> {
    let mut state: Option<SessionState> = None;
    let mut plans = Vec::with_capacity(inputs.len());
    for input in inputs {
        let (input_state, plan) = input.into_parts();
        state.get_or_insert(input_state);
        plans.push(plan);
    }
    let (Some(state), Some(last)) = (state, plans.last()) else {
        return Err(crate::error::Error::bug("an operator needs an input"));
    };
    let schema = Arc::new(DFSchema::try_from(operator.schema(last.schema().as_arrow()))?);
    let node = OperatorNode { operator, inputs: plans, schema };
    Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

/// The logical node for any operator.
#[derive(Debug, Clone, PartialEq)]
struct OperatorNode {
    operator: Operator,
    inputs: Vec<LogicalPlan>,
    schema: DFSchemaRef,
}

impl Eq for OperatorNode {}

impl Hash for OperatorNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operator.name().hash(state);
        self.inputs.hash(state);
    }
}

impl PartialOrd for OperatorNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for OperatorNode {
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
        // Operators read every column of their inputs. Stages select the needed columns first.
        Some(self.inputs.iter().map(|input| (0..input.schema().fields().len()).collect()).collect())
    }
}

/// Makes physical nodes from operators' logical nodes. Every session that plans stages contains it.
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
        let node = node.as_any().downcast_ref::<OperatorNode>();
        node.map(|node| node.operator.over(physical_inputs.to_vec())).transpose()
    }
}
