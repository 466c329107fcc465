//! An object that is replaced after it was listed is not read under the name of the old one.

use resemblance::error::Error;
use resemblance::source;

use super::*;

/// The bytes in another order: only the e_tag differs.
fn other(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let last = bytes.len() - 1;
    bytes.swap(last / 2, last / 2 + 1);
    bytes[last / 3] ^= 1;
    bytes
}

async fn read(context: &SessionContext, job: &Job) -> Result<usize, Error> {
    rows(source::open(context, &job.source).await?).await
}

async fn rows(documents: source::Documents) -> Result<usize, Error> {
    Ok(documents.frame.collect().await?.iter().map(|batch| batch.num_rows()).sum())
}

/// The first object of a format under a prefix, and the requests for it.
fn first_object(format: &Format, prefix: &str) -> (String, String) {
    let key = format!("{prefix}/{}", format.files[0].0);
    let asked = format!("GET /data/{}", key.replace(' ', "%20"));
    (key, asked)
}

/// Before every reading, and between any two of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_replaced_between_listing_and_reading_is_an_error() {
    let s3 = S3::start();
    for (i, format) in formats(&corpus(3, 60, 30)).iter().enumerate() {
        let prefix = format!("in{i}");
        format.put(&s3, &prefix);
        let job = resolved(&format.source(&s3.url(&prefix)));
        let bytes = &format.files[0].1;
        let (key, asked) = first_object(format, &prefix);
        let before = s3.faults.requests(&asked).len();
        read(&session_of(&s3.env()), &job).await.unwrap();
        let readings = s3.faults.requests(&asked).len() - before;
        assert!(readings > 0, "{key}");
        for good in 0..readings {
            // Another time each, or footers are known from before.
            let fresh = session_of(&s3.env());
            s3.put(&key, bytes);
            s3.faults.add(&asked, good, Fault::Pass);
            s3.faults.add(&asked, 1, Fault::Put(key.clone(), other(bytes)));
            let error = read(&fresh, &job).await;
            assert_eq!(s3.faults.left(), 0, "{key} was not replaced before reading {good} of {readings}");
            assert_replaced(error, &s3.url(&key));
        }
    }
}

/// The rest of a body after a broken connection must be of the same object.
#[test]
fn an_object_that_is_replaced_while_it_is_read_is_an_error() {
    let s3 = S3::start();
    let folder = tempdir().unwrap();
    for (i, format) in formats(&corpus(3, 60, 30)).iter().enumerate() {
        let prefix = format!("in{i}");
        let job = format.put_with_job(&s3, &prefix, folder.path());
        let (key, asked) = first_object(format, &prefix);
        s3.faults.add(&asked, 1, Fault::Cut(20));
        s3.faults.add(&asked, 1, Fault::Put(key.clone(), other(&format.files[0].1)));
        run_to(&s3.env(), &job, &s3.url(&format!("out{i}")), &[]).refused(3, &[&s3.url(&key), "replaced"]);
        assert_eq!(s3.faults.left(), 0);
    }
}

/// A file with these bytes, written a minute after the one before.
fn write_later(path: &FsPath, bytes: &[u8]) {
    let before = std::fs::metadata(path).unwrap().modified().unwrap();
    std::fs::write(path, bytes).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(before + Duration::from_secs(60)).unwrap();
}

fn one_partition() -> SessionContext {
    SessionContext::new_with_config(datafusion::prelude::SessionConfig::new().with_target_partitions(1))
}

fn assert_replaced(result: Result<usize, Error>, name: &str) {
    let error = result.expect_err(name);
    assert_eq!(error.kind(), Kind::Input);
    let text = format!("{error:?}");
    assert!(text.contains(name) && text.contains("replaced"), "{text}");
}

#[tokio::test]
async fn a_file_that_is_replaced_between_listing_and_reading_is_an_error() {
    for format in formats(&corpus(3, 60, 30)) {
        let folder = tempdir().unwrap();
        format.write(folder.path());
        let (name, bytes) = &format.files[0];
        let file = folder.path().join(name);
        let job = resolved(&format.source(folder.path().to_str().unwrap()));
        let context = one_partition();
        let listed = source::list(&context, &job.source).await.unwrap();
        let opened = async |context: &SessionContext| {
            source::read(context, &job.source, &listed, source::ReadRequest::all()).await
        };
        assert_eq!(rows(opened(&context).await.unwrap()).await.unwrap(), 60, "{name}");

        // After it was opened: where it is known how long it is, also when it is as long as before.
        let documents = opened(&context).await.unwrap();
        write_later(&file, &other(bytes));
        assert_replaced(rows(documents).await, name);
        // Before.
        let opened = match opened(&one_partition()).await {
            Ok(documents) => rows(documents).await,
            Err(error) => Err(error),
        };
        assert_replaced(opened, name);
        // A new listing takes what is there.
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(read(&one_partition(), &job).await.unwrap(), 60, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_grows_while_it_is_read_is_an_error() {
    use futures::TryStreamExt;
    for format in formats(&corpus(3, 9_000, 8)).into_iter().filter(|format| format.name != "text") {
        let folder = tempdir().unwrap();
        format.write(folder.path());
        let (name, bytes) = &format.files[0];
        let job = resolved(&format.source(folder.path().join(name).to_str().unwrap()));
        let documents = source::open(&one_partition(), &job.source).await.unwrap();
        let mut stream = documents.frame.execute_stream().await.unwrap();
        let first = stream.try_next().await.unwrap().unwrap();
        assert!(first.num_rows() < 4_500, "{name} came in one batch");
        write_later(&folder.path().join(name), &[bytes.as_slice(), b"\n"].concat());
        let rest: Result<Vec<_>, _> = stream.try_collect().await;
        assert_replaced(rest.map(|batches| batches.len()).map_err(Error::from), name);
    }
}
