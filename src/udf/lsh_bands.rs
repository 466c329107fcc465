//! The function `lsh_bands` for SQL and for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::Documentation;

use super::arguments::{self, Names};
use super::row_function::RowFunction;
use super::section::DOC_SECTION;
use super::signatures::{SIGNATURE, Signatures};
use crate::job::BucketHash;
use crate::kernel::lsh_bands::{Buckets, lsh_bands};
use crate::kernel::minhash::PERMUTATIONS;

/// The SQL function `lsh_bands`.
#[derive(Debug)]
pub(crate) enum LshBands {}

/// The hashes by their names.
pub(super) const HASHES: Names<BucketHash> =
    &[("xxh3", BucketHash::Xxh3), ("crc32", BucketHash::Crc32), ("crc32-tuple", BucketHash::Crc32Tuple)];

impl RowFunction for LshBands {
    const NAME: &'static str = "lsh_bands";

    type Settings = Buckets;

    fn result() -> DataType {
        arguments::list_of(DataType::UInt64)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        if !(3..=5).contains(&given.len()) {
            return plan_err!(
                "lsh_bands takes a signature, bands and rows, and then hash and table_size; it got {} arguments",
                given.len()
            );
        }
        arguments::column_and_settings::<Signatures>(Self::NAME, given)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Buckets> {
        let literal = |at: usize| literals.get(at).copied();
        let bands = arguments::number(Self::NAME, "bands", literal(0), PERMUTATIONS, None)?;
        let rows = arguments::number(Self::NAME, "rows", literal(1), PERMUTATIONS, None)?;
        if bands * rows > *PERMUTATIONS.end() {
            let most = PERMUTATIONS.end();
            return plan_err!(
                "lsh_bands: {bands} bands of {rows} rows are more than the {most} values that a signature can have"
            );
        }
        let hash = arguments::one_of(Self::NAME, "hash", literal(2), HASHES)?;
        let table_size = match literal(3) {
            None => None,
            given => Some(arguments::integer(Self::NAME, "table_size", given, 1, None)?),
        };
        Ok(Buckets { bands, rows, hash, table_size })
    }

    fn rows([signatures]: [&ArrayRef; 1], &by: &Buckets) -> Result<ArrayRef> {
        arguments::map_lists::<Signatures, UInt64Type>(
            Self::NAME,
            signatures,
            by.bands,
            |signature, buckets| match lsh_bands(signature, by, buckets) {
                Some(_) => Ok(true),
                None => Err(exec_datafusion_err!(
                    "lsh_bands: {} bands of {} rows need {} values, and the signature has {}",
                    by.bands,
                    by.rows,
                    by.bands * by.rows,
                    signature.len()
                )),
            },
        )
    }

    fn documentation() -> Option<Documentation> {
        let documentation =
        Documentation::builder(
            DOC_SECTION,
            "Returns the LSH buckets of a MinHash signature, one for each of `bands` bands of `rows` values: two \
             documents that share a bucket are candidates. A bucket tells its band as well, so buckets of different \
             bands do not meet. Returns NULL for a NULL signature. It is an error if `bands * rows` is more than the \
             signature's length; values past it are not used.",
            "lsh_bands(signature, bands, rows[, hash[, table_size]])",
        )
        .with_sql_example(
            "```sql\n\
             > select lsh_bands([7, 7], 2, 1);\n\
             [6318062648460624204, 1109957299823292354]\n\
             ```",
        )
        .with_argument("signature", SIGNATURE)
        .with_argument("bands", "Bands, b: a literal of at least 1. More bands at the same rows find more pairs.")
        .with_argument("rows", "Values in a band, r: a literal of at least 1. More rows find fewer pairs.")
        .with_argument(
            "hash",
            "`'xxh3'` (the default): XXH3-64 of the values as 4 bytes each, or 2 of a short signature, little endian, seeded by \
             the band's number. `'crc32'`: CRC-32 of the values in decimal, joined by `_`, with the band's number above its 32 \
             bits. `'crc32-tuple'`: the same of the values as Python prints a tuple, as in `(15, 355, 89, 2)`.",
        )
        .with_argument(
            "table_size",
            "Buckets of one table that all bands share: a literal of at least 1. Bands then meet by chance too. \
             Without it each band has buckets of its own.",
        )
        .with_related_udf("minhash")
        .build();
        Some(documentation)
    }
}
