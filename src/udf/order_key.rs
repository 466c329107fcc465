//! The function `order_key` for plans: the values by which values of columns are ordered and compared with lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments;

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
        arguments::map(&arguments, |[array]: [&ArrayRef; 1]| match array.data_type() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
