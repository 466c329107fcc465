//! The tables of a run: the public ones by their contracts, those between the steps here.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::Result;
use crate::operator;
use crate::schema::{self, IdType, SourceColumn, SourceTypes};
use crate::sink::Layout;
use crate::sink::write::{Rows, Target};

/// The columns of a table over a source of these types.
pub(crate) fn schema(table: &str, source: &SourceTypes) -> SchemaRef {
    if let Some(public) = schema::Table::named(table) {
        return schema::contract(public).over(source).arrow_schema();
    }
    let id = match source.id {
        IdType::Utf8 => DataType::Utf8,
        IdType::Int64 => DataType::Int64,
    };
    let u64s =
        |names: &[&str]| names.iter().map(|n| Field::new(*n, DataType::UInt64, false)).collect::<Vec<_>>();
    let fields = match table {
        "duplicates" => vec![
            Field::new("source", DataType::Utf8, false),
            Field::new("position", DataType::UInt64, false),
            Field::new("reason", DataType::Utf8, false),
        ],
        "cuts" => {
            let texts = Field::new_list_field(DataType::LargeUtf8, true);
            let mut fields = vec![
                Field::new("source", DataType::Utf8, false),
                Field::new("position", DataType::UInt64, false),
                Field::new("id", id, true),
                Field::new("doc", DataType::UInt64, true),
                Field::new("reason", DataType::Utf8, true),
                Field::new_list("texts", texts, true),
            ];
            let carried = |(at, column): (usize, &SourceColumn)| {
                Field::new(schema::carried(at), column.data_type.clone(), true)
            };
            fields.extend(source.columns.iter().enumerate().map(carried));
            fields
        }
        "numbers" => u64s(&["doc", "number"]),
        "keys" => {
            let mut fields = u64s(&["doc", "set_hash_0", "set_hash_1"]);
            fields.push(Field::new_list("buckets", Field::new_list_field(DataType::UInt64, true), false));
            fields
        }
        "groups" => u64s(&["rep", "doc", "size"]),
        "candidates" | "all_candidates" => u64s(&["a", "b"]),
        "hot" => u64s(&["a"]),
        "asked_for" => {
            let list = |name: &str, item| Field::new_list(name, Field::new_list_field(item, true), false);
            let mut fields = u64s(&["doc"]);
            fields.extend([list("shingles", DataType::UInt64), list("signature", DataType::UInt32)]);
            fields
        }
        "frequencies" => return operator::token_counts::schema(),
        "scores" => return operator::score::schema(),
        // A document and the least document of its component.
        "components" => u64s(&["doc", "root"]),
        "members" => {
            let mut fields = vec![Field::new("id", id, false)];
            fields.extend(u64s(&["doc", "shingle_count", "rep", "size"]));
            fields
        }
        _ => vec![],
    };
    Arc::new(Schema::new(fields))
}

/// What the writer node needs to know of a table.
pub(super) fn target(table: &str, rows: Rows, source: &SourceTypes) -> Target {
    let carried = if table == schema::Table::Documents.name() { source.columns.len() } else { 0 };
    let schema = schema(table, source);
    Target { table: table.to_owned(), folder: Layout::table(table), rows, schema, carried }
}

/// Slices that the comparison of all pairs is cut into, for each thread: enough that none waits long at the end.
const SLICES_PER_THREAD: usize = 16;

/// (slice, slices), a row and a batch for each slice, spread over as many partitions as there are threads.
pub(crate) fn slices(session: &SessionContext) -> Result<DataFrame> {
    let threads = session.state().config().target_partitions();
    let slices = (threads * SLICES_PER_THREAD) as u64;
    let column = |name| Field::new(name, DataType::UInt64, false);
    let schema = Arc::new(Schema::new(vec![column("slice"), column("slices")]));
    let mut partitions = vec![Vec::new(); threads];
    for slice in 0..slices {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(vec![slice])), Arc::new(UInt64Array::from(vec![slices]))];
        partitions[slice as usize % threads].push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?)
}
