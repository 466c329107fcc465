//! `lsh_bands(signature, bands, rows)`: the bucket that a signature falls into in each band.
//!
//! Documents that share a bucket are candidates. For two sets of Jaccard similarity J that is so with the probability
//! `1 - (1 - J^r)^b` (Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, section 3.4).
//!
//! The bucket of band i is XXH3-64, with seed i, of the band's r values as 4 bytes each, little endian: the values
//! `i*r..(i+1)*r` of the signature. With the band in the seed, equal values in two bands give two buckets, so that the
//! bucket alone tells the band as well. This is fixed for good, since stored buckets are compared with later ones.

use std::sync::LazyLock;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::arguments::{self, Lists, Rows};

/// Appends the buckets of `signature` to `out`, one for each band, in the order of the bands.
///
/// `None`, and nothing is appended, if the signature has fewer than `bands * rows` values, or if `rows` is 0.
pub fn lsh_bands(signature: &[u32], bands: usize, rows: usize, out: &mut Vec<u64>) -> Option<()> {
    let values = signature.get(..bands.checked_mul(rows)?)?;
    if rows == 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(4 * rows);
    out.extend(values.chunks_exact(rows).zip(0..).map(|(band, number)| {
        bytes.clear();
        bytes.extend(band.iter().flat_map(|value| value.to_le_bytes()));
        xxh3_64_with_seed(&bytes, number)
    }));
    Some(())
}

/// The SQL function `lsh_bands`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct LshBands {
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
        let [_, bands, rows] = take_function_args(self.name(), args.scalar_arguments)?;
        settings(*bands, *rows)?;
        arguments::field(self.name(), arguments::list_of(DataType::UInt64))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [signature, bands, rows] = take_function_args(self.name(), types)?;
        let signature = arguments::list_type(self.name(), signature, &DataType::UInt32)?;
        Ok(vec![signature, bands.clone(), rows.clone()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [_, bands, rows] = take_function_args(self.name(), arguments::scalars(&args.args))?;
        let (bands, rows) = settings(bands, rows)?;
        arguments::map_first(&args, |signatures| band_rows(signatures, bands, rows))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::DOC_SECTION,
                "Returns the LSH buckets of a MinHash signature, one for each of `bands` bands of `rows` values: two \
                 documents that share a bucket are candidates. A bucket tells its band as well, so buckets of different \
                 bands do not meet. Returns NULL for a NULL signature. It is an error if `bands * rows` is more than the \
                 signature's length; values past it are not used.",
                "lsh_bands(signature, bands, rows)",
            )
            .with_sql_example(
                "```sql\n\
                 > select lsh_bands([7, 7], 2, 1);\n\
                 [6318062648460624204, 1109957299823292354]\n\
                 ```",
            )
            .with_argument("signature", "A list of UInt32, as `minhash` returns it.")
            .with_argument("bands", "Bands, b: a literal of at least 1. More bands at the same rows find more pairs.")
            .with_argument("rows", "Values in a band, r: a literal of at least 1. More rows find fewer pairs.")
            .with_related_udf("minhash")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

fn settings(bands: Option<&ScalarValue>, rows: Option<&ScalarValue>) -> Result<(usize, usize)> {
    let bands = arguments::number("lsh_bands", "bands", Some(bands), 1, None)?;
    let rows = arguments::number("lsh_bands", "rows", Some(rows), 1, None)?;
    if bands.checked_mul(rows).is_none() {
        return plan_err!("lsh_bands: {bands} bands of {rows} rows are more than a signature can have");
    }
    Ok((bands, rows))
}

fn band_rows(signatures: &ArrayRef, bands: usize, rows: usize) -> Result<ArrayRef> {
    let signatures = Rows::<UInt32Type>::new("lsh_bands", signatures, false)?;
    let mut lists = Lists::<UInt64Type>::with_capacity("lsh_bands", signatures.len());
    for row in 0..signatures.len() {
        let Some(signature) = signatures.row(row) else {
            lists.push_null();
            continue;
        };
        lsh_bands(signature, bands, rows, &mut lists.values).ok_or_else(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: [u32; 6] = [1, 2, 3, 4, 5, u32::MAX];

    fn buckets(signature: &[u32], bands: usize, rows: usize) -> Option<Vec<u64>> {
        let mut out = Vec::new();
        lsh_bands(signature, bands, rows, &mut out).map(|()| out)
    }

    /// Computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn known_buckets() {
        assert_eq!(
            buckets(&SIGNATURE, 3, 2).unwrap(),
            [254984204845929552, 5681563201217060630, 3684472867068770441]
        );
        assert_eq!(buckets(&SIGNATURE, 2, 3).unwrap(), [7764052002911021640, 2227789580746725855]);
        assert_eq!(buckets(&[7, 7], 1, 1).unwrap(), [6318062648460624204]);
        assert_eq!(buckets(&[7, 7], 2, 1).unwrap(), [6318062648460624204, 1109957299823292354]);
    }

    #[test]
    fn equal_values_in_two_bands_are_two_buckets() {
        let buckets = buckets(&[7, 7], 2, 1).unwrap();
        assert_ne!(buckets[0], buckets[1]);
    }

    #[test]
    fn values_past_the_bands_are_not_used() {
        assert_eq!(buckets(&SIGNATURE, 2, 2), buckets(&SIGNATURE[..4], 2, 2));
    }

    #[test]
    fn too_short_a_signature() {
        assert_eq!(buckets(&SIGNATURE, 7, 1), None);
        assert_eq!(buckets(&SIGNATURE, 1, 0), None);
        assert_eq!(buckets(&SIGNATURE, usize::MAX, 2), None);
    }
}
