//! Lists of rows of numbers, one list for each row of an argument.

use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{ArrayRef, ListArray, StructArray, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_datafusion_err};

use super::arguments::list_of;

/// The type of lists of structs with these columns of UInt64.
pub(crate) fn type_of<const N: usize>(names: [&str; N]) -> DataType {
    list_of(DataType::Struct(fields(names)))
}

fn fields<const N: usize>(names: [&str; N]) -> Fields {
    names.into_iter().map(|name| Field::new(name, DataType::UInt64, false)).collect()
}

/// Lists being built, one a row.
pub(crate) struct StructLists<const N: usize> {
    columns: [Vec<u64>; N],
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl<const N: usize> StructLists<N> {
    /// No lists yet, and room for `rows` of them.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            columns: std::array::from_fn(|_| Vec::new()),
            offsets: vec![0],
            nulls: NullBufferBuilder::new(rows),
        }
    }

    /// Appends an element to the list of the row at hand.
    pub(crate) fn push(&mut self, element: [u64; N]) {
        self.columns.iter_mut().zip(element).for_each(|(column, value)| column.push(value));
    }

    /// Ends a row: what was appended since the last row is its list.
    ///
    /// # Errors
    /// If the lists have 2^31 elements or more together, more than Arrow's 32-bit offsets reach.
    pub(crate) fn end_row(&mut self) -> Result<()> {
        let end = i32::try_from(self.columns.first().map_or(0, Vec::len)).map_err(|_| {
            exec_datafusion_err!(
                "the texts of one batch have 2^31 passages or more; lower datafusion.execution.batch_size"
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

    /// The lists, as an array with the columns `names`.
    pub(crate) fn finish(mut self, names: [&str; N]) -> Result<ArrayRef> {
        let columns = self.columns.into_iter().map(|values| Arc::new(UInt64Array::from(values)) as ArrayRef);
        let values = StructArray::try_new(fields(names), columns.collect(), None)?;
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields(names)), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(values), self.nulls.finish())?))
    }
}
