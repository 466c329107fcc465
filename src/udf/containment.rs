//! The function `containment` for SQL and for plans.

use arrow::datatypes::UInt64Type;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::arguments::Rows;
use super::pair_function::PairFunction;
use super::section::DOC_SECTION;
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, shared};

/// The SQL function `containment`.
#[derive(Debug)]
pub(crate) enum Containment {}

impl PairFunction for Containment {
    const NAME: &'static str = "containment";

    type Column<'a> = Rows<'a, UInt64Type>;

    fn compare<'a>(a: &'a [u64], b: &'a [u64]) -> Result<Option<f64>> {
        let (a, b) = (as_set(a), as_set(b));
        let containment = containment_of(shared(&a, &b), a.len() as u64);
        Ok(Some(containment).filter(|containment| !containment.is_nan()))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            DOC_SECTION,
            "Returns the share of the elements of `a` that are in `b`: 1.0 if `a` is a part of `b`, however large `b` \
             is. Returns NULL if either list is NULL, and if `a` is empty, as 0/0 has no value. Lists are read as \
             sets, and fastest when sorted and without repeats, as `shingles` returns them.",
            "containment(a, b)",
        )
        .with_sql_example(
            "```sql\n\
             > select containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7]);\n\
             0.75\n\
             ```",
        )
        .with_argument("a", "The set that may be a part: a list of UInt64, or of Int64 with the same bits, without nulls.")
        .with_argument("b", "The set that it may be a part of: a list of UInt64, or of Int64 with the same bits, without nulls.")
        .with_related_udf("jaccard")
        .build()
    }
}
