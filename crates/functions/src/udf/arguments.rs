//! Reads the arguments of functions, which are columns and literal settings, and builds the lists that they return.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{
    Array, ArrayBuilder, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, LargeStringBuilder, ListArray,
    PrimitiveArray, StructArray, UInt32Array, UInt64Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, Fields, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_datafusion_err, plan_err,
};

use crate::kernel::signature::Signature;

pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// Returns the type of lists of structs. The structs have one UInt64 field per name.
pub(super) fn structs_of<const N: usize>(names: [&str; N]) -> DataType {
    list_of(DataType::Struct(fields(names)))
}

fn fields<const N: usize>(names: [&str; N]) -> Fields {
    names.into_iter().map(|name| Field::new(name, DataType::UInt64, false)).collect()
}

/// The type of an argument that is a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Param {
    /// A text of any string type.
    Text,
    /// A value of any type, which is cast to a text.
    AsText,
    /// A list of UInt64, or of Int64 with the same bits.
    Set,
    /// A list of UInt32, or of Int32 with the same bits.
    Minima,
    /// Minima, or a binary with 16 bits of each minimum.
    Signature,
    /// A UInt64.
    Number,
    Any,
}

impl Param {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Set => "a set",
            Self::Minima | Self::Signature => "a signature",
            Self::Number => "a number",
            Self::AsText | Self::Any => "a value",
        }
    }

    pub(super) fn coerce(self, function: &str, given: &DataType) -> Result<DataType> {
        match (self, given) {
            (Self::Text, _) => text_type(function, given),
            (Self::AsText, _) => Ok(DataType::Utf8View),
            (Self::Set, _) => list_type(function, given, &DataType::UInt64),
            (Self::Signature, bytes) if bytes.is_binary() => Ok(DataType::Binary),
            (Self::Minima | Self::Signature, _) => list_type(function, given, &DataType::UInt32),
            (Self::Number, _) => Ok(DataType::UInt64),
            (Self::Any, _) => Ok(given.clone()),
        }
    }
}

fn text_type(function: &str, given: &DataType) -> Result<DataType> {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(given.clone()),
        DataType::Null => Ok(DataType::Utf8),
        DataType::Dictionary(_, values) => text_type(function, values),
        other => plan_err!("{function} takes a string as its text, and got {other}"),
    }
}

/// Returns the type to which a list is coerced. Lists of `item`, and of signed numbers whose bits are read as `item`, keep their type.
/// Other lists of integers are cast to lists of `item`.
fn list_type(function: &str, given: &DataType, item: &DataType) -> Result<DataType> {
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
    // SQL parses a list with numbers below and above 2^63 as decimals.
    if of.is_integer() || of.is_null() || matches!(of, DataType::Decimal128(_, 0)) {
        Ok(list_of(item.clone()))
    } else {
        plan_err!("{function} takes lists of {item}, and got a list of {of}")
    }
}

/// The values of a setting and their names. The first value is the default.
pub(super) type SettingNames<'n, T> = &'n [(&'static str, T)];

pub(super) fn name<T: PartialEq>(names: SettingNames<'_, T>, value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name)
}

/// The settings of a call: the arguments after its columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Literals<'a> {
    pub(super) function: &'static str,
    /// The literals; `None` for an argument that is not a literal.
    pub(super) values: &'a [Option<&'a ScalarValue>],
}

impl<'a> Literals<'a> {
    pub(super) fn wrong_columns(self) -> Result<ArrayRef> {
        Err(internal_datafusion_err!("{} got another number of columns", self.function))
    }

    pub(super) fn after(self, count: usize) -> Self {
        Self { values: self.values.get(count..).unwrap_or_default(), ..self }
    }

