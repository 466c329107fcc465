//! Two runs at once onto one output of a server that takes no notice of `If-None-Match`.

use object_store::{ObjectStoreExt, PutMode};

use super::*;
use crate::support::garage::{BUCKET, Garage};

/// Every file that the manifest names is there with its size and its rows.
async fn check(store: &dyn ObjectStore, output: &str, pairs: u64) {
    let path = |inside: &str| object_store::path::Path::from(format!("{output}/{inside}"));
    let manifest = store.get(&path("manifest.json")).await.unwrap().bytes().await.unwrap();
    let manifest: Run = serde_json::from_slice(&manifest).unwrap();
    for (name, table) in &manifest.tables {
        let mut rows = 0;
        for file in &table.files {
            let got = store.get(&path(&file.path)).await;
            let got = got.unwrap_or_else(|e| panic!("{output}: {} of {name} is gone: {e}", file.path));
            let bytes = got.bytes().await.unwrap();
            assert_eq!(bytes.len() as u64, file.bytes, "{output}/{}", file.path);
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
            rows += reader.metadata().file_metadata().num_rows() as u64;
        }
        assert_eq!(rows, table.rows, "{output}: {name}");
    }
    assert_eq!(manifest.tables["pairs"].rows, pairs, "{output}");
}

/// Shows the peculiarity of this server: a put if absent succeeds although the object exists.
async fn puts_without_the_condition(store: &dyn ObjectStore) {
    let once = object_store::path::Path::from("once");
    for _ in 0..2 {
        let put = store.put_opts(&once, "x".into(), PutMode::Create.into()).await;
        if let Err(error) = put {
            eprintln!("this Garage takes notice of If-None-Match: {error}");
        }
    }
}

#[test]
fn two_runs_at_once_lose_no_file() {
    let Some(program) = needs::garage() else { return };
    let garage = Garage::start(&program);
    let store = store(&garage.env());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(puts_without_the_condition(store.as_ref()));

    let folder = tempdir().unwrap();
    let file = folder.path().join("in.parquet");
    write_parquet(&file, &corpus(5, 1_500, 40), 100);
    let local = folder.path().join("local");
    run(&job(&file, &local, &[])).unwrap();
    let pairs = manifest(&local).tables["pairs"].rows;
    let job_file = folder.path().join("job.toml");
    let text = job_text(&file, SET_BY_THE_TEST);
    std::fs::write(&job_file, text).unwrap();

    for round in 0..3 {
        let output = format!("out{round}");
        let url = format!("s3://{BUCKET}/{output}");
        let both = ["one", "two"].map(|name| {
            let mut command = started(&garage.env(), &job_file, &url);
            Process::start(&format!("{name}{round}"), &mut command, folder.path())
        });
        let mut succeeded = 0;
        for mut run in both {
            let status = run.wait(DEADLINE);
            match status.code() {
                Some(0) => succeeded += 1,
                // The other one owns the output, and this one says so.
                Some(2..=4) => assert!(run.said().contains(&output), "{}", run.said()),
                _ => panic!("{status}: {}", run.said()),
            }
        }
        assert!(succeeded > 0, "both runs onto {url} failed");
        runtime.block_on(check(store.as_ref(), &output, pairs));
    }
}
