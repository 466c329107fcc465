//! The tables of a run: the public ones by their contracts, those between the steps here.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::Result;
use crate::operator;
use crate::schema;
use crate::sink::Layout;
use crate::sink::write::{Rows, Target};

/// The columns of a table.
pub(crate) fn schema(table: &str) -> SchemaRef {
    if let Some(public) = schema::Table::named(table) {
        return schema::contract(public).arrow_schema();
    }
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
            vec![
                Field::new("source", DataType::Utf8, false),
                Field::new("position", DataType::UInt64, false),
                Field::new("id", DataType::Utf8, true),
                Field::new("doc", DataType::UInt64, true),
                Field::new("reason", DataType::Utf8, true),
                Field::new_list("texts", texts, true),
            ]
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
            let documents = schema::contract(schema::Table::Documents).arrow_schema();
            let names = ["doc", "shingles", "signature"];
            names.iter().filter_map(|name| documents.field_with_name(name).ok().cloned()).collect()
        }
        "frequencies" => return operator::token_counts::schema(),
        "scores" => return operator::score::schema(),
        // A document and the least document of its component.
        "components" => u64s(&["doc", "root"]),
        // The edges of a round: its number ends the name.
        star if star.starts_with("large_star_") || star.starts_with("small_star_") => u64s(&["high", "low"]),
        "members" => {
            let mut fields = vec![Field::new("id", DataType::Utf8, false)];
            fields.extend(u64s(&["doc", "shingle_count", "rep", "size"]));
            fields
        }
        _ => vec![],
    };
    Arc::new(Schema::new(fields))
}

/// What the writer node needs to know of a table.
pub(super) fn target(table: &str, rows: Rows) -> Target {
    Target { table: table.to_owned(), folder: Layout::table(table), rows, schema: schema(table) }
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
