//! The statements of `docs/sql.md` give the pairs of a run, in a bare session and in the command `sql`.

use arrow::datatypes::Float64Type;

use crate::support::*;

fn statements() -> Vec<String> {
    let page = std::fs::read_to_string(repository("docs/sql.md")).unwrap();
    let block = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("--")).collect();
    let statements = lines.join("\n");
    let statements = statements.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

fn texts(input: &Path) -> String {
    format!("CREATE EXTERNAL TABLE texts STORED AS PARQUET LOCATION '{}'", input.display())
}

/// (id_a, id_b, jaccard) as the page's last statement gives them.
fn pairs(batches: &[RecordBatch]) -> Vec<(String, String, f64)> {
    let of_batch = |batch: &RecordBatch| {
        let text = |at: usize| cast(batch.column(at), &DataType::Utf8).unwrap();
        let (a, b, jaccard) = (text(0), text(1), batch.column(2).as_primitive::<Float64Type>().clone());
        let row = |row| {
            let id = |ids: &dyn arrow::array::Array| ids.as_string::<i32>().value(row).to_owned();
            (id(&a), id(&b), jaccard.value(row))
        };
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

#[tokio::test]
async fn five_statements_find_the_pairs_of_a_run() {
    let path = paths();
    let (input, job) = (path("in.parquet"), path("job.toml"));
    write_parquet(&input, &corpus(12, 300, 40), 100);
    let output = path("out");
    std::fs::write(&job, job_text(&input, &output)).unwrap();
    // Every pair that shares a bucket, as a join finds it.
    let sets = ["lsh.bands=32", "lsh.rows=4", "lsh.hot_bucket=100000", "output.max_expand=0"];
    let sets = sets.into_iter().flat_map(|set| ["--set", set]);
    resemblance().arg("run").arg(&job).args(sets).assert().success();

    let session = SessionContext::new();
    resemblance::udf::register_all(&session).unwrap();
    let files = format!("{}/pairs/", output.display());
    session.register_parquet("of_run", files, Default::default()).await.unwrap();
    let of_run = session.sql("SELECT id_a, id_b, jaccard FROM of_run ORDER BY id_a, id_b").await.unwrap();
    let expected = pairs(&of_run.collect().await.unwrap());
    assert!(expected.len() > 100, "{}", expected.len());

    let statements = statements();
    assert_eq!(statements.len(), 5, "{statements:#?}");
    let mut last = session.sql(&texts(&input)).await.unwrap().collect().await.unwrap();
    for statement in &statements {
        last = session.sql(statement).await.unwrap().collect().await.unwrap();
    }
    assert_eq!(pairs(&last), expected);
    let all = format!("{};\n{};\n", texts(&input), statements.join(";\n"));
    let mut command = program!["sql", &output, "--allow-writes", "--json"];
    let printed = command.write_stdin(all).assert().shown(&[]);
    // Read by hand: `serde_json` gives the nearest number or one of its neighbours.
    let field = |line: &str, name: &str| {
        let value = line.split(&format!("\"{name}\":")).nth(1).and_then(|rest| rest.split([',', '}']).next());
        value.unwrap_or_default().trim_matches('"').to_owned()
    };
    let pair =
        |line: &str| (field(line, "id_a"), field(line, "id_b"), field(line, "jaccard").parse().unwrap());
    let pairs = printed.lines().filter(|line| line.contains("\"jaccard\":")).map(pair);
    assert_eq!(pairs.collect::<Vec<(String, String, f64)>>(), expected);
}
