//! The functions of shingle sets.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;

use super::arguments::{ListRows, Literals, Param, ValueColumn};
use super::function::{Doc, Function, Settings};
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, jaccard_of, shared};
use crate::kernel::set_hash::set_hash;

/// The similarities of two columns, row by row. A column of one row is compared with every row of the other column.
pub(super) fn compared<'a, C: ValueColumn<'a>>(
    function: &str,
    [a, b]: [&'a ArrayRef; 2],
    compare: impl Fn(C::Row, C::Row) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let (a, b) = (C::new(function, a)?, C::new(function, b)?);
    let rows = if a.len() == 1 { b.len() } else { a.len() };
    let value = |column: &C, row: usize| column.row(if column.len() == 1 { 0 } else { row });
    let similarity = |row| match (value(&a, row), value(&b, row)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ok(None),
    };
    Ok(Arc::new((0..rows).map(similarity).collect::<Result<Float64Array>>()?))
}

/// The similarities of two columns of sets, by the numbers of elements in both, in `a` and in `b`. A similarity of NaN is NULL.
fn compared_sets(
    function: &str,
    sets: [&ArrayRef; 2],
    similarity: impl Fn(u64, u64, u64) -> f64,
) -> Result<ArrayRef> {
    compared::<ListRows<UInt64Type>>(function, sets, |a, b| {
        let (a, b) = (as_set(a), as_set(b));
        let similarity = similarity(shared(&a, &b), a.len() as u64, b.len() as u64);
        Ok(Some(similarity).filter(|similarity| !similarity.is_nan()))
    })
}

/// The SQL function `jaccard`.
#[derive(Debug)]
pub(crate) enum Jaccard {}

impl Function<2> for Jaccard {
    const NAME: &'static str = "jaccard";
    const COLUMNS: [Param; 2] = [Param::Set, Param::Set];
    const REPEATS_LITERALS: bool = false;
    const DOC: Option<Doc> = Some(Doc {
        text: "Returns the Jaccard similarity of two sets: elements in both, divided by elements in either. Returns NULL \
               if either list is NULL, and if both are empty, as 0/0 has no value; 0.0 if one is empty. Lists are read \
               as sets, and fastest when sorted and without repeats, as `shingles` returns them.",
        syntax: "jaccard(a, b)",
        example: ["jaccard([1, 2, 3], [2, 3, 4])", "0.5"],
        arguments: &[
            ("a", "A set: a list of UInt64, or of Int64 with the same bits, without nulls."),
            ("b", "A set: a list of UInt64, or of Int64 with the same bits, without nulls."),
        ],
        related: &["containment", "minhash_similarity"],
    });

    type Settings = ();

    fn result() -> DataType {
        DataType::Float64
    }

    fn rows(sets: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        compared_sets(Self::NAME, sets, jaccard_of)
    }
}

/// The SQL function `containment`.
#[derive(Debug)]
pub(crate) enum Containment {}

impl Function<2> for Containment {
    const NAME: &'static str = "containment";
    const COLUMNS: [Param; 2] = [Param::Set, Param::Set];
    const REPEATS_LITERALS: bool = false;
    const DOC: Option<Doc> = Some(Doc {
        text: "Returns the share of the elements of `a` that are in `b`: 1.0 if `a` is a part of `b`, however large `b` \
               is. Returns NULL if either list is NULL, and if `a` is empty, as 0/0 has no value. Lists are read as \
               sets, and fastest when sorted and without repeats, as `shingles` returns them.",
        syntax: "containment(a, b)",
        example: ["containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7])", "0.75"],
        arguments: &[
            (
                "a",
                "The set that may be a part: a list of UInt64, or of Int64 with the same bits, without nulls.",
            ),
            (
                "b",
                "The set that it may be a part of: a list of UInt64, or of Int64 with the same bits, without nulls.",
            ),
        ],
        related: &["jaccard"],
    });

    type Settings = ();

    fn result() -> DataType {
        DataType::Float64
    }

    fn rows(sets: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        compared_sets(Self::NAME, sets, |shared, a, _| containment_of(shared, a))
    }
}

/// The hash of a shingle set, half of it at a time; NULL for a NULL list.
#[derive(Debug)]
pub(crate) enum SetHash {}

/// Which half of the hash is returned.
pub(crate) struct Half(u64);

impl Settings for Half {
    fn read(literals: Literals<'_>) -> Result<Self> {
        literals.integer(0, "half", 0, None).map(Self)
    }
}

impl Function for SetHash {
    const NAME: &'static str = "set_hash";
    const COLUMNS: [Param; 1] = [Param::Set];
    const SETTINGS: RangeInclusive<usize> = 1..=1;

    type Settings = Half;

    fn result() -> DataType {
        DataType::UInt64
    }

    fn rows([sets]: [&ArrayRef; 1], &Half(half): &Half) -> Result<ArrayRef> {
        let rows = ListRows::<UInt64Type>::new(Self::NAME, sets)?;
        Ok(Arc::new(rows.iter().map(|set| Some(set_hash(set?, half))).collect::<UInt64Array>()))
    }
}
