//! The SQL functions on ids, fields and other values in columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, ListArray, PrimitiveArray, StringArray,
    StringViewBuilder, UInt64Array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::{Result, exec_err, internal_datafusion_err, plan_err};

use super::arguments::{Literals, Param, texts};
use super::function::Function;
use crate::kernel::hash::document_key;

pub(super) static DOCUMENT_KEY: Function =
    Function::new("document_key", &[Param::AsText], |_| Ok(DataType::UInt64), document_key_rows);

fn document_key_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [ids] = columns else { return literals.wrong_columns() };
    let keys = texts(literals.function, ids)?.map(|id| id.map(document_key));
    Ok(Arc::new(keys.collect::<UInt64Array>()))
}

/// Reads the path to a field: the names of the fields around it, and then its name.
fn field_path(literals: Literals<'_>) -> Result<Vec<String>> {
    let names = (0..literals.values.len()).map(|at| literals.string(at, "a field", "").map(str::to_owned));
    names.collect()
}

pub(super) static JOINED_TEXTS: Function = Function {
    settings: 0..=usize::MAX,
    check: |literals| field_path(literals).map(drop),
    ..Function::new("joined_texts", &[Param::Any], |_| Ok(DataType::Utf8View), joined_texts_rows)
};

fn joined_texts_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [lists] = columns else { return literals.wrong_columns() };
    let path = field_path(literals)?;
    let mut texts = StringViewBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        if lists.is_null(row) {
            texts.append_null();
            continue;
        }
        let mut found = Vec::new();
        gather(&lists.slice(row, 1), &path, &mut found)?;
        texts.append_value(found.join("\n"));
    }
    Ok(Arc::new(texts.finish()))
}

