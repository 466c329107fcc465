//! `--tables delta`: what stays and what goes as Delta tables.

use arrow::array::*;

use super::*;

type Columns = Vec<(&'static str, ArrayRef)>;

fn applied() -> Applied {
    let applied = Applied::new();
    let documents = corpus(51, 120, 20);
    std::fs::create_dir(applied.path("in/a b")).unwrap();
    write_parquet(&applied.path("in/a b/one.parquet"), &documents[..70], 30);
    let column = |of: fn(&Document) -> &str| -> ArrayRef {
        Arc::new(LargeStringArray::from_iter_values(documents[70..].iter().map(of)))
    };
    let columns: [(&str, ArrayRef); 3] = [
        ("id", column(|document| &document.0)),
        ("text", column(|document| &document.1)),
        ("stars", Arc::new(Int32Array::from_iter_values(0..50))),
    ];
    write_batch(&applied.path("in/two.parquet"), &RecordBatch::try_from_iter(columns).unwrap(), 30);
    applied.run("parquet", COLUMNS);
    applied
}

#[test]
fn kept_and_removed_documents_become_delta_tables() {
    let applied = applied();
    applied.apply("plain", &[]);
    applied.apply("to", &["--tables", "delta"]);
    let manifest = manifest_of(&applied.path("to"));
    assert_eq!(manifest["tables"], "delta");
    let staying = Table::read(&applied.path("to"));
    let text = |name: &str| (name.to_owned(), json!("string"), false);
    assert_eq!(staying.fields(), [text("id"), text("text"), ("stars".to_owned(), json!("integer"), true)]);
    let versions = (&staying.protocol["minReaderVersion"], &staying.protocol["minWriterVersion"]);
    assert_eq!(versions, (&1.into(), &2.into()));
    for (count, table) in
        [("kept", staying), ("removed", Table::read(&applied.path("to/_resemblance/removed")))]
    {
        let there = kept(&table.folder);
        assert!(table.version == 0 && table.files.keys().eq(there.keys()), "{table:?}");
        let rows: usize = table.batches().iter().map(RecordBatch::num_rows).sum();
        assert_eq!(manifest["counts"][count], rows);
    }
    assert_eq!(kept(&applied.path("to")), kept(&applied.path("plain")));
    assert_eq!(applied.apply("to", &["--tables", "delta"])["already_finished"], true);
    applied.refused("to", &[], 2, &["other options"]);

    applied.apply("marked", &["--tables", "delta", "--annotate"]);
    let fields = Table::read(&applied.path("marked")).fields();
    let names: Vec<String> = fields.into_iter().map(|(name, _, _)| name).collect();
    assert_eq!(names, ["id", "text", "stars", "cluster_id", "representative", "kept_id"]);
    assert!(!applied.path("marked/_resemblance/removed").exists());
}

#[test]
fn types_that_delta_lacks_are_refused_before_writing() {
    let refused = |applied: &Applied, said: &[&str]| {
        applied.refused("to", &["--tables", "delta"], 2, said);
        assert!(!applied.path("to").exists());
    };
    let documents = corpus(52, 60, 20);
    let applied = Applied::new();
    let lines: String = documents.iter().map(|(id, text)| format!("{id},{text}\n")).collect();
    applied.put("a.csv", format!("id,text\n{lines}"));
    applied.run("csv", COLUMNS);
    refused(&applied, &["CSV", "--tables delta"]);

    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(0..60));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..60).map(f64::from)));
    let cases: [(Columns, &[&str]); 3] = [
        (vec![("at", times)], &["`at`", "microseconds"]),
        (vec![("Text", Arc::clone(&numbers))], &["two columns `text`"]),
        (vec![("n", numbers), ("n", floats)], &["`n`", "Float64", "Int64", "b.parquet"]),
    ];
    for (columns, said) in cases {
        let applied = Applied::new();
        for ((name, values), (file, half)) in columns.into_iter().zip([("a.parquet", 0), ("b.parquet", 30)]) {
            let columns = vec![(name, values.slice(half, 30))];
            write_columns(&applied.path("in").join(file), &documents[half..half + 30], columns, 30);
        }
        applied.run("parquet", COLUMNS);
        refused(&applied, said);
    }
}
