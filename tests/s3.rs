//! S3 over real HTTP: reading, writing, faults, and what must never be said.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use crate::support::s3::{ACCESS_KEY, BUCKET, Fault, S3, SECRET_KEY};

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

/// What the other tests rest on: the server is S3 enough, and fails when it is told to.
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