/// Adds the texts at `path` in all rows of `values` to `to`.
fn gather(values: &ArrayRef, path: &[String], to: &mut Vec<String>) -> Result<()> {
    match values.data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            gather(&cast(values, &DataType::List(Arc::clone(item)))?, path, to)
        }
        DataType::List(_) => {
            values.as_list::<i32>().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
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

/// The first byte in the key of a number.
const NUMBER: u8 = 1;
/// The first byte in the key of any other text.
const TEXT: u8 = 2;

/// Parses a text as a number by the rules of SQL casts; `None` for any other text.
pub fn number(text: &str) -> Option<f64> {
    Float64Type::parse(text)
}

/// Returns the key by which a text is ordered: numbers as numbers, followed by all other texts by their bytes. Returns `None` for NaN,
/// which has no order.
pub fn order_key(text: &str) -> Option<Vec<u8>> {
    let Some(number) = number(text) else { return Some([&[TEXT][..], text.as_bytes()].concat()) };
    if number.is_nan() {
        return None;
    }
    // Adding 0.0 removes the sign of zero.
    let bits = (number + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
    // A floating-point number cannot represent all digits of a large integer, so the key also contains the integer.
    let whole = text.parse::<i128>().unwrap_or(number as i128);
    let whole = whole.cast_unsigned() ^ (1 << 127);
    Some([&[NUMBER][..], &ordered.to_be_bytes(), &whole.to_be_bytes()].concat())
}

/// Returns the key of a text that is a number, as [`order_key`], but NaN comes after all other numbers. Returns `None` for any other text.
pub fn number_key(text: &str) -> Option<Vec<u8>> {
    let number = number(text)?;
    if number.is_nan() { Some([&[NUMBER][..], &[u8::MAX; 24]].concat()) } else { order_key(text) }
}

/// Returns whether a key is the key of a number, and the key's value as messages show it.
pub fn shown(key: &[u8]) -> (bool, String) {
    let number = key.get(1..9).and_then(|bits| bits.try_into().ok()).map(u64::from_be_bytes);
    match (key.first(), number) {
        (Some(&NUMBER), Some(bits)) => {
            let bits = if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits };
            (true, f64::from_bits(bits).to_string())
        }
        _ => (false, format!("{:?}", String::from_utf8_lossy(key.get(1..).unwrap_or_default()))),
    }
}

pub(super) static ORDER_KEY: Function = Function::new(
    "order_key",
    &[Param::Any],
    |types| {
        Ok(match &types[0] {
            given if given.is_string() => DataType::Binary,
            given if given.is_floating() => DataType::Float64,
            given => given.clone(),
        })
    },
    order_key_rows,
);

pub(super) static NUMBER_KEY: Function = Function::new(
    "number_key",
    &[Param::Text],
    |_| Ok(DataType::Binary),
    |columns, literals| {
        let [array] = columns else { return literals.wrong_columns() };
        let texts = cast(array, &DataType::Utf8View)?;
        let keys = texts.as_string_view().iter().map(|text| text.and_then(number_key));
        Ok(Arc::new(keys.collect::<BinaryArray>()))
    },
);

fn order_key_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [array] = columns else { return literals.wrong_columns() };
    match array.data_type() {
        given if given.is_string() => {
            let texts = cast(array, &DataType::Utf8View)?;
            let keys = texts.as_string_view().iter().map(|text| text.and_then(order_key));
            Ok(Arc::new(keys.collect::<BinaryArray>()))
        }
        given if given.is_floating() => {
            let numbers = cast(array, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            // Adding 0.0 removes the sign of zero.
            let ordered = numbers.unary_opt::<_, Float64Type>(|n| (!n.is_nan()).then_some(n + 0.0));
            Ok(Arc::new(ordered))
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Reinterprets signed numbers as unsigned numbers of the same width, or the reverse, also inside lists. `to` is the type of the result.
/// Returns `None` for other types.
pub fn reinterpret(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
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

/// Returns the unsigned type for signed numbers of 32 or 64 bits, or for lists of them; `None` for other types.
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

pub(super) static UNSIGNED_BITS: Function = Function {
    keeps_nullability: true,
    ..Function::new(
        "unsigned_bits",
        &[Param::Any],
        |types| match unsigned(&types[0]) {
            Some(unsigned) => Ok(unsigned),
            None => plan_err!(
                "unsigned_bits takes signed numbers of 32 or 64 bits or lists of them, and got {}",
                types[0]
            ),
        },
        unsigned_bits_rows,
    )
};

fn unsigned_bits_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [array] = columns else { return literals.wrong_columns() };
    unsigned(array.data_type())
        .and_then(|to| reinterpret(array, &to))
        .ok_or_else(|| internal_datafusion_err!("unsigned_bits got {}", array.data_type()))
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
        let texts = joined_texts_rows(&[lists], Literals { function: "joined_texts", values: &[] }).unwrap();
        assert_eq!(texts.as_string_view(), &StringViewArray::from(vec![Some("a b\nc"), None, Some("")]));
    }

    #[test]
    fn numbers_come_in_their_order_and_before_texts() {
        // One of the texts is empty.
        let ascending = "-inf -1e300 -10 -9.5 -9 -1e-5 0 1e-05 0.95 9 10 100 9007199254740992 9007199254740993 1e300 \
             inf  1.2.3 a b";
        let keys: Vec<_> = ascending.split(' ').map(|text| order_key(text).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for (a, b) in [("1", "1.0"), ("1e3", "1000"), ("-0", "0"), ("007", "7")] {
            assert_eq!(order_key(a), order_key(b), "{a} {b}");
        }
        assert_eq!(order_key("NaN"), None);
        assert!(number_key("NaN") > number_key("inf") && number_key("inf") == order_key("inf"));
        assert_eq!(number_key("1.2.3"), None);
        for (text, expected) in
            [("9", (true, "9")), ("-2.5", (true, "-2.5")), ("n/a", (false, "\"n/a\"")), ("", (false, "\"\""))]
        {
            let (is_number, value) = shown(&order_key(text).unwrap());
            assert_eq!((is_number, value.as_str()), expected);
        }
    }

    #[test]
    fn bits_and_nulls_are_kept_and_other_types_are_refused() {
        let bits = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
        let array: ArrayRef = Arc::new(UInt64Array::from(bits.to_vec()));
        let signed = reinterpret(&array, &DataType::Int64).unwrap();
        assert_eq!(signed.as_primitive::<Int64Type>().values(), &[0, 1, i64::MAX, i64::MIN, -1]);
        let found = signed.as_primitive::<Int64Type>().values().inner().as_ptr();
        assert_eq!(found, array.as_primitive::<UInt64Type>().values().inner().as_ptr());
        assert_eq!(&reinterpret(&signed, &DataType::UInt64).unwrap(), &array);
        let rows = [Some(vec![Some(1_u32)]), None, Some(vec![Some(u32::MAX), Some(7)]), Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(rows));
        let signed = reinterpret(&lists.slice(1, 2), &DataType::new_list(DataType::Int32, true)).unwrap();
        let expected = [None, Some(vec![Some(-1), Some(7)])];
        let expected: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(expected));
        assert_eq!(&signed, &expected);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-2), None, Some(3)]));
        let unsigned = reinterpret(&numbers.slice(1, 2), &DataType::UInt64).unwrap();
        assert_eq!(unsigned.as_primitive::<UInt64Type>(), &UInt64Array::from(vec![Some(u64::MAX - 1), None]));
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for to in
            [DataType::UInt32, DataType::Int64, DataType::Float64, DataType::new_list(DataType::UInt64, true)]
        {
            assert!(reinterpret(&array, &to).is_none(), "{to}");
        }
    }
}
