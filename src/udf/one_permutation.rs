//! The function `one_permutation` for SQL and for plans.

use std::sync::LazyLock;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{self, Lists, Rows};
use crate::kernel::minhash::PERMUTATIONS;
use crate::kernel::one_permutation::{Rounds, one_permutation};

/// The SQL function `one_permutation`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OnePermutation {
    signature: Signature,
}

impl Default for OnePermutation {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

const NAME: &str = "one_permutation";

impl ScalarUDFImpl for OnePermutation {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(arguments::list_of(DataType::UInt32))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        settings(&args.scalar_arguments[1..])?;
        arguments::field(NAME, arguments::list_of(DataType::UInt32))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [shingles, permutations, seed] = take_function_args(NAME, types)?;
        let shingles = arguments::list_type(NAME, shingles, &DataType::UInt64)?;
        Ok(vec![shingles, permutations.clone(), seed.clone()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (bins, seed) = settings(&arguments::scalars(&args.args[1..]))?;
        arguments::map_first(&args, |sets| rows(sets, &Rounds::new(bins, seed)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::section::DOC_SECTION,
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
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

/// (permutations, seed), from the literal arguments behind the shingles.
fn settings(literals: &[Option<&ScalarValue>]) -> Result<(usize, u64)> {
    let literal = |at: usize| literals.get(at).copied();
    let bins = arguments::number(NAME, "permutations", literal(0), PERMUTATIONS, None)?;
    Ok((bins, arguments::integer(NAME, "seed", literal(1), 0, None)?))
}

fn rows(sets: &ArrayRef, rounds: &Rounds) -> Result<ArrayRef> {
    let sets = Rows::<UInt64Type>::new(NAME, sets, false)?;
    let mut lists = Lists::<UInt32Type>::with_capacity(
        NAME,
        sets.len(),
        sets.len().saturating_mul(rounds.keys.len() / 2),
    );
    let mut scratch = Vec::new();
    for row in 0..sets.len() {
        match sets.row(row) {
            Some(set) if !set.is_empty() => {
                one_permutation(set, rounds, &mut scratch, &mut lists.values);
                lists.end_row()?;
            }
            _ => lists.push_null(),
        }
    }
    lists.finish()
}
