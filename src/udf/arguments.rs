//! The arguments and results of the functions: literal settings, lists and texts.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, internal_datafusion_err, plan_err};
use datafusion::logical_expr::ColumnarValue;

/// A list of `item`, as the functions return it.
pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// The field that a function returns; any of them may return NULL.
pub(crate) fn field(function: &str, data_type: DataType) -> Result<FieldRef> {
    Ok(Arc::new(Field::new(function, data_type, true)))
}

/// The type to which a list argument is coerced: a list of `item`, or of signed numbers of the same width, whose bits
/// are used. Other lists of integers are cast to a list of `item`.
pub(crate) fn list_type(function: &str, given: &DataType, item: &DataType) -> Result<DataType> {
    let is_bits = |of: &DataType| {
        matches!((of, item), (DataType::Int64, DataType::UInt64) | (DataType::Int32, DataType::UInt32))
    };
    let of = match given {
        DataType::Null => return Ok(list_of(item.clone())),
        DataType::List(of) if of.data_type() == item || is_bits(of.data_type()) => return Ok(given.clone()),
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => of.data_type(),
        other => return plan_err!("{function} takes lists of {item}, and got {other}"),
    };
    if is_bits(of) {
        return Ok(list_of(of.clone()));
    }
    // SQL reads a list of numbers on both sides of 2^63 as decimals.
    if of.is_integer() || of.is_null() || matches!(of, DataType::Decimal128(_, 0)) {
        Ok(list_of(item.clone()))
    } else {
        plan_err!("{function} takes lists of {item}, and got a list of {of}")
    }
}

/// An argument: missing, not a literal, or a literal.
pub(crate) type Literal<'a> = Option<Option<&'a ScalarValue>>;

/// The literals among the arguments of a call.
pub(crate) fn scalars(args: &[ColumnarValue]) -> Vec<Option<&ScalarValue>> {
    args.iter()
        .map(|arg| match arg {
            ColumnarValue::Scalar(scalar) => Some(scalar),
            ColumnarValue::Array(_) => None,
        })
        .collect()
}

/// A setting that is a string.
pub(crate) fn string<'a>(
    function: &str,
    name: &str,
    literal: Literal<'a>,
    default: &'a str,
) -> Result<&'a str> {
    match literal {
        None => Ok(default),
        Some(Some(scalar)) => match scalar.try_as_str() {
            Some(Some(text)) => Ok(text),
            _ => plan_err!("{function}: {name} must be a string, and is {scalar}"),
        },
        Some(None) => plan_err!("{function}: {name} must be a literal string, the same for every row"),
    }
}

/// The values of a setting, by their names; the first one is the default.
pub(crate) type Names<'n, T> = &'n [(&'static str, T)];

/// The name of a value.
pub(crate) fn name<T: PartialEq>(names: Names<'_, T>, value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name)
}

/// A setting that is one of the named values.
pub(crate) fn one_of<T: Copy>(
    function: &str,
    setting: &str,
    literal: Literal,
    names: Names<'_, T>,
) -> Result<T> {
    let default = names.first().map_or("", |(name, _)| name);
    let given = string(function, setting, literal, default)?;
    match names.iter().find(|(name, _)| *name == given) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<String> = names.iter().map(|(name, _)| format!("'{name}'")).collect();
            let (last, others) =
                names.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
            plan_err!("{function} has no {setting} '{given}'; allowed are {} and {last}", others.join(", "))
        }
    }
}

/// A setting that is a whole number in `allowed`.
pub(crate) fn number(
    function: &str,
    name: &str,
    literal: Literal,
    allowed: RangeInclusive<usize>,
    default: Option<u64>,
) -> Result<usize> {
    let number = integer(function, name, literal, *allowed.start() as u64, default)?;
    match usize::try_from(number) {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => plan_err!("{function}: {name} must be at most {}, and is {number}", allowed.end()),
    }
}