    pub(super) fn string(self, at: usize, name: &str, default: &'a str) -> Result<&'a str> {
        let function = self.function;
        match self.values.get(at) {
            None => Ok(default),
            Some(Some(scalar)) => match scalar.try_as_str() {
                Some(Some(text)) => Ok(text),
                _ => plan_err!("{function}: {name} must be a string, and is {scalar}"),
            },
            Some(None) => plan_err!("{function}: {name} must be a literal string, the same for every row"),
        }
    }

    pub(super) fn one_of<T: Copy>(self, at: usize, setting: &str, names: SettingNames<'_, T>) -> Result<T> {
        let default = names.first().map_or("", |(name, _)| name);
        let given = self.string(at, setting, default)?;
        if let Some((_, value)) = names.iter().find(|(name, _)| *name == given) {
            return Ok(*value);
        }
        let names: Vec<String> = names.iter().map(|(name, _)| format!("'{name}'")).collect();
        let (last, others) =
            names.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
        let (function, others) = (self.function, others.join(", "));
        plan_err!("{function} has no {setting} '{given}'; allowed are {others} and {last}")
    }

    pub(super) fn number(
        self,
        at: usize,
        name: &str,
        allowed: RangeInclusive<usize>,
        default: Option<u64>,
    ) -> Result<usize> {
        let number = self.integer(at, name, *allowed.start() as u64, default)?;
        match usize::try_from(number) {
            Ok(number) if allowed.contains(&number) => Ok(number),
            _ => {
                let (function, most) = (self.function, allowed.end());
                plan_err!("{function}: {name} must be at most {most}, and is {number}")
            }
        }
    }

    /// Reads a setting that is a whole number in `least..2^64`.
    pub(super) fn integer(self, at: usize, name: &str, least: u64, default: Option<u64>) -> Result<u64> {
        let function = self.function;
        let scalar = match (self.values.get(at), default) {
            (None, Some(default)) => return Ok(default),
            (Some(Some(scalar)), _) => scalar,
            _ => {
                return plan_err!(
                    "{function}: {name} must be a literal whole number, the same for every row"
                );
            }
        };
        match whole(scalar).map(u64::try_from) {
            Some(Ok(number)) if number >= least => Ok(number),
            _ => plan_err!("{function}: {name} must be a whole number of at least {least}, and is {scalar}"),
        }
    }
}

/// Returns the value of a whole number of any type; `None` for all other values. SQL parses numbers from 2^63 on as decimals.
fn whole(scalar: &ScalarValue) -> Option<i128> {
    let given = scalar.data_type();
    if !given.is_integer() && !matches!(given, DataType::Decimal128(_, 0)) {
        return None;
    }
    match scalar.cast_to(&DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)) {
        Ok(ScalarValue::Decimal128(number, ..)) => number,
        _ => None,
    }
}

/// Downcasts an array that was coerced to the data type of `T`.
pub(super) fn downcast<T: Array + 'static>(array: &ArrayRef) -> Result<&T> {
    let typed = array.as_any().downcast_ref();
    typed.ok_or_else(|| internal_datafusion_err!("got {} after coercion", array.data_type()))
}

/// Returns the UInt64 columns with these names.
pub(super) fn numbers<'a, const N: usize>(rows: &'a StructArray, names: [&str; N]) -> Result<[&'a [u64]; N]> {
    let mut all = [&[][..]; N];
    for (values, name) in all.iter_mut().zip(names) {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        *values = column.ok_or_else(|| internal_datafusion_err!("a row has no number {name}"))?.values();
    }
    Ok(all)
}

pub(super) fn texts<'a>(
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

/// Typed access to the rows of a column. The value in a row can be null.
#[allow(clippy::len_without_is_empty, reason = "no caller asks whether a column has rows")]
pub trait ValueColumn<'a>: Sized {
    /// The type of a value that is not null.
    type Row;

    /// Reads the rows of `array`, which already has the type to which it was coerced.
    fn new(function: &str, array: &'a ArrayRef) -> Result<Self>;

    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns the value of a row; `None` if it is null.
    fn row(&self, row: usize) -> Option<Self::Row>;

    /// Iterates over the values, in the order of the rows.
    fn iter(&self) -> impl Iterator<Item = Option<Self::Row>> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// The rows of an array of lists, as slices. The elements have the type `T`, or are signed numbers of the same width. No element is null.
pub struct ListRows<'a, T: ArrowPrimitiveType> {
    list: &'a ListArray,
    values: &'a [T::Native],
}

impl<'a, T: ArrowPrimitiveType> ValueColumn<'a> for ListRows<'a, T> {
    type Row = &'a [T::Native];

    fn new(function: &str, array: &'a ArrayRef) -> Result<Self> {
        let list: &ListArray = downcast(array)?;
        let values = list.values();
        if values.null_count() > 0 {
            // Nulls between lists and inside null lists are allowed.
            let holes = |row: &usize| {
                let (start, end) = bounds(list, *row);
                list.is_valid(*row) && values.slice(start, end - start).null_count() > 0
            };
            if let Some(row) = (0..list.len()).find(holes) {
                return exec_err!(
                    "{function}: the list in row {row} of the batch has a null among its elements; \
                     sets and signatures have none"
                );
            }
        }
        let values = match values.data_type() {
            DataType::Int64 => bits::<Int64Type, T>(values)?,
            DataType::Int32 => bits::<Int32Type, T>(values)?,
            _ => downcast::<PrimitiveArray<T>>(values)?.values(),
        };
        Ok(Self { list, values })
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn row(&self, row: usize) -> Option<&'a [T::Native]> {
        let (start, end) = bounds(self.list, row);
        self.list.is_valid(row).then(|| &self.values[start..end])
    }
}

