//! The encoded Arrow schema in the metadata of Parquet files.

use arrow::datatypes::Schema;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{Field, root_as_message};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The schema; `None` where it is damaged, or has types that Arrow's Rust library does not know.
pub(crate) fn decoded(encoded: &str) -> Option<Schema> {
    let known = |schema: arrow::ipc::Schema<'_>| {
        let known = schema.fields().is_none_or(|fields| fields.iter().all(is_known));
        known.then(|| fb_to_schema(schema))
    };
    with_message(encoded, known).flatten()
}

/// Whether it is valid and has types that Arrow's Rust library does not know, on which it panics.
pub(super) fn is_foreign(encoded: &str) -> bool {
    let foreign =
        |schema: arrow::ipc::Schema<'_>| schema.fields().is_some_and(|fields| !fields.iter().all(is_known));
    with_message(encoded, foreign).unwrap_or(false)
}

fn with_message<T>(encoded: &str, read: impl FnOnce(arrow::ipc::Schema<'_>) -> T) -> Option<T> {
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    // Since version 0.15, four bytes of ones and a length precede the message.
    let message = bytes.strip_prefix(&[255; 4]).and_then(|rest| rest.get(4..)).unwrap_or(&bytes);
    Some(read(root_as_message(message).ok()?.header_as_schema()?))
}

/// Polars has integers of 128 bits.
fn is_known(field: Field<'_>) -> bool {
    let known = field.type_as_int().is_none_or(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64));
    known && field.children().is_none_or(|children| children.iter().all(is_known))
}
