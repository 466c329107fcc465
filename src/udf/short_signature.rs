//! The function `short_signature` for SQL and for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::Documentation;

use super::arguments::{self, Column, Rows};
use super::row_function::RowFunction;
use super::section::DOC_SECTION;
use crate::kernel::signature::shorten;

/// The SQL function `short_signature`.
#[derive(Debug)]
pub(crate) enum ShortSignature {}

impl RowFunction for ShortSignature {
    const NAME: &'static str = "short_signature";

    type Settings = ();

    fn result() -> DataType {
        DataType::Binary
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_] = take_function_args(Self::NAME, given)?;
        arguments::column_and_settings::<Rows<UInt32Type>>(Self::NAME, given)
    }

    fn settings(_: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows([signatures]: [&ArrayRef; 1], (): &()) -> Result<ArrayRef> {
        let rows = Rows::<UInt32Type>::new(Self::NAME, signatures, false)?;
        let lengths = (0..rows.len()).map(|row| 2 * rows.row(row).map_or(0, <[u32]>::len));
        let length = lengths.clone().sum();
        if i32::try_from(length).is_err() {
            return Err(exec_datafusion_err!(
                "{}: the signatures of one batch have 2^31 bytes or more; lower datafusion.execution.batch_size",
                Self::NAME
            ));
        }
        let mut bytes = Vec::with_capacity(length);
        (0..rows.len()).filter_map(|row| rows.row(row)).for_each(|minima| shorten(minima, &mut bytes));
        let nulls: NullBuffer = (0..rows.len()).map(|row| rows.row(row).is_some()).collect();
        Ok(Arc::new(BinaryArray::try_new(OffsetBuffer::from_lengths(lengths), bytes.into(), Some(nulls))?))
    }

    fn documentation() -> Option<Documentation> {
        let documentation = Documentation::builder(
            DOC_SECTION,
            "Returns 16 bits of each value of a MinHash signature as a binary of half the size, as runs store \
             signatures with `minhash.bits = 16`: for each value two bytes, the lower one first, which are the upper \
             half of its product with 2654435761 modulo 2^32. `minhash_similarity` corrects for values that are equal \
             by chance. Returns NULL for a NULL list.",
            "short_signature(signature)",
        )
        .with_sql_example(
            "```sql\n\
             > select short_signature(minhash([1, 2, 3], 4, 42));\n\
             d16c1afc04d83297\n\
             ```",
        )
        .with_argument("signature", "A list of UInt32, as `minhash` returns it, or of Int32 with the same bits.")
        .with_related_udf("minhash")
        .with_related_udf("one_permutation")
        .with_related_udf("minhash_similarity")
        .with_related_udf("lsh_bands")
        .build();
        Some(documentation)
    }
}
