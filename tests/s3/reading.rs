//! Listing and reading.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use resemblance::source;

use super::*;
use crate::support::s3::{ACCESS_KEY, SECRET_KEY};

fn client(s3: &S3) -> Arc<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_bucket_name(BUCKET)
        .with_region("us-east-1")
        .with_endpoint(&s3.endpoint)
        .with_allow_http(true)
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(SECRET_KEY)
        .build();
    Arc::new(store.unwrap())
}

/// The assumption of the other tests: the server behaves like S3, and fails when it is set to.
#[tokio::test]
async fn the_server_of_the_tests_is_one() {
    let s3 = S3::start();
    let store = client(&s3);
    let key = Path::from("a/b c.txt");
    store.put(&key, Bytes::from_static(b"0123456789").into()).await.unwrap();
    assert_eq!(std::fs::read(s3.file("a/b c.txt")).unwrap(), b"0123456789");
    assert_eq!(store.get_range(&key, 2..5).await.unwrap(), Bytes::from_static(b"234"));
    let listed: Vec<_> = store.list(Some(&Path::from("a"))).try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(matches!(store.head(&Path::from("a")).await, Err(object_store::Error::NotFound { .. })));

    let create = |n: u8| {
        let store = Arc::clone(&store);
        async move {
            store.put_opts(&Path::from("once"), Bytes::from(vec![n]).into(), PutMode::Create.into()).await
        }
    };
    let won = futures::future::join_all((0..8).map(create)).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(won, 1, "of eight who create one object");

    s3.faults.add("GET /data/a/", 1, Fault::Cut(4));
    s3.faults.add("GET /data/a/", 1, Fault::Unavailable);
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), Bytes::from_static(b"0123456789"));
    assert_eq!(s3.faults.left(), 0);
}

/// Also where each file's connection is cut, and cut again when it is taken up.
#[test]
fn every_format_gives_the_rows_of_a_local_run() {
    let s3 = S3::start();
    let documents = corpus(3, 60, 30);
    for (i, format) in formats(&documents).iter().enumerate() {
        let folder = tempdir().unwrap();
        let local = format.run_locally(folder.path());

        format.put(&s3, &format!("in{i}"));
        let job = job_file(folder.path(), &format.source(&s3.url(&format!("in{i}"))));
        s3.faults.add(&format!("GET /data/in{i}/"), 5, Fault::Cut(71));
        run_to(&s3.env(), &job, &s3.url(&format!("out{i}")), &[]).shown(&[]);
        let output = s3.file(&format!("out{i}"));
        assert_eq!(answers(&output), answers(&local), "{}", format.files[0].0);
        assert!(pairs(&output).len() > 10);
        assert_eq!(s3.faults.left(), 0);
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
