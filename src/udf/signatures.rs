//! Signatures as arguments: lists of minima, or binaries of 16 bits of each.

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::{Result, exec_err};

use super::arguments::{Column, Rows, downcast};
use crate::kernel::signature::Signature;

/// The documentation of such an argument.
pub(super) const SIGNATURE: &str = "A list of UInt32, as `minhash` returns it, or of Int32 with the same bits; or a binary, as \
     `short_signature` returns it.";

/// The rows of an array of signatures.
pub(crate) enum Signatures<'a> {
    /// Lists of UInt32, or of Int32 with the same bits.
    Of32(Rows<'a, UInt32Type>),
    /// Binaries with two bytes for each value.
    Of16 { array: &'a BinaryArray, repeated: bool },
}

impl<'a> Column<'a> for Signatures<'a> {
    type Row = Signature<'a>;

    fn coerce(function: &str, given: &DataType) -> Result<DataType> {
        match given {
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Ok(DataType::Binary),
            other => Rows::<UInt32Type>::coerce(function, other),
        }
    }

    fn new(function: &str, array: &'a ArrayRef, repeated: bool) -> Result<Self> {
        if array.data_type() != &DataType::Binary {
            return Rows::new(function, array, repeated).map(Self::Of32);
        }
        let array: &BinaryArray = downcast(array)?;
        let lengths = array.value_offsets().windows(2).map(|ends| ends[1] - ends[0]);
        if let Some((row, bytes)) = (0..).zip(lengths).find(|(_, bytes)| bytes % 2 == 1) {
            return exec_err!(
                "{function}: the signature in row {row} of the batch has {bytes} bytes; a binary signature has two for each value"
            );
        }
        Ok(Self::Of16 { array, repeated })
    }

    fn len(&self) -> usize {
        match self {
            Self::Of32(rows) => rows.len(),
            Self::Of16 { array, .. } => array.len(),
        }
    }

    fn row(&self, row: usize) -> Option<Signature<'a>> {
        match self {
            Self::Of32(rows) => rows.row(row).map(Signature::Of32),
            Self::Of16 { array, repeated } => {
                let row = if *repeated { 0 } else { row };
                array.is_valid(row).then(|| Signature::Of16(array.value(row).as_chunks().0))
            }
        }
    }
}
