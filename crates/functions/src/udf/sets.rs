//! The functions of shingle sets.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;

use super::arguments::{ListRows, Literals, Param, ValueColumn};
use super::function::{Doc, Function};
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, jaccard_of, shared};
use crate::kernel::set_hash::set_hash;

/// Returns the similarities of two columns, row by row. A column of one row is compared with every row of the other column.
pub(super) fn compared<'a, C: ValueColumn<'a>>(
    literals: Literals<'_>,
    columns: &'a [ArrayRef],
    compare: impl Fn(C::Row, C::Row) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let [a, b] = columns else { return literals.wrong_columns() };
    let (a, b) = (C::new(literals.function, a)?, C::new(literals.function, b)?);
    let rows = if a.len() == 1 { b.len() } else { a.len() };
    let value = |column: &C, row: usize| column.row(if column.len() == 1 { 0 } else { row });
    let similarity = |row| match (value(&a, row), value(&b, row)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ok(None),
    };
    Ok(Arc::new((0..rows).map(similarity).collect::<Result<Float64Array>>()?))
}

/// Returns the similarities of two columns of sets, by the numbers of elements in both, in `a` and in `b`. NaN becomes NULL.
fn compared_sets(
    literals: Literals<'_>,
    columns: &[ArrayRef],
    similarity: impl Fn(u64, u64, u64) -> f64,
) -> Result<ArrayRef> {
    compared::<ListRows<UInt64Type>>(literals, columns, |a, b| {
        let (a, b) = (as_set(a), as_set(b));
        let similarity = similarity(shared(&a, &b), a.len() as u64, b.len() as u64);
        Ok(Some(similarity).filter(|similarity| !similarity.is_nan()))
    })
}

/// The SQL function `jaccard`.
pub(super) static JACCARD: Function = Function {
    repeats_literals: false,
    doc: Some(Doc {
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
    }),
    ..Function::new("jaccard", &[Param::Set, Param::Set], |_| Ok(DataType::Float64), jaccard_rows)
};

fn jaccard_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    compared_sets(literals, columns, jaccard_of)
}

/// The SQL function `containment`.
pub(super) static CONTAINMENT: Function = Function {
    repeats_literals: false,
    doc: Some(Doc {
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
    }),
    ..Function::new("containment", &[Param::Set, Param::Set], |_| Ok(DataType::Float64), containment_rows)
};

fn containment_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    compared_sets(literals, columns, |shared, a, _| containment_of(shared, a))
}

/// `set_hash(shingles, half)`: one half of the hash of a shingle set; NULL for a NULL list.
pub(super) static SET_HASH: Function = Function {
    settings: 1..=1,
    check: |literals| literals.integer(0, "half", 0, None).map(drop),
    ..Function::new("set_hash", &[Param::Set], |_| Ok(DataType::UInt64), set_hash_rows)
};

fn set_hash_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [sets] = columns else { return literals.wrong_columns() };
    let half = literals.integer(0, "half", 0, None)?;
    let rows = ListRows::<UInt64Type>::new(literals.function, sets)?;
    Ok(Arc::new(rows.iter().map(|set| Some(set_hash(set?, half))).collect::<UInt64Array>()))
}
