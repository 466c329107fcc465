//! Facets: the parts of an event, each with its own schema.

use serde_json::{Value, json};

/// The program that produces the events, as a package URL.
pub(super) const PRODUCER: &str = concat!("pkg:cargo/resemblance@", env!("CARGO_PKG_VERSION"));

/// The facet of a schema of the specification, such as `SchemaDatasetFacet` in version `1-2-0`, with `fields`.
pub(super) fn facet((version, schema): (&str, &str), mut fields: Value) -> Value {
    let url = format!("https://openlineage.io/spec/facets/{version}/{schema}.json#/$defs/{schema}");
    fields["_producer"] = json!(PRODUCER);
    fields["_schemaURL"] = json!(url);
    fields
}
