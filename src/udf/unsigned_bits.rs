//! `unsigned_bits(x)`: signed numbers as the unsigned ones of the same bits (two's complement).
//!
//! The functions here work on unsigned numbers. The public tables have signed ones, since not every engine reads
//! unsigned columns. No bit changes, and no value is copied.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, FieldRef, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, internal_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;

/// The bits of `array` as numbers of the type `to`, or lists of them, which have the same width and the other sign. `None` for
/// other types.
pub(crate) fn reinterpret(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    match (array.data_type(), to) {
        (DataType::Int32, DataType::UInt32) => same_bits::<Int32Type, UInt32Type>(array),
        (DataType::UInt32, DataType::Int32) => same_bits::<UInt32Type, Int32Type>(array),
        (DataType::Int64, DataType::UInt64) => same_bits::<Int64Type, UInt64Type>(array),
        (DataType::UInt64, DataType::Int64) => same_bits::<UInt64Type, Int64Type>(array),
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list_opt::<i32>()?;
            let values = reinterpret(lists.values(), item.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Some(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls).ok()?))
        }
        _ => None,
    }
}

fn same_bits<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(array: &ArrayRef) -> Option<ArrayRef> {
    let array = array.as_primitive_opt::<A>()?;
    let values = ScalarBuffer::from(array.values().inner().clone());
    Some(Arc::new(PrimitiveArray::<B>::try_new(values, array.nulls().cloned()).ok()?))
}

/// The unsigned type of the same width; `None` for anything but signed numbers of 32 or 64 bits and lists of them.
fn unsigned(given: &DataType) -> Option<DataType> {
    match given {
        DataType::Int32 => Some(DataType::UInt32),
        DataType::Int64 => Some(DataType::UInt64),
        DataType::List(item) => {
            let unsigned = unsigned(item.data_type())?;
            Some(DataType::List(Arc::new(item.as_ref().clone().with_data_type(unsigned))))
        }
        _ => None,
    }
}

/// The function that stages apply to public tables; SQL sessions do not have it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnsignedBits {
    signature: Signature,
}

impl Default for UnsignedBits {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for UnsignedBits {
    fn name(&self) -> &str {
        "unsigned_bits"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = take_function_args(self.name(), types)?;
        match unsigned(given) {
            Some(unsigned) => Ok(unsigned),
            None => plan_err!(
                "unsigned_bits takes signed numbers of 32 or 64 bits or lists of them, and got {given}"
            ),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [given] = take_function_args(self.name(), args.arg_fields)?;
        let data_type = self.return_type(&[given.data_type().clone()])?;
        Ok(Arc::new(given.as_ref().clone().with_name(self.name()).with_data_type(data_type)))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.return_type(types)?;
        Ok(types.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = take_function_args(self.name(), args.args)?;
        arguments::map(&arguments, |[array]: [&ArrayRef; 1]| {
            unsigned(array.data_type())
                .and_then(|to| reinterpret(array, &to))
                .ok_or_else(|| internal_datafusion_err!("unsigned_bits got {}", array.data_type()))
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, UInt64Array};

    use super::*;

    #[test]
    fn every_bit_is_kept_and_none_is_copied() {
        let bits = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
        let array: ArrayRef = Arc::new(UInt64Array::from(bits.to_vec()));
        let signed = reinterpret(&array, &DataType::Int64).unwrap();
        assert_eq!(signed.as_primitive::<Int64Type>().values(), &[0, 1, i64::MAX, i64::MIN, -1]);
        assert_eq!(
            signed.as_primitive::<Int64Type>().values().inner().as_ptr(),
            array.as_primitive::<UInt64Type>().values().inner().as_ptr()
        );
        assert_eq!(&reinterpret(&signed, &DataType::UInt64).unwrap(), &array);
    }

    #[test]
    fn a_slice_and_its_nulls_stay_what_they_are() {
        let rows = [Some(vec![Some(1_u32)]), None, Some(vec![Some(u32::MAX), Some(7)]), Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(rows));
        let signed = reinterpret(&lists.slice(1, 2), &DataType::new_list(DataType::Int32, true)).unwrap();
        let expected = [None, Some(vec![Some(-1), Some(7)])];
        let expected: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(expected));
        assert_eq!(&signed, &expected);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-2), None, Some(3)]));
        let unsigned = reinterpret(&numbers.slice(1, 2), &DataType::UInt64).unwrap();
        assert_eq!(unsigned.as_primitive::<UInt64Type>(), &UInt64Array::from(vec![Some(u64::MAX - 1), None]));
    }

    #[test]
    fn other_types_are_refused() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for to in
            [DataType::UInt32, DataType::Int64, DataType::Float64, DataType::new_list(DataType::UInt64, true)]
        {
            assert!(reinterpret(&array, &to).is_none(), "{to}");
        }
    }
}
