//! The contracts: their examples keep them, and other tables do not.

use arrow::datatypes::Int64Type;
use datafusion::prelude::DataFrame;
use resemblance::error::Result;
use resemblance::schema::{AuditDepth, Column, Contract, Table, Type, contract};

use crate::support::*;

#[tokio::test]
async fn the_examples_keep_the_rules() {
    for table in Table::ALL {
        let contract = contract(table);
        let rows = example(contract).await;
        contract.check_schema(rows.schema().as_arrow()).unwrap();
        judge(contract, rows).await.unwrap();
    }
}

#[tokio::test]
async fn rows_that_break_a_rule_are_counted() {
    for (table, column, value, hint) in [
        (Table::Pairs, "id_b", "id_a", "`reference_b OR id_a < id_b` in 2 rows"),
        (Table::Pairs, "jaccard", "jaccard * 0.999", "abs(jaccard"),
        (Table::Pairs, "jaccard", "'NaN'::double", "jaccard BETWEEN 0 AND 1"),
        (Table::Pairs, "containment_a", "containment_b", "abs(containment_a"),
        (Table::Pairs, "id_a", "NULL::varchar", "`id_a IS NOT NULL` in 3 rows"),
        (Table::Clusters, "size", "1::bigint", "`size >= 2 OR weakest_link IS NULL` in 2 rows"),
        (
            Table::Documents,
            "shingle_count",
            "9::bigint",
            "coalesce(array_length(shingles), 0) = shingle_count",
        ),
        (Table::Documents, "signature", "arrow_cast(NULL, 'Binary')", "signature IS NOT NULL"),
        (Table::Documents, "signature", "arrow_cast('', 'Binary')", "signature <> ''"),
        (Table::Pairs, "shared_bands", "-1::int", "shared_bands >= 0"),
        (Table::Documents, "position", "-1::bigint", "position >= 0"),
        (Table::Rejects, "reason", "'boring'", "reason IN ("),
        (Table::Rejects, "id", "NULL::varchar", "duplicate_id"),
    ] {
        let contract = contract(table);
        let rows = example(contract).await;
        let value = rows.parse_sql_expr(value).unwrap();
        fails(judge(contract, rows.with_column(column, value).unwrap()).await, Kind::Bug, &[hint]);
    }
}

#[test]
fn other_schemas_are_refused_by_column() {
    let clusters = contract(Table::Clusters);
    let with = |at: usize, name: &str, kind: DataType| {
        let mut fields = clusters.arrow_schema().fields().to_vec();
        fields.splice(at..fields.len().min(at + 1), [Arc::new(Field::new(name, kind, true))]);
        clusters.check_schema(&Schema::new(fields))
    };
    with(1, "cluster_id", DataType::Utf8View).unwrap();
    let end = clusters.columns.len();
    for (at, name, kind, hints) in [
        (1, "cluster", DataType::Utf8, ["no column `cluster_id`", "Utf8"]),
        (0, "cluster_id", DataType::Utf8, ["no column `id`", "Utf8"]),
        (2, "size", DataType::UInt64, ["`size` as UInt64", "Int64"]),
        (0, "id", DataType::Binary, ["`id` as Binary", "Utf8"]),
        (end, "text", DataType::Utf8, ["`text` (Utf8)", "which the contract does not have"]),
    ] {
        let said = with(at, name, kind).unwrap_err().to_string();
        assert!(hints.iter().all(|hint| said.contains(hint)) && said.contains("clusters"), "{said}");
    }
    let mut swapped = clusters.arrow_schema().fields().to_vec();
    swapped.swap(0, 1);
    let said = clusters.check_schema(&Schema::new(swapped)).unwrap_err().to_string();
    assert!(said.contains("`cluster_id` as column 1") && said.contains("`id`"), "{said}");
}

#[test]
fn reasons_of_rejects_equal_the_rule() {
    for rejects in [Table::Rejects, Table::ReferenceRejects].map(contract) {
        let listed: Vec<_> = rejects.reasons.iter().map(|r| format!("'{}'", r.name)).collect();
        assert!(rejects.rules.contains(&format!("reason IN ({})", listed.join(", "))));
        assert!(rejects.reasons.iter().all(|r| r.remedy.is_empty() == (rejects.table != Table::Rejects)));
    }
}

async fn judge(contract: &Contract, rows: DataFrame) -> Result<()> {
    let mut counts = Vec::new();
    for batch in contract.audit(rows, AuditDepth::Whole)?.collect().await? {
        let column = |column: &ArrayRef| column.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        counts.extend(batch.columns().iter().map(column).map(i64::unsigned_abs));
    }
    contract.verdict(&counts[1..], AuditDepth::Whole)
}

async fn example(contract: &Contract) -> DataFrame {
    let rows: Vec<String> = contract
        .example
        .iter()
        .map(|row| {
            assert!(row.keys().all(|key| contract.columns.iter().any(|c| c.name == *key)), "{row}");
            let cells: Vec<_> = contract.columns.iter().map(|c| cell(c, row.get(&c.name))).collect();
            format!("SELECT {}", cells.join(", "))
        })
        .collect();
    SessionContext::new().sql(&rows.join(" UNION ALL ")).await.unwrap()
}

fn cell(column: &Column, value: Option<&toml::Value>) -> String {
    let value = match value {
        None => "NULL".into(),
        // In hexadecimal.
        Some(toml::Value::String(bytes)) if column.kind.arrow() == DataType::Binary => format!("X'{bytes}'"),
        Some(toml::Value::String(text)) => format!("'{text}'"),
        Some(toml::Value::Float(number)) => format!("{number:?}"),
        Some(other) => other.to_string(),
    };
    let kind = match column.kind {
        Type::ListInt64 => "List(Int64)".into(),
        ref plain => plain.arrow().to_string(),
    };
    format!("arrow_cast({value}, '{kind}') AS {}", column.name)
}

#[test]
fn a_manifest_has_the_declared_fields() {
    let file: Value = toml::from_str(include_str!("../../schemas/manifest.toml")).unwrap();
    let manifest: Run = serde_json::from_value(file["example"].clone()).unwrap();
    let written = serde_json::to_value(&manifest).unwrap();
    for field in file["fields"].as_array().unwrap() {
        let (name, kind) = (field["name"].as_str().unwrap(), field["type"].as_str().unwrap());
        let value = &written[name];
        let is_kind = match kind {
            "integer" => value.is_u64(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            _ => value.is_object(),
        };
        assert!(is_kind, "{name}: {value}");
    }
}
