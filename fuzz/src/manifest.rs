//! Manifests: the JSON of a finished output, whose tables are then read.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use resemblance::error::{Error, Kind};
use resemblance::lookup::Finished;
use resemblance::schema::Table;

use super::reading::{RUNTIME, causes, store_of};

/// An output is opened and read, or refused, and nothing outside of it is touched.
pub fn check(bytes: &[u8]) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (session, url) = store_of(bytes, "out/manifest.json", |inner| {
        Arc::new(Recording { inner, asked: Arc::clone(&asked) })
    });
    let output = url.trim_end_matches("/manifest.json");
    RUNTIME.block_on(async {
        let finished = match Finished::open(&session, output).await {
            Ok(finished) => finished,
            Err(error) => return answered(&error),
        };
        for table in Table::ALL {
            // The dictionary is seldom there.
            if table == Table::Dictionary && !finished.manifest().tables.contains_key(table.name()) {
                continue;
            }
            match finished.table(table) {
                Ok(frame) => {
                    if let Err(error) = frame.collect().await {
                        answered(&Error::from(error));
                    }
                }
                Err(error) => answered(&error),
            }
        }
    });
    let (_, inside) = output.split_once("//").and_then(|(_, rest)| rest.split_once('/')).expect("a URL");
    for path in asked.lock().expect("one thread asks at a time").iter() {
        let below = path.strip_prefix(inside).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        assert!(
            below && !path.split('/').any(|part| part == ".."),
            "{path} was asked for, outside of {inside}"
        );
    }
}

/// No manifest may cause an error of another kind.
fn answered(error: &Error) {
    assert!(matches!(error.kind(), Kind::Job | Kind::Input), "{}: {}", error.kind().name(), causes(error));
}

/// A store that notes what it is asked for.
#[derive(Debug)]
struct Recording {
    inner: Arc<InMemory>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Recording {
    fn note(&self, path: &Path) {
        self.asked.lock().expect("one thread asks at a time").push(path.to_string());
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Recording {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.note(path);
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.note(path);
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.note(path);
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.note(prefix.unwrap_or(&Path::default()));
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.note(prefix.unwrap_or(&Path::default()));
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.note(from);
        self.note(to);
        self.inner.copy_opts(from, to, options).await
    }
}
