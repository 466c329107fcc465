//! The function `lsh_bands` for SQL and for plans.

use std::sync::LazyLock;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, UInt32Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{self, Lists, Rows};
use crate::job::BucketHash;
use crate::kernel::lsh_bands::{Buckets, lsh_bands};
use crate::kernel::minhash::PERMUTATIONS;

/// The SQL function `lsh_bands`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LshBands {
    signature: Signature,
}

impl Default for LshBands {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for LshBands {
    fn name(&self) -> &str {
        "lsh_bands"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(arguments::list_of(DataType::UInt64))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        settings(&args.scalar_arguments[1..])?;
        arguments::field(self.name(), arguments::list_of(DataType::UInt64))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !(3..=5).contains(&types.len()) {
            return plan_err!(
                "lsh_bands takes a signature, bands and rows, and then hash and table_size; it got {} arguments",
                types.len()
            );
        }
        let mut types = types.to_vec();
        types[0] = arguments::list_type(self.name(), &types[0], &DataType::UInt32)?;
        Ok(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let by = settings(&arguments::scalars(&args.args[1..]))?;
        arguments::map_first(&args, |signatures| band_rows(signatures, by))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::section::DOC_SECTION,
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
            .with_argument("signature", "A list of UInt32, as `minhash` returns it, or of Int32 with the same bits.")
            .with_argument("bands", "Bands, b: a literal of at least 1. More bands at the same rows find more pairs.")
            .with_argument("rows", "Values in a band, r: a literal of at least 1. More rows find fewer pairs.")
            .with_argument(
                "hash",
                "`'xxh3'` (the default): XXH3-64 of the values as 4 bytes each, little endian, seeded by the band's \
                 number. `'crc32'`: CRC-32 of the values in decimal, joined by `_`, with the band's number above its 32 \
                 bits.",
            )
            .with_argument(
                "table_size",
                "Buckets of one table that all bands share: a literal of at least 1. Bands then meet by chance too. \
                 Without it each band has buckets of its own.",
            )
            .with_related_udf("minhash")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

/// The settings from the literal arguments behind the signature.
fn settings(literals: &[Option<&ScalarValue>]) -> Result<Buckets> {
    const NAME: &str = "lsh_bands";
    let literal = |at: usize| literals.get(at).copied();
    let bands = arguments::number(NAME, "bands", literal(0), PERMUTATIONS, None)?;
    let rows = arguments::number(NAME, "rows", literal(1), PERMUTATIONS, None)?;
    if bands * rows > *PERMUTATIONS.end() {
        let most = PERMUTATIONS.end();
        return plan_err!(
            "lsh_bands: {bands} bands of {rows} rows are more than the {most} values that a signature can have"
        );
    }
    let hash = match arguments::string(NAME, "hash", literal(2), "xxh3")? {
        "xxh3" => BucketHash::Xxh3,
        "crc32" => BucketHash::Crc32,
        other => return plan_err!("lsh_bands has no hash '{other}'; allowed are 'xxh3' and 'crc32'"),
    };
    let table_size = match literal(3) {
        None => None,
        given => Some(arguments::integer(NAME, "table_size", given, 1, None)?),
    };
    Ok(Buckets { bands, rows, hash, table_size })
}

fn band_rows(signatures: &ArrayRef, by: Buckets) -> Result<ArrayRef> {
    let signatures = Rows::<UInt32Type>::new("lsh_bands", signatures, false)?;
    let mut lists = Lists::<UInt64Type>::with_capacity(
        "lsh_bands",
        signatures.len(),
        signatures.len().saturating_mul(by.bands),
    );
    for row in 0..signatures.len() {
        let Some(signature) = signatures.row(row) else {
            lists.push_null();
            continue;
        };
        lsh_bands(signature, by, &mut lists.values).ok_or_else(|| {
            let Buckets { bands, rows, .. } = by;
            exec_datafusion_err!(
                "lsh_bands: {bands} bands of {rows} rows need {} values, and the signature has {}",
                bands * rows,
                signature.len()
            )
        })?;
        lists.end_row()?;
    }
    lists.finish()
}
