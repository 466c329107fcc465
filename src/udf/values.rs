//! The functions of ids, fields and other values of columns.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, ListArray, PrimitiveArray, StringArray,
    StringViewBuilder, UInt64Array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err, internal_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{Literals, Param, texts};
use super::function::{Function, Settings, map};
use crate::kernel::document_key::document_key;

/// The key of a document with this id; NULL for a NULL id.
#[derive(Debug)]
pub(crate) enum DocumentKey {}

impl Function for DocumentKey {
    const NAME: &'static str = "document_key";
    const COLUMNS: [Param; 1] = [Param::AsText];

    type Settings = ();

    fn result() -> DataType {
        DataType::UInt64
    }

    fn rows([ids]: [&ArrayRef; 1], (): &()) -> Result<ArrayRef> {
        let keys = texts(Self::NAME, ids)?.map(|id| id.map(document_key));
        Ok(Arc::new(keys.collect::<UInt64Array>()))
    }
}

/// The texts in a list: `joined_texts(list, field, ..)`, each in a line of its own. In lists of structs, they are in the named
/// field, which may be a field of a struct, and may have lists itself. Null where the list is null.
#[derive(Debug)]
pub(crate) enum JoinedTexts {}

/// The names of a field and the fields that it is in.
pub(crate) struct FieldPath(Vec<String>);

impl Settings for FieldPath {
    fn read(literals: Literals<'_>) -> Result<Self> {
        let names =
            (0..literals.values.len()).map(|at| literals.string(at, "a field", "").map(str::to_owned));
        names.collect::<Result<_>>().map(Self)
    }
}

impl Function for JoinedTexts {
    const NAME: &'static str = "joined_texts";
    const COLUMNS: [Param; 1] = [Param::Any];
    const SETTINGS: RangeInclusive<usize> = 0..=usize::MAX;

    type Settings = FieldPath;

    fn result() -> DataType {
        DataType::Utf8View
    }

    fn rows([lists]: [&ArrayRef; 1], FieldPath(path): &FieldPath) -> Result<ArrayRef> {
        let mut texts = StringViewBuilder::with_capacity(lists.len());
        for row in 0..lists.len() {
            if lists.is_null(row) {
                texts.append_null();
                continue;
            }
            let mut found = Vec::new();
            gather(&lists.slice(row, 1), path, &mut found)?;
            texts.append_value(found.join("\n"));
        }
        Ok(Arc::new(texts.finish()))
    }
}

