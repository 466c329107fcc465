//! The function `one_permutation` for SQL and for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::arguments::{self, Rows};
use super::row_function::RowFunction;
use super::section::DOC_SECTION;
use crate::kernel::minhash::PERMUTATIONS;
use crate::kernel::one_permutation::{Rounds, one_permutation};

/// The SQL function `one_permutation`.
#[derive(Debug)]
pub(crate) enum OnePermutation {}

impl RowFunction for OnePermutation {
    const NAME: &'static str = "one_permutation";

    /// (permutations, seed).
    type Settings = (usize, u64);

    fn result() -> DataType {
        arguments::list_of(DataType::UInt32)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _, _] = take_function_args(Self::NAME, given)?;
        arguments::column_and_settings::<Rows<UInt64Type>>(Self::NAME, given)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<(usize, u64)> {
        let literal = |at: usize| literals.get(at).copied();
        let bins = arguments::number(Self::NAME, "permutations", literal(0), PERMUTATIONS, None)?;
        Ok((bins, arguments::integer(Self::NAME, "seed", literal(1), 0, None)?))
    }

    fn rows([sets]: [&ArrayRef; 1], &(bins, seed): &(usize, u64)) -> Result<ArrayRef> {
        let (rounds, mut scratch) = (Rounds::new(bins, seed), Vec::new());
        arguments::map_lists::<Rows<UInt64Type>, UInt32Type>(
            Self::NAME,
            sets,
            rounds.keys.len() / 2,
            |set, values| {
                if !set.is_empty() {
                    one_permutation(set, &rounds, &mut scratch, values);
                }
                Ok(!set.is_empty())
            },
        )
    }

    fn documentation() -> Option<Documentation> {
        let documentation =
        Documentation::builder(
            DOC_SECTION,
            "Returns a MinHash signature of a shingle set, as `minhash` does, in a time that is nearly independent \
             of its length: every shingle falls into one of `permutations` bins, and each bin keeps its smallest \
             32-bit value. While there are empty bins, all shingles are hashed again by another function drawn \
             from `seed`. Returns NULL for a NULL list and for an empty one. Signatures can be compared with those \
             of the same length and seed, and not with those of `minhash`.",
            "one_permutation(shingles, permutations, seed)",
        )
        .with_sql_example(
            "```sql\n\
             > select one_permutation([1, 2, 3], 4, 42);\n\
             [3558495407, 2257628742, 2735623570, 2358461157]\n\
             ```",
        )
        .with_argument("shingles", "The set: a list of UInt64, or of Int64 with the same bits, without nulls. Order and repeats do not matter.")
        .with_argument("permutations", "The signature's length, a literal from 1 to 65535.")
        .with_argument("seed", "What the hash functions are drawn from, a literal of at least 0.")
        .with_related_udf("minhash")
        .with_related_udf("minhash_similarity")
        .with_related_udf("lsh_bands")
        .with_related_udf("short_signature")
        .build();
        Some(documentation)
    }
}
