//! The function `minhash_similarity` for SQL and for plans.

use arrow::datatypes::UInt32Type;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Documentation;

use super::pair_function::PairFunction;
use super::section::DOC_SECTION;
use crate::kernel::minhash_similarity::minhash_similarity;

/// The SQL function `minhash_similarity`.
#[derive(Debug)]
pub(crate) enum MinhashSimilarity {}

impl PairFunction for MinhashSimilarity {
    const NAME: &'static str = "minhash_similarity";

    type Item = UInt32Type;

    fn compare(a: &[u32], b: &[u32]) -> Result<Option<f64>> {
        if a.len() != b.len() {
            return exec_err!(
                "minhash_similarity takes signatures of equal length, and got {} and {} values",
                a.len(),
                b.len()
            );
        }
        Ok(minhash_similarity(a, b))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            DOC_SECTION,
            "Returns the estimated Jaccard similarity of two sets, from their MinHash signatures: the share of \
             equal values at equal index. Returns NULL if either signature is NULL or both are empty. Signatures \
             of different lengths are an error. Signatures made with different seeds are not an error, but their \
             similarity means nothing.",
            "minhash_similarity(a, b)",
        )
        .with_sql_example(
            "```sql\n\
             > select minhash_similarity([4, 5, 6, 7], [4, 5, 6, 8]);\n\
             0.75\n\
             ```",
        )
        .with_argument("a", "A signature: a list of UInt32, as `minhash` returns it, or of Int32 with the same bits.")
        .with_argument("b", "A signature of the same length and the same seed.")
        .with_related_udf("minhash")
        .with_related_udf("jaccard")
        .build()
    }
}
