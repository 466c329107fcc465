//! The types of columns in SQL.

use arrow::datatypes::DataType;

/// The name of a type in SQL, as DuckDB and dbt's adapter of it have it.
pub(super) fn sql_type(kind: &DataType) -> String {
    use DataType as D;
    let name = match kind {
        D::Utf8 | D::LargeUtf8 | D::Utf8View => "varchar",
        D::Boolean => "boolean",
        // A type with a sign holds the numbers of the next smaller one without.
        D::Int8 => "tinyint",
        D::Int16 | D::UInt8 => "smallint",
        D::Int32 | D::UInt16 => "integer",
        D::Int64 | D::UInt32 => "bigint",
        D::UInt64 => "decimal(20,0)",
        D::Float16 | D::Float32 => "float",
        D::Float64 => "double",
        D::Date32 | D::Date64 => "date",
        D::Time32(_) | D::Time64(_) => "time",
        D::Timestamp(_, None) => "timestamp",
        D::Timestamp(_, Some(_)) => "timestamptz",
        D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => "blob",
        D::Decimal32(digits, scale)
        | D::Decimal64(digits, scale)
        | D::Decimal128(digits, scale)
        | D::Decimal256(digits, scale) => return format!("decimal({digits},{scale})"),
        D::List(item) | D::LargeList(item) => return format!("{}[]", sql_type(item.data_type())),
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn each_type_holds_all_values_of_the_column() {
        for (kind, name) in [
            (DataType::Utf8View, "varchar"),
            (DataType::UInt32, "bigint"),
            (DataType::UInt64, "decimal(20,0)"),
            (DataType::Decimal128(10, 2), "decimal(10,2)"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "timestamp"),
            (DataType::new_list(DataType::Int64, true), "bigint[]"),
        ] {
            assert_eq!(sql_type(&kind), name, "{kind}");
        }
    }
}
