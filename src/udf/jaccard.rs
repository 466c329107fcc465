//! The function `jaccard` for SQL and for plans.

use arrow::datatypes::UInt64Type;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::arguments::Rows;
use super::pair_function::PairFunction;
use super::section::DOC_SECTION;
use crate::kernel::jaccard::{as_set, jaccard_of, shared};

/// The SQL function `jaccard`.
#[derive(Debug)]
pub(crate) enum Jaccard {}

impl PairFunction for Jaccard {
    const NAME: &'static str = "jaccard";

    type Column<'a> = Rows<'a, UInt64Type>;

    fn compare<'a>(a: &'a [u64], b: &'a [u64]) -> Result<Option<f64>> {
        let (a, b) = (as_set(a), as_set(b));
        let jaccard = jaccard_of(shared(&a, &b), a.len() as u64, b.len() as u64);
        Ok(Some(jaccard).filter(|jaccard| !jaccard.is_nan()))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            DOC_SECTION,
            "Returns the Jaccard similarity of two sets: elements in both, divided by elements in either. Returns NULL \
             if either list is NULL, and if both are empty, as 0/0 has no value; 0.0 if one is empty. Lists are read \
             as sets, and fastest when sorted and without repeats, as `shingles` returns them.",
            "jaccard(a, b)",
        )
        .with_sql_example(
            "```sql\n\
             > select jaccard([1, 2, 3], [2, 3, 4]);\n\
             0.5\n\
             ```",
        )
        .with_argument("a", "A set: a list of UInt64, or of Int64 with the same bits, without nulls.")
        .with_argument("b", "A set: a list of UInt64, or of Int64 with the same bits, without nulls.")
        .with_related_udf("containment")
        .with_related_udf("minhash_similarity")
        .build()
    }
}
