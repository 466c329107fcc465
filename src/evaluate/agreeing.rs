//! The sets whose signatures agree with those of the drawn sets, where the job decides on pairs by signatures.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::JoinType;
use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::col;
use futures::TryStreamExt;

use super::sets::{Sets, keys};
use crate::error::Result;
use crate::job::ScoreBy;
use crate::kernel::minhash_similarity::minhash_similarity;
use crate::kernel::signature::SignatureValues;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::arguments::{SignatureRows, ValueColumn};

/// The drawn sets that each set agrees with.
pub(super) type Agreeing = BTreeMap<u64, BTreeSet<u64>>;

/// Compares the signature of every set with those of the sets `drawn`. Empty where exact similarities decide on pairs.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn agreeing(stored: &Stored, sets: &Sets, drawn: &[u64]) -> Result<Agreeing> {
    let (score, compare) = (stored.job().score, stored.job().candidates.compare);
    let mut agreeing = Agreeing::new();
    if score.by != ScoreBy::Signature {
        return Ok(agreeing);
    }
    let documents = stored.table(Table::Documents)?.select(vec![col("doc"), col("signature")])?;
    let wanted = keys(stored, "wanted", drawn.iter().copied())?;
    let wanted = wanted.join(documents.clone(), JoinType::RightSemi, &["wanted"], &["doc"], None)?;
    let mut of_drawn: Vec<(u64, SignatureValues)> = Vec::with_capacity(drawn.len());
    for (frame, is_drawn) in [(wanted, true), (documents, false)] {
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let docs = as_uint64_array(batch.column(0))?;
            let signatures = SignatureRows::new("evaluate", batch.column(1))?;
            for (row, &doc) in docs.values().iter().enumerate() {
                // One document is compared for all that have its set.
                let (true, Some(signature)) = (sets.sets.contains_key(&doc), signatures.row(row)) else {
                    continue;
                };
                if is_drawn {
                    of_drawn.push((doc, signature.into()));
                    continue;
                }
                let agrees = |(drawn, other): &(u64, SignatureValues)| {
                    let estimate = minhash_similarity(signature, other.signature());
                    let reaches = estimate.is_some_and(|estimate| estimate >= score.threshold);
                    (reaches && sets.are_compared(*drawn, doc, compare)).then_some(*drawn)
                };
                let found: BTreeSet<u64> = of_drawn.iter().filter_map(agrees).collect();
                if !found.is_empty() {
                    agreeing.insert(doc, found);
                }
            }
            tokio::task::consume_budget().await;
        }
    }
    Ok(agreeing)
}
