//! Other programs read the tables: DuckDB, pyarrow and Polars, where Python has them.

use arrow::array::{Float32Array, Int32Array};

use crate::support::*;

const DUCKDB_AND_PYARROW: &str = r#"
import json, os, sys
import duckdb, pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
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
    for file in files:
        # By the file's own schema, without the hint that Arrow leaves there.
        for column in pq.ParquetFile(file).schema:
            assert "signed=false" not in str(column.logical_type).lower().replace(" ", ""), (name, column)
    for column, type, *_ in db.execute(f"DESCRIBE SELECT * FROM '{out}/{name}/*.parquet'").fetchall():
        assert not type.startswith("U"), (name, column, type)
types = dict(zip(*[iter(x for c in db.execute(f"DESCRIBE SELECT * FROM '{out}/documents/*.parquet'").fetchall() for x in c[:2])] * 2))
assert types == {
    "id": "BIGINT", "source": "VARCHAR", "position": "BIGINT", "origin_number": "BIGINT", "doc": "BIGINT", "shingle_count": "BIGINT",
    "set_hash_0": "BIGINT", "set_hash_1": "BIGINT",
    "signature": "BLOB", "bucket_tags": "BLOB", "shingles": "BIGINT[]", "title": "VARCHAR", "stars": "FLOAT",
}, types
assert ds.dataset(os.path.join(out, "pairs")).schema.field("shared_bands").type == pa.int32()
signature = db.execute(f"SELECT octet_length(signature), len(shingles) = shingle_count FROM '{out}/documents/*.parquet'").fetchone()
assert signature == (256, True), signature
best = db.execute(f"SELECT max(jaccard) FROM '{out}/pairs/*.parquet'").fetchone()[0]
assert best == 1.0, best
# The score of a stored pair, from the bits that are stored.
wrong = db.execute(f"""
    SELECT count(*) FROM '{out}/pairs/*.parquet' p
    JOIN '{out}/documents/*.parquet' a ON a.id = p.id_a JOIN '{out}/documents/*.parquet' b ON b.id = p.id_b
    WHERE len(list_intersect(a.shingles, b.shingles)) <> p.shared OR p.id_a >= p.id_b
""").fetchone()[0]
assert wrong == 0, wrong
# The text of a document is where its row says.
lost = db.execute(f"""
    SELECT count(*) FROM '{out}/documents/*.parquet' d
    LEFT JOIN read_parquet('{sys.argv[2]}', file_row_number = true) s ON s.file_row_number = d.position AND d.source = '{sys.argv[2]}'
    WHERE s.id IS DISTINCT FROM d.id OR s.title IS DISTINCT FROM d.title
""").fetchone()[0]
assert lost == 0, lost
print("read")
"#;

const POLARS: &str = r#"
import json, os, sys
import polars as pl
out = sys.argv[1]
manifest = json.load(open(os.path.join(out, "manifest.json")))
for name, table in manifest["tables"].items():
    rows = pl.scan_parquet(os.path.join(out, name, "*.parquet"))
    assert rows.select(pl.len()).collect().item() == table["rows"], name
    assert "UInt" not in str(rows.collect_schema()), (name, rows.collect_schema())
documents = pl.read_parquet(os.path.join(out, "documents", "*.parquet"))
assert documents["id"].dtype == pl.Int64 and documents["shingles"].dtype == pl.List(pl.Int64), documents.schema
assert (documents["shingles"].list.len() == documents["shingle_count"]).all()
print("read")
"#;

fn output(folder: &Path) -> (PathBuf, PathBuf) {
    let (source, output) = (folder.join("in.parquet"), folder.join("out"));
    let documents = corpus(12, 300, 30);
    let title = |i: usize| (!i.is_multiple_of(3)).then(|| format!("title {i}"));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int32Array::from_iter_values(0..300))),
        ("text", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.1)))),
        ("title", Arc::new(StringArray::from_iter((0..300).map(title)))),
        ("stars", Arc::new(Float32Array::from_iter_values((0..300_u16).map(f32::from)))),
    ];
    write_batch(&source, &RecordBatch::try_from_iter(columns).unwrap(), 100);
    run(&job(&source, &output, &["source.columns=['title', 'stars']", "output.keep=shingles"])).unwrap();
    (source, output)
}

fn assert_reads(modules: &str, script: &str) {
    let Some(mut python) = python(modules) else { return };
    let folder = tempdir().unwrap();
    let (source, output) = output(folder.path());
    python.args(["-c", script]).arg(&output).arg(&source).output().unwrap().shown(&[]);
}

#[test]
fn duckdb_and_pyarrow_read_every_table() {
    assert_reads("duckdb, pyarrow", DUCKDB_AND_PYARROW);
}

#[test]
fn polars_reads_every_table() {
    assert_reads("polars", POLARS);
}