/// A setting that is a whole number in `least..2^64`.
pub(crate) fn integer(
    function: &str,
    name: &str,
    literal: Literal,
    least: u64,
    default: Option<u64>,
) -> Result<u64> {
    let scalar = match (literal, default) {
        (None, Some(default)) => return Ok(default),
        (Some(Some(scalar)), _) => scalar,
        _ => return plan_err!("{function}: {name} must be a literal whole number, the same for every row"),
    };
    match whole(scalar).map(u64::try_from) {
        Some(Ok(number)) if number >= least => Ok(number),
        _ => plan_err!("{function}: {name} must be a whole number of at least {least}, and is {scalar}"),
    }
}

fn whole(scalar: &ScalarValue) -> Option<i128> {
    match *scalar {
        ScalarValue::Int8(n) => n.map(i128::from),
        ScalarValue::Int16(n) => n.map(i128::from),
        ScalarValue::Int32(n) => n.map(i128::from),
        ScalarValue::Int64(n) => n.map(i128::from),
        ScalarValue::UInt8(n) => n.map(i128::from),
        ScalarValue::UInt16(n) => n.map(i128::from),
        ScalarValue::UInt32(n) => n.map(i128::from),
        ScalarValue::UInt64(n) => n.map(i128::from),
        // SQL reads larger whole numbers as decimals.
        ScalarValue::Decimal128(n, _, 0) => n,
        _ => None,
    }
}

/// The array with the type that it was coerced to.
pub(crate) fn downcast<T: Array + 'static>(array: &ArrayRef) -> Result<&T> {
    array
        .as_any()
        .downcast_ref()
        .ok_or_else(|| internal_datafusion_err!("got {} after coercion", array.data_type()))
}

/// The types of a column and the settings behind it, the column with the type to which it is coerced.
pub(crate) fn column_and_settings<'a, C: Column<'a>>(
    function: &str,
    given: &[DataType],
) -> Result<Vec<DataType>> {
    let mut types = given.to_vec();
    if let Some(column) = types.first_mut() {
        *column = C::coerce(function, column)?;
    }
    Ok(types)
}

/// The texts of a string array of any type.
pub(crate) fn texts<'a>(
    function: &str,
    array: &'a ArrayRef,
) -> Result<Box<dyn Iterator<Item = Option<&'a str>> + 'a>> {
    Ok(match array.data_type() {
        DataType::Utf8 => Box::new(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => Box::new(array.as_string::<i64>().iter()),
        DataType::Utf8View => Box::new(array.as_string_view().iter()),
        other => return Err(internal_datafusion_err!("{function} got {other} after coercion")),
    })
}

/// Applies `f` to arguments. Literals alone give a literal.
pub(crate) fn map<const N: usize>(
    arguments: &[ColumnarValue; N],
    f: impl FnOnce([&ArrayRef; N]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let arrays = <[ArrayRef; N]>::try_from(arrays)
        .map_err(|_| internal_datafusion_err!("arguments became another number of arrays"))?;
    let rows = f(arrays.each_ref())?;
    match arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_))) {
        true => ScalarValue::try_from_array(&rows, 0).map(ColumnarValue::Scalar),
        false => Ok(ColumnarValue::Array(rows)),
    }
}

/// A list for each value of `array`, whose elements `f` appends, about `each` of them. NULL for a NULL value, and where `f`
/// returns false.
pub(crate) fn map_lists<'a, A: Column<'a>, B: ArrowPrimitiveType>(
    function: &'static str,
    array: &'a ArrayRef,
    each: usize,
    mut f: impl FnMut(A::Row, &mut Vec<B::Native>) -> Result<bool>,
) -> Result<ArrayRef> {
    let rows = A::new(function, array, false)?;
    let mut lists = Lists::<B>::with_capacity(function, rows.len(), rows.len().saturating_mul(each));
    for row in 0..rows.len() {
        match rows.row(row).map(|value| f(value, &mut lists.values)).transpose()? {
            Some(true) => lists.end_row()?,
            _ => lists.push_null(),
        }
    }
    lists.finish()
}

/// An argument with a value in each row, which may be NULL.
pub(crate) trait Column<'a>: Sized {
    /// The value of a row.
    type Row;

    /// The type to which an argument is coerced.
    ///
    /// # Errors
    /// When it has no such values.
    fn coerce(function: &str, given: &DataType) -> Result<DataType>;

    /// The rows of `array`, which was coerced. With `repeated` its first row is every row.
    ///
    /// # Errors
    /// When a value is not allowed.
    fn new(function: &str, array: &'a ArrayRef, repeated: bool) -> Result<Self>;

    /// Rows in the array.
    fn len(&self) -> usize;

    /// The value of a row, or `None` if it is null.
    fn row(&self, row: usize) -> Option<Self::Row>;
}

