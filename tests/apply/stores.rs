//! From a bucket to a bucket.

use super::*;

/// A file that cannot be put ends the command. The next one takes what is there, and puts the rest. Unrecorded files equal the files
/// of the next attempt, or they are refused.
#[test]
fn apply_resumes_after_a_bucket_refused_a_file_and_replaces_no_file_of_somebody_else() {
    let s3 = S3::start();
    let documents = corpus(23, 100, 20);
    for (name, part) in ["day=1/a b%20", "two"].into_iter().zip(documents.chunks(50)) {
        let line = |(id, text): &Document| format!("{id},{text}\n");
        let lines: String = part.iter().map(line).collect();
        s3.put(&format!("in/{name}.csv"), format!("id,text\n{lines}"));
    }
    let folder = tempdir().unwrap();
    let job = write_file(&folder, "job.toml", job_text_of("csv", s3.url("in/"), s3.url("out/")));
    resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
    let (from, to) = (s3.url("out"), s3.url("to"));
    let apply = || resemblance().envs(s3.env()).args(["apply", &from, "--to", &to]).assert();
    s3.faults.add("PUT /data/to/two.csv", usize::MAX, Fault::Answer(403, String::new()));
    apply().refused(3, &["to/two.csv"]);
    assert!(s3.keys("to/").contains_key("to/day=1/a b%20.csv"));
    assert!(!s3.keys("to/").contains_key("to/_resemblance/manifest.json"));
    s3.faults.clear();
    // Another file comes between the look at the name and the put.
    s3.faults.add("PUT /data/to/two.csv", 1, Fault::Put("to/two.csv".into(), b"mine".to_vec()));
    apply().refused(3, &["two.csv is there already and holds other bytes"]);
    assert_eq!((s3.faults.left(), std::fs::read(s3.file("to/two.csv")).unwrap()), (0, b"mine".to_vec()));
    std::fs::remove_file(s3.file("to/two.csv")).unwrap();
    apply().success();
    assert_eq!(s3.faults.requests("PUT /data/to/day").len(), 1);
    result(&s3.file("to"));
    apply().shown(&["is finished already"]);
    s3.put("full/notes.txt", "somebody's");
    resemblance().envs(s3.env()).args(["apply", &from, "--to", &s3.url("full")]).assert().code(2);
    assert_eq!(s3.keys("full/").len(), 1);
}
