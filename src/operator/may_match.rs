//! The reference documents that may match new documents: those with tokens that new documents have.
//!
//! The tokens of new documents are counted (see [`super::token_counts`]), and each reference document looks up its own. A counter
//! may be that of another token, so a document too many may stay, but none is missing.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::token_counts::{CountedTokens, HeldCounters};
use super::with_flag;
use crate::kernel::jaccard::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// Counters (at, counts) for each of the rules, in their order, and documents (.., tokens: `List<UInt64>`) -> all documents with
/// all their columns and a last column `may_match: Boolean`: whether a rule keeps them.
///
/// The counters are one partition each and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MayMatch {
    /// The counters of each rule are `2^bits`.
    pub bits: u32,
    /// Counters of each token: see [`super::token_counts::TokenCounts::probes`].
    pub probes: u32,
    /// At least one rule.
    pub rules: Vec<MatchRule>,
}

/// A rule that keeps documents by the number of their tokens that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum MatchRule {
    /// Documents with at least one such token.
    Any,
    /// Documents with at least this share of their tokens. A set with the Jaccard similarity t to another has at least a share t
    /// of its tokens in common with it, and so with all others together.
    Share(f64),
}

impl MayMatch {
    fn mark(&self, batch: &RecordBatch, held: &HeldCounters<CountedTokens>) -> Result<RecordBatch> {
        let Some(tokens) = batch.columns().last() else { return internal_err!("documents have tokens") };
        let tokens = tokens.as_list::<i32>();
        let (ends, values) = (tokens.offsets(), tokens.values().as_primitive::<UInt64Type>().values());
        let may_match = BooleanBuffer::collect_bool(tokens.len(), |row| {
            let of_row = match tokens.is_valid(row) {
                true => ends[row] as usize..ends[row + 1] as usize,
                false => 0..0,
            };
            let mut rules = self.rules.iter().zip(&held.of_plans);
            rules.any(|(rule, counted)| rule.keeps(&values[of_row.clone()], counted, self.probes))
        });
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(BooleanArray::new(may_match, None)));
        Ok(RecordBatch::try_new(marked(&batch.schema()), columns)?)
    }
}

/// The columns of the documents, and `may_match`.
pub(crate) fn marked(documents: &Schema) -> SchemaRef {
    with_flag(documents, "may_match")
}

impl MatchRule {
    fn keeps(self, tokens: &[u64], counted: &CountedTokens, probes: u32) -> bool {
        let mut counted = tokens.iter().filter(|&&token| counted.has(token, probes));
        match self {
            MatchRule::Any => counted.next().is_some(),
            MatchRule::Share(share) => {
                let least = least_contained(tokens.len() as u64, share);
                // Empty sets are equal.
                least == 0 || counted.nth(least as usize - 1).is_some()
            }
        }
    }
}

impl Description for MayMatch {
    const NAME: &'static str = "MayMatchExec";

    type Shared = SharedValue<HeldCounters<CountedTokens>>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            match rule {
                MatchRule::Any => write!(f, "one token, ")?,
                MatchRule::Share(share) => write!(f, "{share} of the tokens, ")?,
            }
        }
        write!(f, "2^{} counters", self.bits)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let Some((documents, counters)) = inputs.split_last() else {
            return internal_err!("reference documents have an input");
        };
        if counters.len() != self.rules.len() {
            return internal_err!("{} rules have not {} counters", self.rules.len(), counters.len());
        }
        let mut requirements: Vec<_> = counters.iter().map(|_| Requirement::single_partition()).collect();
        requirements.push(Requirement::none());
        Shape::over(inputs, marked(&documents.schema()), requirements)
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let Some((_, counters)) = task.inputs.split_last() else {
            return internal_err!("reference documents have an input");
        };
        let documents = task.rows_of(counters.len())?;
        let (counters, shared) = (counters.to_vec(), Arc::clone(task.shared));
        let batches = futures::stream::once(async move {
            let held = shared.get(HeldCounters::read("MayMatch", self.bits, counters, task.context)).await?;
            Ok::<_, DataFusionError>(documents.map(move |batch| self.mark(&batch?, &held)))
        });
        Ok(batches.try_flatten().boxed())
    }
}
