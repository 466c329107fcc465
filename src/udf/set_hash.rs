//! The function `set_hash` for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};

use super::arguments::{self, Column, Rows};
use super::row_function::RowFunction;
use crate::kernel::set_hash::set_hash;

/// The hash of a shingle set, half of it at a time; NULL for a NULL list.
#[derive(Debug)]
pub(crate) enum SetHash {}

impl RowFunction for SetHash {
    const NAME: &'static str = "set_hash";

    /// Which half.
    type Settings = u64;

    fn result() -> DataType {
        DataType::UInt64
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(Self::NAME, given)?;
        arguments::column_and_settings::<Rows<UInt64Type>>(Self::NAME, given)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<u64> {
        arguments::integer(Self::NAME, "half", literals.first().copied(), 0, None)
    }

    fn rows([sets]: [&ArrayRef; 1], half: &u64) -> Result<ArrayRef> {
        let rows = Rows::<UInt64Type>::new(Self::NAME, sets, false)?;
        let hash = |row| rows.row(row).map(|set| set_hash(set, *half));
        Ok(Arc::new((0..rows.len()).map(hash).collect::<UInt64Array>()))
    }
}
