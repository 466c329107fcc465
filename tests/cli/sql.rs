//! `sql`: what a query may do, and how queries from a pipe end.

use crate::support::*;

fn finished() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let (input, out) = (folder.path().join("in.parquet"), folder.path().join("out"));
    write_parquet(&input, &corpus(1, 30, 30), 100);
    run(&job(&input, &out, &[])).unwrap();
    (folder, out)
}

fn sql(out: &Path) -> assert_cmd::Command {
    program!["sql", out]
}

#[test]
fn a_query_reads_the_tables_and_does_nothing_else() {
    let (folder, out) = finished();
    let there = files(folder.path());
    let (input, copy) = (folder.path().join("in.parquet"), folder.path().join("copy.parquet"));
    let (input, copy) = (input.to_str().unwrap(), copy.to_str().unwrap());
    for query in [
        format!("COPY pairs TO '{copy}'"),
        format!("COPY (SELECT 1) TO '{copy}'"),
        format!("EXPLAIN ANALYZE COPY pairs TO '{copy}'"),
        format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{input}'"),
        format!("CREATE EXTERNAL TABLE x (id INT) STORED AS PARQUET LOCATION '{}/pairs'", out.display()),
        "CREATE TABLE x AS SELECT 1".to_owned(),
        "CREATE VIEW x AS SELECT 1".to_owned(),
        "INSERT INTO pairs SELECT * FROM pairs".to_owned(),
        "DROP TABLE pairs".to_owned(),
        "SET datafusion.execution.batch_size = 1".to_owned(),
    ] {
        for (arguments, input) in [(vec![query.as_str()], ""), (vec![], query.as_str())] {
            let refused = sql(&out).args(arguments).write_stdin(input).assert().stdout("");
            refused.refused(2, &["--allow-writes"]);
        }
    }
    // Other files are no tables.
    for query in [format!("SELECT * FROM '{input}'"), format!("SELECT * FROM read_parquet('{input}')")] {
        sql(&out).arg(query).assert().code(2).stdout("");
    }
    assert_eq!(files(folder.path()), there);
    let with = "WITH p AS (SELECT * FROM pairs) SELECT count(*) FROM p";
    for query in ["EXPLAIN SELECT * FROM pairs", "SHOW TABLES", "DESCRIBE pairs", with, "VALUES (1)"] {
        sql(&out).arg(query).assert().success();
    }
}

#[test]
fn a_flag_allows_writes() {
    let (folder, out) = finished();
    let copy = folder.path().join("copy.parquet");
    let queries = format!(
        "COPY (SELECT id FROM documents) TO '{0}';\n\
         CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{0}';\n\
         SELECT count(*) AS n FROM copied;\n",
        copy.display()
    );
    let answers = sql(&out).args(["--allow-writes", "--json"]).write_stdin(queries).assert().shown(&[]);
    assert_eq!(answers.lines().last(), Some("{\"n\":30}"), "{answers}");
    assert!(copy.exists());
}

#[test]
fn queries_from_a_pipe_end_at_the_first_that_fails() {
    let (_folder, out) = finished();
    let piped = |queries: &'static str| sql(&out).arg("--json").write_stdin(queries).assert();
    let ended = piped("SELECT 1 AS first;\nSELECT nonsense\nFROM pairs;\nSELECT 3 AS third;\n");
    ended.stdout("{\"first\":1}\n").refused(2, &["nonsense"]);
    // One that fails when it is run.
    sql(&out).write_stdin("SELECT 1 / (count(*) - 30) FROM documents;\n").assert().code(2);
    // The last needs no semicolon, and `\q` leaves before what follows.
    let ended = piped("\nSELECT count(*) AS n\nFROM documents;\n\nSELECT 2 AS n");
    ended.success().stdout("{\"n\":30}\n{\"n\":2}\n");
    piped("SELECT 1 AS n;\n\\q\nSELECT nonsense;\n").success();
    sql(&out).write_stdin("").assert().success().stdout("");
    sql(&out).write_stdin(b"SELECT '\xff';\n".to_vec()).assert().code(3);
}
