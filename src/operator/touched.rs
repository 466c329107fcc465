//! The known documents that new documents may be similar to: those with tokens that new documents have.
//!
//! The tokens of the new documents are counted in room that is known before (see [`super::token_counts`]), and each known
//! document looks its own up there. A counter may be another token's, so a document too many may stay, and none too few.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef, UInt64Type};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::token_counts::Counts;
use crate::kernel::jaccard::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, Task};

/// Counters (at, counts) for each of the rules, in their order, and documents (.., tokens: `List<UInt64>`) -> all documents, with
/// all their columns and a last one `touched: Boolean`: whether a rule keeps them.
///
/// The counters are one partition each and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Touched {
    /// The counters of each rule are `2^bits`.
    pub bits: u32,
    /// Counters of each token: see [`super::token_counts::TokenCounts::probes`].
    pub probes: u32,
    /// One at least.
    pub rules: Vec<Touch>,
}

/// Which documents are touched, by how many of their tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Touch {
    /// Those with one at least.
    Any,
    /// Those with this share of their tokens at least. A set whose Jaccard similarity with another one is t has a share t of
    /// its own tokens in common with that one, and so with all others together.
    Share(f64),
}

/// The counters that the tasks of a process share.
type Shared = OnceCell<Result<Arc<Held>, Arc<DataFusionError>>>;

/// The counters of each rule, and the memory that is reserved for them.
#[derive(Debug)]
pub(crate) struct Held {
    counts: Vec<Counts>,
    _held: MemoryReservation,
}

impl Touched {
    async fn held(&self, plans: Vec<Arc<dyn ExecutionPlan>>, context: Arc<TaskContext>) -> Result<Arc<Held>> {
        let held = MemoryConsumer::new("Touched").register(context.memory_pool());
        held.try_grow(plans.len() << self.bits)?;
        let mut all = Vec::with_capacity(plans.len());
        for plan in plans {
            all.push(Counts::read(self.bits, plan, &context).await?);
        }
        Ok(Arc::new(Held { counts: all, _held: held }))
    }

    fn mark(&self, batch: &RecordBatch, held: &Held) -> Result<RecordBatch> {
        let Some(tokens) = batch.columns().last() else { return internal_err!("documents have tokens") };
        let keeps = tokens.as_list::<i32>().iter().map(|tokens| {
            let tokens = tokens.as_ref().map(|tokens| tokens.as_primitive::<UInt64Type>().values());
            let tokens = tokens.map_or(&[][..], |tokens| tokens);
            self.rules.iter().zip(&held.counts).any(|(rule, counts)| rule.keeps(tokens, counts, self.probes))
        });
        let touched: BooleanArray = keeps.map(Some).collect();
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(touched));
        Ok(RecordBatch::try_new(marked(&batch.schema()), columns)?)
    }
}

/// The documents' columns and the mark.
pub(crate) fn marked(documents: &Schema) -> SchemaRef {
    let mut fields = SchemaBuilder::from(&documents.fields);
    fields.push(Field::new("touched", DataType::Boolean, false));
    Arc::new(fields.finish().with_metadata(documents.metadata.clone()))
}

impl Touch {
    fn keeps(self, tokens: &[u64], counts: &Counts, probes: u32) -> bool {
        let mut counted = tokens.iter().filter(|&&token| counts.has(token, probes));
        match self {
            Touch::Any => counted.next().is_some(),
            Touch::Share(share) => {
                let least = least_contained(tokens.len() as u64, share);
                // Sets without a token are all alike.
                least == 0 || counted.nth(least as usize - 1).is_some()
            }
        }
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            match rule {
                Touch::Any => write!(f, "one token, ")?,
                Touch::Share(share) => write!(f, "{share} of the tokens, ")?,
            }
        }
        write!(f, "2^{} counters", self.bits)
    }
}

impl Description for Touched {
    const NAME: &'static str = "TouchedExec";

    type Shared = Shared;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let Some((documents, counters)) = inputs.split_last() else {
            return internal_err!("touched documents have an input");
        };
        if counters.len() != self.rules.len() {
            return internal_err!("{} rules have not {} counters", self.rules.len(), counters.len());
        }
        let mut requirements: Vec<_> = counters.iter().map(|_| Requirement::single_partition()).collect();
        requirements.push(Requirement::none());
        Shape::over(inputs, marked(&documents.schema()), requirements)
    }

    fn start(self: Arc<Self>, task: Task<'_, Shared>) -> Result<Batches> {
        let Some((_, counters)) = task.inputs.split_last() else {
            return internal_err!("touched documents have an input");
        };
        let documents = task.rows_of(counters.len())?;
        let (counters, shared, context) = (counters.to_vec(), Arc::clone(task.shared), task.context);
        let batches = futures::stream::once(async move {
            let read = async || self.held(counters, context).await.map_err(Arc::new);
            let held = shared.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            Ok::<_, DataFusionError>(documents.map(move |batch| self.mark(&batch?, &held)))
        });
        Ok(batches.try_flatten().boxed())
    }
}
