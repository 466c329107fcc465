//! Ids of documents: numbers or texts, by the type of the output's ids.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::cast::as_string_array;
use datafusion::prelude::{Expr, cast, col, lit};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::schema::IdType;

/// An id. All ids of an output are of one variant, by which they are sorted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// From a column of integers.
    Number(i64),
    /// From any other column.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Text(text) => f.write_str(text),
        }
    }
}

impl Id {
    /// The id that `text` spells; `None` if ids are numbers and `text` is not one.
    pub(crate) fn parse(text: &str, kind: IdType) -> Option<Self> {
        match kind {
            IdType::Utf8 => Some(Id::Text(text.to_owned())),
            IdType::Int64 => text.parse().ok().map(Id::Number),
        }
    }

    /// The type of a column of such ids.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Id::Number(_) => DataType::Int64,
            Id::Text(_) => DataType::Utf8,
        }
    }

    /// The id in an expression.
    pub(crate) fn literal(&self) -> Expr {
        match self {
            Id::Number(number) => lit(*number),
            Id::Text(text) => lit(text.as_str()),
        }
    }
}

/// The column `id`, cast to the type that [`ids`] reads.
pub(super) fn column(kind: IdType) -> Expr {
    column_named("id", kind)
}

/// The column `name` of ids, cast as by [`column`].
pub(super) fn column_named(name: &str, kind: IdType) -> Expr {
    match kind {
        IdType::Utf8 => cast(col(name), DataType::Utf8).alias(name),
        IdType::Int64 => col(name),
    }
}

/// The ids in a column, without NULLs.
///
/// # Errors
/// When the column has another type.
pub(super) fn ids(column: &ArrayRef) -> Result<Vec<Id>> {
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().flatten().map(Id::Number).collect(),
        _ => as_string_array(column)?.iter().flatten().map(|id| Id::Text(id.to_owned())).collect(),
    })
}
