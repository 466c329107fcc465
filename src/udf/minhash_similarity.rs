//! The function `minhash_similarity` for SQL and for plans.

use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Documentation;

use super::pair_function::PairFunction;
use super::section::DOC_SECTION;
use super::signatures::{SIGNATURE, Signatures};
use crate::kernel::minhash_similarity::minhash_similarity;
use crate::kernel::signature::Signature;

/// The SQL function `minhash_similarity`.
#[derive(Debug)]
pub(crate) enum MinhashSimilarity {}

impl PairFunction for MinhashSimilarity {
    const NAME: &'static str = "minhash_similarity";

    type Column<'a> = Signatures<'a>;

    fn compare<'a>(a: Signature<'a>, b: Signature<'a>) -> Result<Option<f64>> {
        if matches!(
            (a, b),
            (Signature::Of16(_), Signature::Of32(_)) | (Signature::Of32(_), Signature::Of16(_))
        ) {
            return exec_err!(
                "minhash_similarity takes two lists or two binaries, and got one of each: `short_signature` makes a binary of a list"
            );
        }
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
             equal values at equal index, corrected for chance if they have 16 bits. Returns NULL if either signature is NULL or both are empty. Signatures \
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
        .with_argument("a", SIGNATURE)
        .with_argument("b", "A signature of the same type, the same length and the same seed.")
        .with_related_udf("minhash")
        .with_related_udf("jaccard")
        .build()
    }
}