/// The rows of an array of lists of `T`, or of signed numbers of the same width, as slices. No element may be null.
pub(crate) struct Rows<'a, T: ArrowPrimitiveType> {
    list: &'a ListArray,
    values: &'a [T::Native],
    repeated: bool,
}

impl<'a, T: ArrowPrimitiveType> Column<'a> for Rows<'a, T> {
    type Row = &'a [T::Native];

    fn coerce(function: &str, given: &DataType) -> Result<DataType> {
        list_type(function, given, &T::DATA_TYPE)
    }

    fn new(function: &str, array: &'a ArrayRef, repeated: bool) -> Result<Self> {
        let list: &ListArray = downcast(array)?;
        let values = list.values();
        if values.null_count() > 0 {
            // Nulls outside of lists and inside null lists are allowed.
            let holes = |row: &usize| {
                let (start, end) = bounds(list, *row);
                list.is_valid(*row) && values.slice(start, end - start).null_count() > 0
            };
            if let Some(row) = (0..list.len()).find(holes) {
                return Err(exec_datafusion_err!(
                    "{function}: the list in row {row} of the batch has a null among its elements; \
                     sets and signatures have none"
                ));
            }
        }
        let values = match values.data_type() {
            DataType::Int64 => bits::<Int64Type, T>(values)?,
            DataType::Int32 => bits::<Int32Type, T>(values)?,
            _ => downcast::<PrimitiveArray<T>>(values)?.values(),
        };
        Ok(Self { list, values, repeated })
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn row(&self, row: usize) -> Option<&'a [T::Native]> {
        let row = if self.repeated { 0 } else { row };
        self.list.is_valid(row).then(|| {
            let (start, end) = bounds(self.list, row);
            &self.values[start..end]
        })
    }
}

/// The values of an array of `A` as the numbers of `T` that have the same bits.
fn bits<A: ArrowPrimitiveType, T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<&[T::Native]> {
    if size_of::<A::Native>() != size_of::<T::Native>() {
        return Err(internal_datafusion_err!("got {} after coercion", array.data_type()));
    }
    Ok(downcast::<PrimitiveArray<A>>(array)?.values().inner().typed_data())
}

fn bounds(list: &ListArray, row: usize) -> (usize, usize) {
    let offsets = list.value_offsets();
    (offsets[row] as usize, offsets[row + 1] as usize)
}

/// The most elements to reserve beforehand: beyond it, the cost of growing is small.
const MAX_ROOM: usize = 1 << 20;

/// Lists being built, one a row; the elements of the row at hand are appended to `values`.
pub(crate) struct Lists<T: ArrowPrimitiveType> {
    /// The elements of all lists so far.
    pub values: Vec<T::Native>,
    function: &'static str,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Lists<T> {
    /// No lists yet, and room for `rows` of them, and for `values` elements unless those are very many.
    pub(crate) fn with_capacity(function: &'static str, rows: usize, values: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            values: Vec::with_capacity(values.min(MAX_ROOM)),
            function,
            offsets,
            nulls: NullBufferBuilder::new(rows),
        }
    }

    /// Ends a row: what was appended since the last row is its list.
    ///
    /// # Errors
    /// If the lists have 2^31 elements or more together, more than Arrow's 32-bit offsets reach.
    pub(crate) fn end_row(&mut self) -> Result<()> {
        let end = i32::try_from(self.values.len()).map_err(|_| {
            exec_datafusion_err!(
                "{}: the lists of one batch have 2^31 elements or more; lower datafusion.execution.batch_size",
                self.function
            )
        })?;
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    /// A row without a list.
    pub(crate) fn push_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or(0));
        self.nulls.append_null();
    }

    /// The lists, as an array.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        let values = PrimitiveArray::<T>::new(self.values.into(), None);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let item = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(values), self.nulls.finish())?))
    }
}
