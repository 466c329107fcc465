//! From buckets to scores: which pairs are looked at, and in how many blocks.

use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, col, lit};

use super::numbers::one_number;
use super::steps::Steps;
use super::tables;
use crate::error::Result;
use crate::job::{Job, Method};
use crate::sink::write::Rows;
use crate::stage;
use crate::stage::scores::Block;

/// Finds candidates, and says which table holds them; none where all pairs are to be scored.
pub(super) async fn candidates(steps: &mut Steps<'_>, job: &Job) -> Result<Option<&'static str>> {
    match job.candidates.method {
        Method::All => return Ok(None),
        Method::Prefix => prefix(steps, job, None, "candidates").await?,
        Method::Lsh => {
            let (keys, groups) = (steps.table("keys")?, steps.table("groups")?);
            let frame = stage::candidates::candidates(keys, groups, job.lsh.hot_bucket)?;
            let targets = vec![
                steps.target("candidates", Rows::NotNull("b".into())),
                steps.target("hot", Rows::Null("b".into())),
            ];
            steps.run("candidates", targets, vec![frame]).await?;
            if steps.rows("hot") > 0 {
                steps.expect(PREFIX_STEPS);
                prefix(steps, job, Some(steps.table("hot")?), "all_candidates").await?;
                return Ok(Some("all_candidates"));
            }
        }
    }
    Ok(Some("candidates"))
}

/// The steps of a prefix join.
pub(super) const PREFIX_STEPS: usize = 2;

/// Joins documents by their prefixes into `table`: all of them, or the `hot` ones, whose candidates then stand among those
/// that there are already.
async fn prefix(steps: &mut Steps<'_>, job: &Job, hot: Option<DataFrame>, table: &'static str) -> Result<()> {
    let beside = if hot.is_some() { Some(steps.table("candidates")?) } else { None };
    let documents = stage::prefix::documents(steps.table("documents")?, steps.table("groups")?, hot)?;
    let permutations = job.minhash.permutations;
    let elements = stage::prefix::elements(documents.clone(), &job.score, permutations)?;
    let join = stage::prefix::Join::new(&job.score, permutations, one_number(elements).await?);
    let frame = stage::prefix::frequencies(documents.clone(), &join)?;
    steps.run("frequencies", vec![steps.target("frequencies", Rows::All)], vec![frame]).await?;
    let mut frame = stage::prefix::candidates(documents, steps.table("frequencies")?, &join)?;
    if let Some(beside) = beside {
        frame = frame.union(beside)?.distinct()?;
    }
    steps.run(table, vec![steps.target(table, Rows::All)], vec![frame]).await
}

/// `candidates` is the table that holds them; where there is none, every two documents are scored.
pub(super) async fn scores(steps: &mut Steps<'_>, job: &Job, candidates: Option<&str>) -> Result<()> {
    let mut frames = Vec::new();
    if !steps.is_done("scores").await? {
        let blocks = blocks(steps, job, candidates).await?;
        let documents = asked_for(steps, candidates, blocks.len()).await?;
        for block in blocks {
            let documents = documents.clone();
            frames.push(match candidates {
                Some(candidates) => {
                    let candidates = steps.table(candidates)?;
                    stage::scores::scores(documents, candidates, block, &job.score, &job.lsh)?
                }
                None => {
                    let slices = tables::slices(steps.session())?;
                    stage::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?
                }
            });
        }
    }
    steps.run("scores", vec![steps.target("scores", Rows::All)], frames).await
}

/// The documents that scoring asks for. Where it reads them once for each of several blocks, they are put apart first.
async fn asked_for(steps: &mut Steps<'_>, candidates: Option<&str>, blocks: usize) -> Result<DataFrame> {
    let documents = steps.table("documents")?;
    let Some(candidates) = candidates else {
        return stage::groups::without_copies(documents, steps.table("groups")?);
    };
    if blocks == 1 {
        return Ok(documents);
    }
    let frame = stage::scores::sketches(documents, steps.table(candidates)?)?;
    steps.expect(1);
    steps.run("sketches_asked_for", vec![steps.target("asked_for", Rows::All)], vec![frame]).await?;
    steps.table("asked_for")
}

/// Cuts the key space so that the sketches of two segments take at most two fifths of the memory pool.
async fn blocks(steps: &Steps<'_>, job: &Job, candidates: Option<&str>) -> Result<Vec<Block>> {
    let room = steps.task_bytes() as f64 * 0.4;
    // What is stored bounds what can be asked for; only if that is too much is it worth a count.
    if steps.bytes("documents") as f64 <= room {
        return Ok(Block::all(1));
    }
    let documents = steps.table("documents")?.select(vec![col("doc"), col("shingle_count")])?;
    let asked = match candidates {
        None => documents,
        Some(candidates) => stage::scores::needed(steps.table(candidates)?)?.join(
            documents,
            datafusion::common::JoinType::RightSemi,
            &["needed"],
            &["doc"],
            None,
        )?,
    };
    let per_document = 8 + 48 + 4 * job.minhash.permutations as u64;
    let bytes = asked
        .aggregate(vec![], vec![sum(col("shingle_count") * lit(8_u64) + lit(per_document)).alias("n")])?;
    let bytes = one_number(bytes).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    Ok(Block::all(segments))
}
