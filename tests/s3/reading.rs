//! Listing and reading.

use resemblance::source;

use super::*;

/// Also where each file's connection is cut, and cut again when it is taken up; and where the body of a range is shorter than announced.
/// The head of a range names its end; only the length tells the end of a whole object.
#[test]
fn every_format_gives_the_rows_of_a_local_run() {
    let s3 = S3::start();
    for (i, format) in formats(&corpus(3, 60, 30)).iter().enumerate() {
        let folder = tempdir().unwrap();
        let local = format.run_locally(folder.path());
        let job = format.put_with_job(&s3, &format!("in{i}"), folder.path());
        for (count, fault) in [(5, Fault::Cut(71)), (2, Fault::Resize(-7))] {
            if matches!(fault, Fault::Resize(_)) && format.name != "parquet" {
                continue;
            }
            s3.faults.add(&format!("GET /data/in{i}/"), count, fault);
            let out = format!("out{i}-{count}");
            run_to(&s3.env(), &job, &s3.url(&out), &[]).shown(&[]);
            assert_eq!(answers(&s3.file(&out)), answers(&local), "{}", format.files[0].0);
            assert!(pairs(&s3.file(&out)).len() > 10);
            assert_eq!(s3.faults.left(), 0);
        }
    }
}

#[tokio::test]
async fn prefixes_patterns_and_odd_keys_are_listed_as_they_are_written() {
    let s3 = S3::start();
    let keys =
        ["in/a b.txt", "in/a%20b.txt", "in/c+d&e=f.txt", "in/deep/x[1].txt", "in/deep/ä ö.txt", "inn/no.txt"];
    for key in keys {
        s3.put(key, key);
    }
    let context = session_of(&s3.env());
    let list = async |url: &str| {
        let job = resolved(&format!("format = \"text\"\nurl = {url:?}"));
        let listed = source::list(&context, &job.source).await;
        listed.map(|listed| listed.inputs().into_iter().map(|file| file.path).collect::<Vec<_>>())
    };
    let under = |keys: &[&str]| keys.iter().map(|key| s3.url(key)).collect::<Vec<_>>();
    assert_eq!(list("s3://data/in").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data/in/").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data").await.unwrap(), under(&keys));
    assert_eq!(list("s3://data/").await.unwrap(), under(&keys));
    assert_eq!(list("s3://data/in/*.txt").await.unwrap(), under(&keys[..3]));
    assert_eq!(list("s3://data/in/**/*.txt").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data/*/deep").await.unwrap(), under(&keys[3..5]));
    for key in keys {
        assert_eq!(list(&s3.url(key)).await.unwrap(), under(&[key]));
        let job = resolved(&format!("format = \"text\"\nurl = {:?}", s3.url(key)));
        let read = source::open(&context, &job.source).await.unwrap().frame;
        let rows = read.select_columns(&["text"]).unwrap().to_string().await.unwrap();
        assert!(rows.contains(key), "{rows}");
    }
    let said = list("s3://data/nothing").await.unwrap_err().to_string();
    assert!(said.contains("there is no file under `s3://data/nothing`"), "{said}");
}

#[tokio::test]
async fn more_objects_than_one_answer_lists_are_all_listed() {
    let s3 = S3::start();
    for i in 0..1_203 {
        s3.put(&format!("in/{i:05}.txt"), "x");
    }
    // The second answer breaks off, and is asked for again.
    s3.faults.add("continuation-token", 1, Fault::Cut(100));
    let job = resolved("format = \"text\"\nurl = \"s3://data/in\"");
    let listed = source::list(&session_of(&s3.env()), &job.source).await.unwrap().inputs();
    assert_eq!(listed.len(), 1_203);
    assert_eq!(s3.faults.left(), 0);
}

/// The second day reads the tags of all documents of the first, and the signatures of few.
#[test]
fn the_second_day_reads_few_bytes_of_the_first() {
    let (s3, folder) = (S3::start(), tempdir().unwrap());
    // Each document has twelve words of its own.
    let document = |at: usize, more: &str| {
        let words: Vec<String> = (0..12).map(|word| format!("w{}", at * 12 + word)).collect();
        (format!("{at:05}{more}"), format!("{}{more}", words.join(" ")))
    };
    let first: Vec<Document> = (0..20_000).map(|at| document(at, "")).collect();
    let changed = (7_000..7_005).map(|at| document(at, " more"));
    let second = changed.chain((30_000..30_050).map(|at| document(at, ""))).collect();
    let bytes = || s3.faults.bytes("GET /data/first/documents/");
    let mut before = 0;
    for (name, documents) in [("first", first), ("second", second)] {
        let source = folder.path().join(format!("{name}.parquet"));
        write_parquet(&source, &documents, 5_000);
        let source = format!("format = \"parquet\"\nurl = {source:?}\nid = \"id\"\ntext = \"text\"");
        let job = job_file(folder.path(), &source);
        let against = format!("against.output=['{}']", s3.url("first"));
        let sets = ["--set", "lsh.bands=8", "--set", "lsh.rows=8", "--set", against.as_str()];
        before = bytes();
        run_to(&s3.env(), &job, &s3.url(name), &sets[..if name == "first" { 4 } else { 6 }]).shown(&[]);
    }
    assert!(pairs(&s3.file("second")).len() > 2);
    let (read, stored) = (bytes() - before, s3.keys("first/documents/").values().sum::<u64>());
    assert!(read > 20_000 * 36 && 2 * read < stored, "{read} of {stored} bytes");
}
