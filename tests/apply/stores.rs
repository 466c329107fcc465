//! From a bucket to a bucket, and from stories to Parquet.

use super::*;
use crate::support::s3::{Fault, S3};

#[test]
fn a_bucket_is_read_and_written() {
    let s3 = S3::start();
    let documents = corpus(20, 200, 20);
    let lines = |part: &[Document]| -> Vec<String> {
        part.iter().map(|(id, text)| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n")).collect()
    };
    let names = ["day=1/a b%20.jsonl", "day=2/c.jsonl"];
    for (name, part) in names.into_iter().zip(documents.chunks(100)) {
        s3.put(&format!("in/{name}"), lines(part).concat());
    }
    let command = |arguments: &[&str]| resemblance().envs(s3.env()).args(arguments).assert().shown(&[]);
    let folder = tempdir().unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(&job, job_text_of("jsonl", s3.url("in/"), s3.url("out/"))).unwrap();
    command(&["run", job.to_str().unwrap()]);
    let (from, to) = (s3.url("out/"), s3.url("to/"));
    let printed: Value = serde_json::from_str(&command(&["apply", &from, "--to", &to, "--json"])).unwrap();
    let clusters = table(&s3.file("out"), "clusters");
    let flags = clusters.column_by_name("representative").unwrap();
    let flags = AsArray::as_boolean(flags);
    let gone: BTreeSet<String> = strings(&clusters, "id")
        .into_iter()
        .zip(flags)
        .filter(|(_, kept)| *kept == Some(false))
        .map(|(id, _)| id)
        .collect();
    assert!(gone.len() > 20);
    assert_eq!(printed["removed"], gone.len());
    for (name, part) in names.into_iter().zip(documents.chunks(100)) {
        let kept: Vec<Document> = part.iter().filter(|(id, _)| !gone.contains(id)).cloned().collect();
        let found = std::fs::read_to_string(s3.file(&format!("to/{name}"))).unwrap();
        assert_eq!(found, lines(&kept).concat(), "{name}");
    }
    result(&s3.file("to"));
    let again: Value = serde_json::from_str(&command(&["apply", &from, "--to", &to, "--json"])).unwrap();
    assert_eq!(again["already_finished"], true);
    // A bucket's folder that holds something else.
    s3.put("full/notes.txt", "somebody's");
    let full = s3.url("full/");
    resemblance().envs(s3.env()).args(["apply", &from, "--to", &full]).assert().code(2);
    assert_eq!(s3.keys("full/").len(), 1);
}

/// A file that cannot be put ends the command. The next one takes what is there, and puts the rest.
#[test]
fn apply_resumes_after_a_bucket_refused_a_file() {
    let s3 = S3::start();
    let documents = corpus(23, 100, 20);
    for (name, part) in ["one", "two"].into_iter().zip(documents.chunks(50)) {
        let line = |(id, text): &Document| format!("{id},{text}\n");
        let lines: String = part.iter().map(line).collect();
        s3.put(&format!("in/{name}.csv"), format!("id,text\n{lines}"));
    }
    let folder = tempdir().unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(&job, job_text_of("csv", s3.url("in/"), s3.url("out/"))).unwrap();
    resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
    let (from, to) = (s3.url("out"), s3.url("to"));
    let apply = || resemblance().envs(s3.env()).args(["apply", &from, "--to", &to]).assert();
    s3.faults.add("PUT /data/to/two.csv", usize::MAX, Fault::Answer(403, String::new()));
    apply().refused(3, &["to/two.csv"]);
    assert!(
        s3.keys("to/").contains_key("to/one.csv")
            && !s3.keys("to/").contains_key("to/_resemblance/manifest.json")
    );
    s3.faults.clear();
    apply().success();
    assert_eq!(s3.faults.requests("PUT /data/to/one.csv").len(), 1);
    result(&s3.file("to"));
}
