//! Answers that begin and break off, of every kind that the client does not ask for again by itself.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    Error, MultipartUpload, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, UpdateVersion,
};

use super::*;

const PART: usize = 5 << 20;

/// Bytes that do not repeat, so that a wrong range is noticed.
fn bytes(count: usize) -> Bytes {
    let mut random = Random(7);
    (0..count.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(count).collect::<Vec<u8>>().into()
}

/// An upload of two parts, which is not completed yet.
async fn begun(
    store: &dyn ObjectStore,
    key: &str,
    whole: &Bytes,
) -> object_store::Result<Box<dyn MultipartUpload>> {
    let mut upload = store.put_multipart_opts(&Key::from(key), PutMultipartOptions::default()).await?;
    upload.put_part(whole.slice(..PART).into()).await?;
    upload.put_part(whole.slice(PART..).into()).await?;
    Ok(upload)
}

/// The place where an answer is cut: before it, after its head, or in its body.
fn breaks() -> [Fault; 3] {
    [Fault::Silent, Fault::Cut(0), Fault::Cut(20)]
}

#[tokio::test]
async fn an_upload_is_begun_and_completed_although_the_answers_break_off() {
    let s3 = S3::start();
    let (store, whole) = (store(&s3.env()), bytes(PART + 1_000));
    for (i, fault) in breaks().into_iter().enumerate() {
        let key = format!("begun{i}");
        s3.faults.add(&format!("POST /data/{key}?uploads"), 2, fault.clone());
        let mut upload = begun(store.as_ref(), &key, &whole).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(s3.faults.left(), 0, "{fault:?}");
        assert_eq!(std::fs::read(s3.file(&key)).unwrap(), whole, "{fault:?}");
    }
    for (i, fault) in breaks().into_iter().enumerate() {
        let key = format!("completed{i}");
        let mut upload = begun(store.as_ref(), &key, &whole).await.unwrap();
        s3.faults.add(&format!("POST /data/{key}?uploadId"), 1, fault.clone());
        let put = upload.complete().await.unwrap();
        assert!(put.e_tag.is_some(), "{fault:?}");
        assert_eq!(s3.faults.left(), 0, "{fault:?}");
        // Asked a second time, the store knew no such upload; then the object was looked at.
        assert_eq!(s3.faults.requests(&format!("POST /data/{key}?uploadId")).len(), 2, "{fault:?}");
        assert_eq!(s3.faults.requests(&format!("GET /data/{key}")).len(), 1, "{fault:?}");
        assert_eq!(std::fs::read(s3.file(&key)).unwrap(), whole, "{fault:?}");
    }
}

/// Also where no repeated request is answered; and where the object is another one, or is not there, it stays an error.
#[tokio::test]
async fn an_upload_is_completed_where_the_object_has_its_bytes_and_nowhere_else() {
    let s3 = S3::start();
    let store = store(&changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "0")]));
    let whole = bytes(PART + 1_000);
    let mut other = whole.to_vec();
    other[PART] ^= 1;
    let (same, longer) = (whole.to_vec(), [&whole[..], b"more"].concat());
    for (name, there, completed) in [
        ("same", Some(same), true),
        ("other", Some(other), false),
        ("longer", Some(longer), false),
        ("none", None, false),
    ] {
        let mut upload = begun(store.as_ref(), name, &whole).await.unwrap();
        if let Some(there) = there {
            s3.put(name, there);
        }
        s3.faults.add(&format!("POST /data/{name}?uploadId"), usize::MAX, Fault::Unavailable);
        let ended = upload.complete().await;
        s3.faults.clear();
        match completed {
            true => drop(ended.unwrap()),
            false => {
                let said = ended.unwrap_err().to_string();
                assert!(said.contains(name) && said.contains("503 SlowDown"), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn objects_are_removed_although_the_answer_breaks_off() {
    let s3 = S3::start();
    let store = store(&s3.env());
    for (i, fault) in breaks().into_iter().enumerate() {
        let keys: Vec<_> = (0..3).map(|j| format!("gone{i}/{j}")).collect();
        keys.iter().for_each(|key| s3.put(key, "x"));
        s3.faults.add("POST /data?delete", 2, fault.clone());
        let paths = keys.iter().map(|key| Ok(Key::from(key.as_str()))).collect::<Vec<_>>();
        let removed = store.delete_stream(futures::stream::iter(paths).boxed());
        assert_eq!(removed.try_collect::<Vec<_>>().await.unwrap().len(), 3, "{fault:?}");
        assert_eq!(s3.faults.left(), 0, "{fault:?}");
        assert!(s3.keys(&format!("gone{i}")).is_empty(), "{fault:?}");
    }
}

/// A 404 is what tells a first run from a second one, and a 412 which of two writers came first.
#[tokio::test]
async fn refusals_that_break_off_are_the_refusals_that_they_were() {
    let s3 = S3::start();
    let store = store(&s3.env());
    s3.put("there", "old");
    let there = Key::from("there");
    for fault in breaks() {
        s3.faults.add("GET /data/nowhere", 2, fault.clone());
        let error = store.get(&Key::from("nowhere")).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{fault:?}: {error}");

        s3.faults.add("PUT /data/there", 2, fault.clone());
        let put = |mode: PutMode| store.put_opts(&there, "new".into(), PutOptions::from(mode));
        let error = put(PutMode::Create).await.unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }), "{fault:?}: {error}");

        s3.faults.add("PUT /data/there", 2, fault.clone());
        let stale =
            UpdateVersion { e_tag: Some("\"00000000000000000000000000000000\"".into()), version: None };
        let error = put(PutMode::Update(stale)).await.unwrap_err();
        assert!(matches!(error, Error::Precondition { .. }), "{fault:?}: {error}");
        assert_eq!(s3.faults.left(), 0, "{fault:?}");
        assert_eq!(std::fs::read(s3.file("there")).unwrap(), b"old");
    }
}

#[tokio::test]
async fn an_answer_that_always_breaks_off_is_an_error_of_the_storage() {
    let s3 = S3::start();
    let store = store(&changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "1")]));
    for part in ["POST /data/a?uploads", "POST /data?delete", "GET /data/a"] {
        s3.faults.add(part, usize::MAX, Fault::Cut(10));
        let key = Key::from("a");
        let error = match part {
            "GET /data/a" => store.get(&key).await.err(),
            "POST /data?delete" => store.delete(&key).await.err(),
            _ => store.put_multipart_opts(&key, PutMultipartOptions::default()).await.err(),
        };
        s3.faults.clear();
        let said = error.unwrap().to_string();
        assert!(said.contains("s3://data") && said.contains("run again later"), "{part}: {said}");
        assert!(s3.faults.requests(part).len() > 1, "{part} was asked for once");
    }
}
