//! A server that fails for a while, without end, in the middle of an answer, or that refuses.

use ballista_core::error::BallistaError;
use ballista_core::serde::protobuf::FailedTask;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use resemblance::output::attempt::Attempt;
use resemblance::output::manifest::File;
use resemblance::output::write::{TableRows, TableTarget, Write};
use resemblance::output::{Layout, read};
use resemblance::plan::OperatorExec;
use resemblance::source;

use super::*;

#[test]
fn a_server_that_is_down_for_a_while_is_waited_for() {
    let corpus = Corpus::new(80, 30);
    for part in
        ["list-type=2", "GET /data/in/", "PUT /data/out/_work", "PUT /data/out/manifest", "POST /data?delete"]
    {
        corpus.s3.faults.add(part, 2, Fault::Unavailable);
    }
    corpus.run("out").shown(&[]);
    assert_eq!(corpus.s3.faults.left(), 0);
    corpus.check("out");
}

#[test]
fn a_server_that_stays_down_ends_the_run_in_time_and_the_next_run_goes_on() {
    let corpus = Corpus::new(80, 30);
    let impatient = changed(&corpus.s3, &[("RESEMBLANCE_RETRY_SECONDS", "1")]);
    let run = || run_to(&impatient, &corpus.job, &corpus.s3.url("out"), &[]);
    for (part, named) in [
        ("list-type=2", "s3://data/in"),
        ("GET /data/in/", "s3://data/in/in.parquet"),
        ("PUT /data/out/_work/copies", "s3://data/out/_work/copies"),
        ("GET /data/out/_work/scores/", "s3://data/out/_work/scores/part-"),
        ("PUT /data/out/manifest", "s3://data/out/manifest.json"),
    ] {
        corpus.s3.faults.add(part, usize::MAX, Fault::Unavailable);
        run().refused(3, &[named, "503 SlowDown"]);
        corpus.s3.faults.clear();
    }
    // No server answers.
    let nobody =
        changed(&corpus.s3, &[("RESEMBLANCE_RETRY_SECONDS", "1"), ("AWS_ENDPOINT", "http://127.0.0.1:1")]);
    run_to(&nobody, &corpus.job, &corpus.s3.url("out"), &[]).refused(3, &["the connection failed"]);
    let record = run().json();
    assert!(record["stages_reused"].as_u64().unwrap() > 5, "{record}");
    corpus.check("out");
}

#[test]
fn failed_cleanups_do_not_fail_the_run() {
    let corpus = Corpus::new(80, 30);
    let impatient = changed(&corpus.s3, &[("RESEMBLANCE_RETRY_SECONDS", "1")]);
    corpus.s3.faults.add("?delete", usize::MAX, Fault::Unavailable);
    let ended = run_to(&impatient, &corpus.job, &corpus.s3.url("out"), &[]);
    ended.warned(&["resemblance clean s3://data/out"]);
    corpus.s3.faults.clear();
    command(&corpus.s3.env(), &["clean", "s3://data/out"]).shown(&[]);
    corpus.check("out");
}

#[test]
fn an_answer_that_stops_is_asked_for_again() {
    let corpus = Corpus::new(80, 30);
    for part in ["GET /data/in/", "list-type=2", "GET /data/out/_work/"] {
        corpus.s3.faults.add(part, 1, Fault::Stall(40));
    }
    let impatient = changed(&corpus.s3, &[("RESEMBLANCE_REQUEST_SECONDS", "1")]);
    run_to(&impatient, &corpus.job, &corpus.s3.url("out"), &[]).shown(&[]);
    assert_eq!(corpus.s3.faults.left(), 0);
    corpus.check("out");
}

#[test]
fn a_machine_without_credentials_says_so() {
    let corpus = Corpus::new(20, 30);
    let nobody = [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1"),
        ("RESEMBLANCE_RETRY_SECONDS", "1"),
    ];
    let ended = run_to(&changed(&corpus.s3, &nobody), &corpus.job, &corpus.s3.url("out"), &[]);
    ended.refused(3, &["there are no credentials: set AWS_ACCESS_KEY_ID"]);
}

#[test]
fn denied_access_is_not_retried_and_gives_advice() {
    let corpus = Corpus::new(80, 30);
    let s3 = &corpus.s3;
    let url = s3.url("in");
    let refused = |changes: &[(&str, &str)], input: &str, output: &str, code: i32, parts: &[&str]| {
        let before = s3.faults.requests("").len();
        let input = format!("source.url={input:?}");
        let ended = run_to(&changed(s3, changes), &corpus.job, output, &["--set", &input]);
        let asked = s3.faults.requests("").len() - before;
        assert!(asked <= 8, "{asked} requests although each is refused");
        ended.refused(code, parts);
    };
    let out = s3.url("out");
    let wrong = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    refused(&wrong, &url, &out, 3, &["AWS_SECRET_ACCESS_KEY", "s3://data/in"]);
    refused(&[("AWS_ACCESS_KEY_ID", "nobody")], &url, &out, 3, &["AWS_ACCESS_KEY_ID", "s3://data/in"]);
    refused(&[("AWS_ACCESS_KEY_ID", "")], &url, &out, 2, &["AWS_ACCESS_KEY_ID is not"]);
    refused(&[("AWS_ALLOW_HTTP", "")], &url, &out, 2, &["AWS_ALLOW_HTTP=true"]);
    refused(&[], "s3://nowhere/in", &out, 3, &["no bucket `nowhere`", "NoSuchBucket"]);
    refused(&[], &url, "s3://nowhere/out", 3, &["no bucket `nowhere`"]);
    refused(&[], "gs://bucket/in", &out, 2, &["--features gcs"]);
    refused(&[], &url, "abfss://c@account.dfs.core.windows.net/out", 2, &["--features azure"]);
    refused(&[], "ftp://host/in", &out, 2, &["s3://"]);
}

