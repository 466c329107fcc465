//! `apply` on a cluster: the files are those that one process writes, also where an executor dies.

use std::collections::BTreeMap;
use std::path::Path;

use super::QUIET;
use crate::support::cluster::{Cluster, Setup};
use crate::support::s3::S3;
use crate::support::*;

/// The files of a result by their paths, but for its manifest and for tables, whose names and cut follow from the engine.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in walk(folder) {
        let inside = entry.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        if inside.starts_with("kept/") || inside.starts_with("rejected/") {
            found.insert(inside, std::fs::read(entry).unwrap());
        }
    }
    found
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// What a manifest says of the files of the source.
fn told(folder: &Path) -> serde_json::Value {
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let counts = manifest["counts"].take();
    serde_json::json!({ "counts": counts, "files": manifest["files"].take() })
}

/// Ids of the documents that are gone, with what stands for them.
fn removed(folder: &Path) -> BTreeMap<String, String> {
    let mut removed = BTreeMap::new();
    for path in walk(&folder.join("removed")) {
        let file = std::fs::File::open(path).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            removed.extend(strings(&batch, "id").into_iter().zip(strings(&batch, "kept_id")));
        }
    }
    removed
}

/// Writes documents as files of a format, in partition folders.
fn source(folder: &Path, format: &str, documents: &[Document]) {
    for (number, part) in documents.chunks(90).enumerate() {
        let inside = folder.join(format!("day={number}"));
        std::fs::create_dir_all(&inside).unwrap();
        match format {
            "parquet" => write_parquet(&inside.join("a b%20.parquet"), part, 40),
            "jsonl" => {
                let line = |(id, text): &Document| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
                std::fs::write(inside.join("a.jsonl"), part.iter().map(line).collect::<String>()).unwrap();
            }
            _ => {
                let line = |(id, text): &Document| format!("{id},\"{text}\"\n");
                let lines = part.iter().map(line).collect::<String>();
                std::fs::write(inside.join("a.csv"), format!("id,text\n{lines}")).unwrap();
            }
        }
    }
}

/// Applies an output in this process.
fn alone(output: &Path, to: &Path, options: &[&str]) {
    resemblance().arg("apply").arg(output).arg("--to").arg(to).args(options).assert().success();
}

#[test]
fn applied_by_a_cluster_files_are_those_of_one_process() {
    let mut cluster = Cluster::start();
    let folder = cluster.folder().to_owned();
    let mut documents = corpus(61, 400, 30);
    // Too short to be compared.
    documents.extend((0..9).map(|i| (format!("short{i}"), "two words".to_owned())));
    for format in ["parquet", "csv", "jsonl"] {
        let (input, output) = (folder.join(format), folder.join(format!("out-{format}")));
        source(&input, format, &documents);
        let job = folder.join("job.toml");
        std::fs::write(&job, job_text_of(format, input.join(""), &output)).unwrap();
        resemblance().arg("run").arg(&job).assert().success();
        for (at, options) in [&["--rejects", "apart"][..], &["--annotate"]].into_iter().enumerate() {
            let (expected, to) =
                (folder.join(format!("{format}{at}-alone")), folder.join(format!("{format}{at}")));
            alone(&output, &expected, options);
            let [from, to_url] = [&output, &to].map(|path| path.display().to_string());
            cluster.apply(&from, &to_url, options).succeed(QUIET);
            assert!(files(&expected).len() >= 5);
            assert!(files(&to) == files(&expected), "{format} {options:?}");
            assert_eq!(told(&to), told(&expected), "{format} {options:?}");
            if at == 0 {
                assert!(removed(&to).len() > 20);
                assert_eq!(removed(&to), removed(&expected), "{format}");
            }
            // It is finished, wherever the command runs.
            let again = cluster.apply(&from, &to_url, options).succeed(QUIET);
            assert_eq!(again["already_finished"], true);
        }
    }
    an_executor_dies_while_it_writes(&mut cluster, &folder);
}

/// Text files, of which there are enough that an executor is found in the midst of them.
fn an_executor_dies_while_it_writes(cluster: &mut Cluster, folder: &Path) {
    let (input, output) = (folder.join("texts"), folder.join("out-texts"));
    std::fs::create_dir(&input).unwrap();
    for (id, text) in corpus(62, 1_500, 8) {
        std::fs::write(input.join(format!("{id}.txt")), text).unwrap();
    }
    let job = folder.join("texts.toml");
    std::fs::write(&job, job_text_of("text", &input, &output).replace("id = \"id\"\ntext = \"text\"\n", ""))
        .unwrap();
    resemblance().arg("run").arg(&job).assert().success();
    let (expected, to) = (folder.join("texts-alone"), folder.join("texts-applied"));
    alone(&output, &expected, &[]);
    let mut driver = cluster.apply(&output.display().to_string(), &to.display().to_string(), &[]);
    let place = cluster.kill_in_a_task("rewrite", &mut driver);
    driver.succeed(QUIET);
    cluster.start_executor(place);
    assert!(files(&to) == files(&expected));
    assert_eq!(told(&to), told(&expected));
    assert_eq!(removed(&to), removed(&expected));
}

#[test]
fn from_bucket_to_bucket() {
    let s3 = S3::start();
    let cluster = Cluster::with(Setup { environment: s3.env(), ..Setup::default() });
    let input = cluster.folder().join("in");
    source(&input, "parquet", &corpus(63, 300, 20));
    for path in walk(&input) {
        let inside = path.strip_prefix(&input).unwrap().to_str().unwrap();
        s3.put(&format!("in/{inside}"), std::fs::read(&path).unwrap());
    }
    let job = cluster.folder().join("job.toml");
    std::fs::write(&job, job_text(s3.url("in/"), s3.url("out/"))).unwrap();
    resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
    let (from, expected) = (s3.url("out/"), s3.url("alone/"));
    resemblance().envs(s3.env()).args(["apply", &from, "--to", &expected]).assert().success();
    cluster.apply(&from, &s3.url("to/"), &[]).succeed(QUIET);
    assert!(files(&s3.file("to")) == files(&s3.file("alone")));
    assert_eq!(told(&s3.file("to")), told(&s3.file("alone")));
    assert!(removed(&s3.file("to")).len() > 20);
}
