//! Uses the SQL functions in a custom DataFusion session to find near-duplicates among a few rows.
//!
//! ```sh
//! cargo run --example sql_functions
//! ```

use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = SessionContext::new();
    resemblance::udf::register_all(&session)?;
    let pairs = session
        .sql(
            "WITH texts(id, body) AS (VALUES
                 (1, 'the quick brown fox jumps over the lazy dog'),
                 (2, 'the quick brown fox jumps over a lazy dog'),
                 (3, 'something else entirely, and more of it')),
             sets AS (SELECT id, shingles(body, 'word', 2, 'xxh3', 'lowercase,letters-only') AS s FROM texts)
             SELECT a.id AS id_a, b.id AS id_b, jaccard(a.s, b.s) AS jaccard,
                    minhash_similarity(minhash(a.s, 128, 42), minhash(b.s, 128, 42)) AS estimate
             FROM sets a JOIN sets b ON a.id < b.id
             ORDER BY jaccard DESC",
        )
        .await?;
    pairs.show().await?;
    Ok(())
}
