//! The function `minhash` for SQL and for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::Documentation;

use super::arguments::{self, Rows};
use super::row_function::RowFunction;
use super::section::DOC_SECTION;
use crate::kernel::linear::{self, Linear};
use crate::kernel::minhash::{PERMUTATIONS, Permutations, minhash};

/// The SQL function `minhash`.
#[derive(Debug)]
pub(crate) enum Minhash {}

impl RowFunction for Minhash {
    const NAME: &'static str = "minhash";

    type Settings = Call;

    fn result() -> DataType {
        arguments::list_of(DataType::UInt32)
    }

    fn coerce(given: &[DataType]) -> DfResult<Vec<DataType>> {
        if !(3..=6).contains(&given.len()) {
            return plan_err!(
                "minhash takes shingles, permutations and seed, and for the linear family modulus, draws and \
                 coefficients; it got {} arguments",
                given.len()
            );
        }
        arguments::column_and_settings::<Rows<UInt64Type>>(Self::NAME, given)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> DfResult<Call> {
        Call::from_literals(literals)
    }

    fn rows([sets]: [&ArrayRef; 1], call: &Call) -> DfResult<ArrayRef> {
        let functions = call.functions()?;
        arguments::map_lists::<Rows<UInt64Type>, UInt32Type>(
            Self::NAME,
            sets,
            functions.count(),
            |set, values| {
                if !set.is_empty() {
                    functions.minima(set, values);
                }
                Ok(!set.is_empty())
            },
        )
    }

    fn documentation() -> Option<Documentation> {
        let documentation =
        Documentation::builder(
            DOC_SECTION,
            "Returns the MinHash signature of a shingle set: for each of `permutations` hash functions of the family \
             multiply-shift, drawn from `seed`, the least 32-bit value over the set. Returns NULL for a NULL list and \
             for an empty one, which has no minima. The elements should be hashes, as `shingles` returns them.",
            "minhash(shingles, permutations, seed)",
        )
        .with_sql_example(
            "```sql\n\
             > select minhash([1, 2, 3], 4, 42);\n\
             [1651866024, 773068804, 3892349525, 81763595]\n\
             ```",
        )
        .with_argument("shingles", "The set: a list of UInt64, or of Int64 with the same bits, without nulls. Order and repeats do not matter.")
        .with_argument("permutations", "The signature's length, a literal from 1 to 65535.")
        .with_argument("seed", "What the hash functions are drawn from, a literal of at least 0.")
        .with_argument("modulus", "The c of the family linear, a literal in [2, 2^32); a prime is best.")
        .with_argument(
            "draws",
            "a and b are drawn from 1 to this literal, which is less than c and at least `permutations`; c - 1 by \
             default.",
        )
        .with_argument(
            "coefficients",
            "For the family linear, instead of those that are drawn: a_0, b_0, a_1, b_1, ... as a literal string \
             of numbers with spaces between them, two for each of `permutations`.",
        )
        .with_related_udf("minhash_similarity")
        .with_related_udf("lsh_bands")
        .with_related_udf("short_signature")
        .build();
        Some(documentation)
    }
}

/// The checked settings of a call. The functions are drawn when there are rows.
pub(crate) struct Call {
    count: usize,
    seed: u64,
    /// Modulus and draws of the linear family.
    linear: Option<(u64, u64)>,
    /// The coefficients to use instead of drawing them.
    given: Option<Vec<(u64, u64)>>,
}

impl Call {
    /// From the literal arguments behind the shingles.
    fn from_literals(literals: &[Option<&ScalarValue>]) -> DfResult<Self> {
        const NAME: &str = "minhash";
        let literal = |at: usize| literals.get(at).copied();
        let count = arguments::number(NAME, "permutations", literal(0), PERMUTATIONS, None)?;
        let seed = arguments::integer(NAME, "seed", literal(1), 0, None)?;
        if literal(2).is_none() {
            return Ok(Self { count, seed, linear: None, given: None });
        }
        let modulus = arguments::integer(NAME, "modulus", literal(2), 2, None)?;
        let draws = arguments::integer(NAME, "draws", literal(3), 1, Some(modulus - 1))?;
        match linear::allowed(count, modulus, draws) {
            true => {
                Ok(Self { count, seed, linear: Some((modulus, draws)), given: given(literal(4), count)? })
            }
            false => plan_err!(
                "minhash: modulus must be under 2^32 and draws under modulus and at least {count}, the number of \
                 permutations; got {modulus} and {draws}"
            ),
        }
    }

    fn functions(&self) -> DfResult<Functions> {
        let &Self { count, seed, linear, ref given } = self;
        let Some((modulus, draws)) = linear else {
            return Ok(Functions::MultiplyShift(Permutations::new(count, seed)));
        };
        let functions = match given {
            Some(given) => Linear::of(given, modulus),
            None => Linear::new(count, seed, modulus, draws),
        };
        match functions {
            Some(linear) => Ok(Functions::Linear(linear)),
            None => internal_err!("minhash: no functions modulo {modulus} can be drawn from {draws}"),
        }
    }
}

/// The coefficients that a call gives for `count` functions, if it does.
fn given(literal: arguments::Literal<'_>, count: usize) -> DfResult<Option<Vec<(u64, u64)>>> {
    if literal.is_none() {
        return Ok(None);
    }
    let text = arguments::string("minhash", "coefficients", literal, "")?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() == 2 * count => {
            Ok(Some(numbers.as_chunks::<2>().0.iter().map(|&[a, b]| (a, b)).collect()))
        }
        _ => plan_err!("minhash: coefficients must be {} whole numbers with spaces between them", 2 * count),
    }
}

/// The hash functions of a call.
enum Functions {
    MultiplyShift(Permutations),
    Linear(Linear),
}

impl Functions {
    /// The number of functions.
    fn count(&self) -> usize {
        match self {
            Functions::MultiplyShift(permutations) => permutations.len(),
            Functions::Linear(linear) => linear.len(),
        }
    }

    fn minima(&self, set: &[u64], out: &mut Vec<u32>) {
        match self {
            Functions::MultiplyShift(permutations) => minhash(set, permutations, out),
            Functions::Linear(linear) => linear::minhash(set, linear, out),
        }
    }
}