/// Reinterprets the values of an array of `A` as numbers of `T` with the same bits.
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

/// The rows of an array of signatures.
pub enum SignatureRows<'a> {
    /// Lists of UInt32, or of Int32 with the same bits.
    Of32(ListRows<'a, UInt32Type>),
    /// Binaries with two bytes for each value.
    Of16(&'a BinaryArray),
}

impl<'a> ValueColumn<'a> for SignatureRows<'a> {
    type Row = Signature<'a>;

    fn new(function: &str, array: &'a ArrayRef) -> Result<Self> {
        if array.data_type() != &DataType::Binary {
            return ListRows::new(function, array).map(Self::Of32);
        }
        let array: &BinaryArray = downcast(array)?;
        let lengths = array.value_offsets().windows(2).map(|ends| ends[1] - ends[0]);
        if let Some((row, bytes)) = (0..).zip(lengths).find(|(_, bytes)| bytes % 2 == 1) {
            return exec_err!(
                "{function}: the signature in row {row} of the batch has {bytes} bytes; a binary signature has two for each value"
            );
        }
        Ok(Self::Of16(array))
    }

    fn len(&self) -> usize {
        match self {
            Self::Of32(rows) => rows.len(),
            Self::Of16(array) => array.len(),
        }
    }

    fn row(&self, row: usize) -> Option<Signature<'a>> {
        match self {
            Self::Of32(rows) => rows.row(row).map(Signature::Of32),
            Self::Of16(array) => array.is_valid(row).then(|| Signature::Of16(array.value(row).as_chunks().0)),
        }
    }
}

pub(super) trait Elements {
    fn count(&self) -> usize;

    fn into_array(self) -> Result<ArrayRef>;
}

impl Elements for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn into_array(self) -> Result<ArrayRef> {
        Ok(Arc::new(UInt64Array::from(self)))
    }
}

impl Elements for Vec<u32> {
    fn count(&self) -> usize {
        self.len()
    }

    fn into_array(self) -> Result<ArrayRef> {
        Ok(Arc::new(UInt32Array::from(self)))
    }
}

impl Elements for LargeStringBuilder {
    fn count(&self) -> usize {
        self.len()
    }

    fn into_array(mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.finish()))
    }
}

/// Structs with one UInt64 field per name.
pub(super) struct Structs<const N: usize> {
    names: [&'static str; N],
    columns: [Vec<u64>; N],
}

impl<const N: usize> Structs<N> {
    pub(super) fn new(names: [&'static str; N]) -> Self {
        Self { names, columns: std::array::from_fn(|_| Vec::new()) }
    }

    pub(super) fn push(&mut self, element: [u64; N]) {
        self.columns.iter_mut().zip(element).for_each(|(column, value)| column.push(value));
    }
}

impl<const N: usize> Elements for Structs<N> {
    fn count(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    fn into_array(self) -> Result<ArrayRef> {
        let columns = self.columns.into_iter().map(|values| Arc::new(UInt64Array::from(values)) as ArrayRef);
        Ok(Arc::new(StructArray::try_new(fields(self.names), columns.collect(), None)?))
    }
}

/// The maximum number of elements for which memory is reserved in advance. Beyond this number, growth is relatively cheap.
const MAX_ROOM: usize = 1 << 20;

/// Returns an empty vector with room for `elements` elements, but at most for [`MAX_ROOM`].
pub(super) fn room<T>(elements: usize) -> Vec<T> {
    Vec::with_capacity(elements.min(MAX_ROOM))
}

/// Builds an array with one list per row in `rows`. `append` adds the elements of one list to `elements`. A list is null if its row is null
/// or if `append` returns false.
pub(super) fn lists<R, E: Elements>(
    function: &str,
    rows: impl Iterator<Item = Option<R>>,
    mut elements: E,
    mut append: impl FnMut(R, &mut E) -> Result<bool>,
) -> Result<ArrayRef> {
    let mut offsets = Vec::with_capacity(rows.size_hint().0 + 1);
    offsets.push(0);
    let mut nulls = NullBufferBuilder::new(rows.size_hint().0);
    for row in rows {
        nulls.append(row.map(|row| append(row, &mut elements)).transpose()? == Some(true));
        offsets.push(i32::try_from(elements.count()).map_err(|_| {
            exec_datafusion_err!(
                "{function}: the lists of one batch have 2^31 elements or more; lower datafusion.execution.batch_size"
            )
        })?);
    }
    let elements = elements.into_array()?;
    let item = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(item, offsets, elements, nulls.finish())?))
}
