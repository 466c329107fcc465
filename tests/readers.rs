//! Other programs read the tables: DuckDB and pyarrow, where Python has them.

use std::process::Command;

use tempfile::tempdir;

use crate::support::*;

const SCRIPT: &str = r#"
import json, os, sys
import duckdb, pyarrow.dataset as ds, pyarrow.parquet as pq
out = sys.argv[1]
db = duckdb.connect()
manifest = json.load(open(os.path.join(out, "manifest.json")))
for name, table in manifest["tables"].items():
    files = [os.path.join(out, f["path"]) for f in table["files"]]
    rows = sum(pq.read_table(f).num_rows for f in files)
    assert rows == table["rows"], (name, rows)
    assert ds.dataset(os.path.join(out, name)).count_rows() == table["rows"], name
    counted = db.execute(f"SELECT count(*) FROM '{out}/{name}/*.parquet'").fetchone()[0]
    assert counted == table["rows"], (name, counted)
signature = db.execute(f"SELECT len(signature), len(shingles) = shingle_count FROM '{out}/documents/*.parquet'").fetchone()
assert signature == (128, True), signature
best = db.execute(f"SELECT max(jaccard) FROM '{out}/pairs/*.parquet'").fetchone()[0]
assert best == 1.0, best
print("read")
"#;

#[test]
fn duckdb_and_pyarrow_read_every_table() {
    let python = |code: &str| Command::new("python3").args(["-c", code]).output();
    if !python("import duckdb, pyarrow").is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: python3 with duckdb and pyarrow is not here, so no other reader was tried");
        return;
    }
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &corpus(12, 300, 30), 100);
    let output = folder.path().join("out");
    run(&job(&source, &output, &[])).unwrap();
    let read = Command::new("python3").args(["-c", SCRIPT]).arg(&output).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn the_amazon_sample_runs() {
    let Some(data) = real_data("amazon-books") else { return };
    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    let sets = [
        format!("source.url={}", data.join("Books_rating.sample.csv").display()),
        format!("output.url={}", output.display()),
    ];
    let job = resemblance::job::Job::load(repository("jobs/amazon-books.toml"), &sets).unwrap();
    run(&job).unwrap();
    let rows = |name: &str| manifest(&output).tables[name].rows;
    assert_eq!(rows("documents") + rows("rejects"), 999);
    assert!(rows("pairs") > 0);
}