/// Adds the texts at `path` in all rows of `values`.
fn gather(values: &ArrayRef, path: &[String], to: &mut Vec<String>) -> Result<()> {
    match values.data_type() {
        DataType::List(_) => {
            values.as_list::<i32>().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::LargeList(_) => {
            values.as_list::<i64>().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::FixedSizeList(..) => {
            values.as_fixed_size_list().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::Struct(_) => {
            let structs = values.as_struct();
            let Some((field, rest)) =
                path.split_first().and_then(|(name, rest)| Some((structs.column_by_name(name)?, rest)))
            else {
                return exec_err!("joined_texts found no field {path:?}");
            };
            let present = (0..structs.len()).filter(|row| structs.is_valid(*row));
            present.map(|row| field.slice(row, 1)).try_for_each(|value| gather(&value, rest, to))
        }
        _ => {
            let options = CastOptions { safe: false, ..Default::default() };
            let texts = cast_with_options(values, &DataType::Utf8, &options)?;
            let texts: &StringArray = texts.as_string();
            to.extend(texts.iter().flatten().map(str::to_owned));
            Ok(())
        }
    }
}

/// The first byte of the key of a number, and of any other text.
const NUMBER: u8 = 1;
const TEXT: u8 = 2;

/// The number that a text is, by the rules of SQL casts; `None` for any other text.
pub(crate) fn number(text: &str) -> Option<f64> {
    Float64Type::parse(text)
}

/// The key of a text: numbers come before other texts, which are in the order of their bytes. `None` for NaN, which has no order.
pub(crate) fn order_key(text: &str) -> Option<Vec<u8>> {
    let Some(number) = number(text) else { return Some([&[TEXT][..], text.as_bytes()].concat()) };
    if number.is_nan() {
        return None;
    }
    // Zero has no sign then.
    let bits = (number + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
    // A large integer has digits that a floating point number lacks.
    let whole = text.parse::<i128>().unwrap_or(number as i128);
    let whole = whole.cast_unsigned() ^ (1 << 127);
    Some([&[NUMBER][..], &ordered.to_be_bytes(), &whole.to_be_bytes()].concat())
}

/// Whether the value of a key is a number, and the value as a message shows it.
pub(crate) fn shown(key: &[u8]) -> (bool, String) {
    let number = key.get(1..9).and_then(|bits| bits.try_into().ok()).map(u64::from_be_bytes);
    match (key.first(), number) {
        (Some(&NUMBER), Some(bits)) => {
            let bits = if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits };
            (true, f64::from_bits(bits).to_string())
        }
        _ => (false, format!("{:?}", String::from_utf8_lossy(key.get(1..).unwrap_or_default()))),
    }
}

/// The value by which a value is ordered: of texts the key by which numbers are compared as numbers, of floating point numbers the
/// number, and NULL for NaN, whatever its sign. Values of other types stay as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrderKey {
    signature: Signature,
}

impl Default for OrderKey {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OrderKey {
    fn name(&self) -> &str {
        "order_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = take_function_args(self.name(), types)?;
        Ok(match given {
            given if given.is_string() => DataType::Binary,
            given if given.is_floating() => DataType::Float64,
            given => given.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = take_function_args(self.name(), args.args)?;
        map(&arguments, true, |[array]: [&ArrayRef; 1]| match array.data_type() {
            given if given.is_string() => {
                let texts = cast(array, &DataType::Utf8View)?;
                let keys = texts.as_string_view().iter().map(|text| text.and_then(order_key));
                Ok(Arc::new(keys.collect::<BinaryArray>()))
            }
            given if given.is_floating() => {
                let numbers = cast(array, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>();
                // Zero has no sign then.
                let ordered = numbers.unary_opt::<_, Float64Type>(|n| (!n.is_nan()).then_some(n + 0.0));
                Ok(Arc::new(ordered))
            }
            _ => Ok(Arc::clone(array)),
        })
    }
}

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

/// Signed numbers as the unsigned ones of the same bits. The functions here work on unsigned numbers, and the public tables have
/// signed ones, since not every engine reads unsigned columns.
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
        map(&arguments, true, |[array]: [&ArrayRef; 1]| {
            unsigned(array.data_type())
                .and_then(|to| reinterpret(array, &to))
                .ok_or_else(|| internal_datafusion_err!("unsigned_bits got {}", array.data_type()))
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListBuilder, StringBuilder, StringViewArray};

    use super::*;

    #[test]
    fn texts_of_a_list_are_lines_and_null_stays() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a b"), None, Some("c")]);
        lists.append_null();
        lists.append_value([] as [Option<&str>; 0]);
        let lists: ArrayRef = Arc::new(lists.finish());
        let texts = JoinedTexts::rows([&lists], &FieldPath(Vec::new())).unwrap();
        assert_eq!(texts.as_string_view(), &StringViewArray::from(vec![Some("a b\nc"), None, Some("")]));
    }

    #[test]
    fn numbers_come_in_their_order_and_before_texts() {
        let ascending = [
            "-inf",
            "-1e300",
            "-10",
            "-9.5",
            "-9",
            "-1e-5",
            "0",
            "1e-05",
            "0.95",
            "9",
            "10",
            "100",
            "9007199254740992",
            "9007199254740993",
            "1e300",
            "inf",
            "",
            "1.2.3",
            "a",
            "b",
        ];
        let keys: Vec<_> = ascending.iter().map(|text| order_key(text).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for (a, b) in [("1", "1.0"), ("1e3", "1000"), ("-0", "0"), ("007", "7")] {
            assert_eq!(order_key(a), order_key(b), "{a} {b}");
        }
        assert_eq!(order_key("NaN"), None);
    }

    #[test]
    fn a_key_shows_its_value() {
        for (text, expected) in
            [("9", (true, "9")), ("-2.5", (true, "-2.5")), ("n/a", (false, "\"n/a\"")), ("", (false, "\"\""))]
        {
            let (is_number, value) = shown(&order_key(text).unwrap());
            assert_eq!((is_number, value.as_str()), expected);
        }
    }

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