/// Faults, each with whether Ballista runs a task again that meets it: it does for what may pass, and for nothing else.
fn transient_and_lasting() -> Vec<(Fault, bool)> {
    let transient = [Fault::Unavailable, Fault::Cut(0), Fault::Silent].map(|fault| (fault, true));
    transient.into_iter().chain([(Fault::Answer(403, REFUSED.to_owned()), false)]).collect()
}

/// Runs a plan under each of these faults of the requests that have `part` in them. The error names an object with `named` in its URL.
async fn check_tasks(
    (s3, context): (&S3, &SessionContext),
    (part, named): (&str, &str),
    faults: &[(Fault, bool)],
    plan: impl AsyncFn() -> Arc<dyn ExecutionPlan>,
) {
    for (fault, retryable) in faults {
        let plan = plan().await;
        s3.faults.add(part, usize::MAX, fault.clone());
        let error = collect(plan, context.task_ctx()).await.unwrap_err();
        s3.faults.clear();
        let said = format!("{error} {error:?}");
        let again = FailedTask::from(BallistaError::from(error)).retryable;
        assert_eq!(again, *retryable, "{part}, {fault:?}: {said}");
        assert!(said.contains(named), "{part}, {fault:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_pass_is_an_error_for_which_a_task_is_run_again() {
    let s3 = S3::start();
    let context = session_of(&changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "0")]));
    let mut faults = transient_and_lasting();
    faults.push((Fault::Answer(404, "<Error><Code>NoSuchKey</Code></Error>".into()), false));
    for (i, format) in formats(&corpus(3, 200, 60)).iter().enumerate() {
        format.put(&s3, &format!("in{i}"));
        let job = resolved(&format.source(&s3.url(&format!("in{i}"))));
        let read = source::open(&context, &job.source).await.unwrap().frame;
        let plan = async || read.clone().create_physical_plan().await.unwrap();
        let (part, named) = (format!("GET /data/in{i}/"), format!("s3://data/in{i}/"));
        check_tasks((&s3, &context), (&part, &named), &faults, plan).await;
    }
}

/// Numbers in which there is nothing to compress, which are written to `s3://data/out/numbers`.
async fn numbers(context: &SessionContext, rows: u64) -> Arc<dyn ExecutionPlan> {
    let scattered = format!("SELECT CAST(value * 2654435761 AS BIGINT UNSIGNED) AS n FROM range({rows})");
    let input = context.sql(&scattered).await.unwrap().create_physical_plan().await.unwrap();
    let target = TableTarget {
        table: "numbers".into(),
        folder: "numbers".into(),
        rows: TableRows::All,
        schema: Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, true)])),
        carried: 0,
    };
    let write = Write {
        store_url: "s3://data/".into(),
        root: "out".into(),
        attempt: Attempt::random(),
        targets: vec![target],
        parts: None,
    };
    OperatorExec::plan(write, vec![Arc::new(CoalescePartitionsExec::new(input))]).unwrap()
}

const REFUSED: &str = "<Error><Code>AccessDenied</Code></Error>";

const WRITTEN: &str = "s3://data/out/numbers/part-";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_for_what_is_written() {
    let s3 = S3::start();
    let context = session_of(&changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "0")]));
    let faults = [(Fault::Unavailable, true), (Fault::Answer(403, REFUSED.to_owned()), false)];
    for (rows, part) in
        [(1_000, "PUT /data/out/"), (2_000_000, "partNumber=2"), (2_000_000, "POST /data/out/")]
    {
        let plan = async || numbers(&context, rows).await;
        check_tasks((&s3, &context), (part, WRITTEN), &faults, plan).await;
    }
    let refused = 2;
    let begun = s3.faults.requests("?uploads").len() - refused;
    assert!(begun > 0);
    let all_given_up = async {
        while s3.faults.requests("DELETE /data/out/").len() < begun {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, all_given_up).await.expect("uploads that failed are given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_for_the_tables_between_the_stages() {
    let s3 = S3::start();
    let context = session_of(&changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "0")]));
    let plan = numbers(&context, 200_000).await;
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, true)]));
    let written = collect(plan, context.task_ctx()).await.unwrap();
    let files: Vec<File> = written.iter().flat_map(|batch| File::read_rows(batch).unwrap()).collect();
    let output = Layout::open(&context, "s3://data/out").unwrap();
    let plan = async || {
        let frame = read::frame(&context, &output, &files, Arc::clone(&schema)).unwrap();
        frame.create_physical_plan().await.unwrap()
    };
    check_tasks((&s3, &context), ("GET /data/out/", WRITTEN), &transient_and_lasting(), plan).await;
}
