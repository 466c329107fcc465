//! An S3 server of the tests' own, over real HTTP on 127.0.0.1, which checks signatures and can be made to fail.
//!
//! It runs on a thread with a runtime of its own until it is dropped, so that commands started by a test reach it as
//! well as the test itself. Objects are files in a folder: a test may put some there, and look at what was written.
//!
//! A layer before `s3s-fs` adds the behaviour of S3 that it lacks: a put with `If-None-Match` is atomic, a folder is no object, a
//! listing has e_tags, whole objects have the checksums that are asked for, a missing bucket and a missing object are
//! distinguished, and an upload that is not there is missing instead of forbidden.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use md5::{Digest, Md5};
use s3s::auth::SimpleAuth;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::Crc64Nvme;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

/// The bucket that is there from the start.
pub const BUCKET: &str = "data";
pub const ACCESS_KEY: &str = "AKIDRESEMBLANCETEST";
/// The secret, which no log, error or file may hold.
pub const SECRET_KEY: &str = "hush/S3cr3t+Key/of/the/tests/0123456789";

/// Bytes from which objects go up in parts.
const PART_BYTES: usize = 5 * 1024 * 1024;

pub struct S3 {
    /// Its URL, such as `http://127.0.0.1:34567`.
    pub endpoint: String,
    pub bucket_dir: PathBuf,
    pub faults: Arc<Faults>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    _root: tempfile::TempDir,
}

impl S3 {
    pub fn start() -> S3 {
        let root = tempfile::tempdir().unwrap();
        let bucket_dir = root.path().join(BUCKET);
        std::fs::create_dir(&bucket_dir).unwrap();
        let faults = Arc::new(Faults::default());
        let stop = CancellationToken::new();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let front = Front {
            service: service.build(),
            root: root.path().to_owned(),
            faults: Arc::clone(&faults),
            creating: Arc::default(),
        };
        let (tell, told) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = serve(listener, front) => {}
                }
            });
            runtime.shutdown_background();
        });
        let address = told.recv().unwrap();
        let endpoint = format!("http://{address}");
        S3 { endpoint, bucket_dir, faults, stop, thread: Some(thread), _root: root }
    }

    /// The variables by which the program under test finds the server and may use it, with little patience.
    pub fn env(&self) -> Vec<(String, String)> {
        variables(&[
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT", &self.endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("RESEMBLANCE_RETRY_SECONDS", "5"),
        ])
    }

    pub fn url(&self, key: &str) -> String {
        format!("s3://{BUCKET}/{key}")
    }

    pub fn file(&self, key: &str) -> PathBuf {
        self.bucket_dir.join(key)
    }

    pub fn put(&self, key: &str, bytes: impl AsRef<[u8]>) {
        let file = self.file(key);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    /// The e_tag of an object that did not go up in parts, with its quotes.
    pub fn e_tag(&self, key: &str) -> String {
        e_tag(&std::fs::read(self.file(key)).unwrap())
    }

    /// The keys under `prefix`, sorted, with their sizes.
    pub fn keys(&self, prefix: &str) -> BTreeMap<String, u64> {
        let mut keys = BTreeMap::new();
        let mut folders = vec![self.bucket_dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let path = entry.path();
                let key = path.strip_prefix(&self.bucket_dir).unwrap().to_str().unwrap().to_owned();
                if key.starts_with(prefix) {
                    keys.insert(key, entry.metadata().unwrap().len());
                }
            }
        }
        keys
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// It is answered 503 SlowDown and does nothing.
    Unavailable,
    /// It is answered this status and this body, and does nothing.
    Answer(u16, String),
    /// The connection ends after this many bytes of the answer's body.
    Cut(u64),
    /// It is done, and the connection ends before the answer's head.
    Silent,
    /// It is done, and answered so many milliseconds later.
    Slow(u64),
    /// Nothing more comes after this many bytes of the answer's body, and the connection stays.
    Stall(u64),
    /// The answer's body has this many bytes more, or fewer, and its head says so too, except for the range.
    Resize(i64),
    /// A bit of this byte of the answer's body is another one.
    Flip(usize),
    /// Before it is answered, this is put under this key.
    Put(String, Vec<u8>),
    /// Before it is answered, the object that it names is removed.
    Vanish,
    /// It goes well, and is counted.
    Pass,
}

/// The planned faults, and the requests. A request is named `METHOD /bucket/key?query`.
#[derive(Default)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<String>>,
    /// The requests with the bytes of their answers.
    answered: Mutex<Vec<(String, u64)>>,
}

struct Rule {
    part: String,
    left: usize,
    fault: Fault,
}

impl Faults {
    /// The next `count` requests that have `part` in them meet `fault`.
    pub fn add(&self, part: &str, count: usize, fault: Fault) {
        self.rules.lock().unwrap().push(Rule { part: part.to_owned(), left: count, fault });
    }

    pub fn clear(&self) {
        self.rules.lock().unwrap().clear();
    }

    pub fn left(&self) -> usize {
        self.rules.lock().unwrap().iter().map(|rule| rule.left).sum()
    }

    pub fn requests(&self, part: &str) -> Vec<String> {
        self.requests.lock().unwrap().iter().filter(|request| request.contains(part)).cloned().collect()
    }

    /// The bytes of the answers to requests that have `part` in them.
    pub fn bytes(&self, part: &str) -> u64 {
        let answered = self.answered.lock().unwrap();
        answered.iter().filter(|(request, _)| request.contains(part)).map(|(_, bytes)| bytes).sum()
    }

    fn meet(&self, request: &str) -> Option<Fault> {
        self.requests.lock().unwrap().push(request.to_owned());
        let mut rules = self.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.left > 0 && request.contains(&rule.part))?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }
}

async fn serve(listener: TcpListener, front: Front) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let front = front.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let front = front.clone();
                async move { front.answer(request).await }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is the client's to see.
            let _ = connection.serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}

/// The layer between the network and the S3 server.
#[derive(Clone)]
struct Front {
    service: S3Service,
    root: PathBuf,
    faults: Arc<Faults>,
    /// Held while an object is put that must not be there.
    creating: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the test cuts this connection")
    }
}

impl std::error::Error for Gone {}

impl Front {
    async fn answer(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Gone> {
        let asked = format!("{} {}", request.method(), request.uri());
        let fault = self.faults.meet(&asked);
        if let Some(Fault::Unavailable | Fault::Answer(..)) = &fault {
            // Who is still sending would see a broken connection and not the answer.
            while let Some(Ok(_)) = poll_fn(|context| Pin::new(request.body_mut()).poll_frame(context)).await
            {
            }
        }
        match &fault {
            Some(Fault::Unavailable) => {
                return Ok(said(503, "SlowDown", "please reduce your request rate").map(Body::whole));
            }
            Some(Fault::Answer(status, body)) => return Ok(plain(*status, body.clone()).map(Body::whole)),
            Some(Fault::Put(key, bytes)) => std::fs::write(self.root.join(BUCKET).join(key), bytes).unwrap(),
            Some(Fault::Vanish) => {
                let path = object_store::path::Path::from_url_path(request.uri().path()).unwrap();
                std::fs::remove_file(self.root.join(path.as_ref())).unwrap();
            }
            _ => {}
        }
        let answered = match self.missing(&request) {
            Some(missing) => missing,
            None => self.served(&asked, request).await?,
        };
        let length =
            answered.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
        self.faults.answered.lock().unwrap().push((asked, length.unwrap_or(0)));
        match fault {
            Some(Fault::Resize(by)) => {
                let resized = rewritten(answered, |mut body| {
                    body.resize(body.len().saturating_add_signed(by as isize), b'x');
                    body
                });
                Ok(resized.await.map(Body::whole))
            }
            Some(Fault::Flip(at)) => {
                let flipped = rewritten(answered, |mut body| {
                    body[at] ^= 1;
                    body
                });
                Ok(flipped.await.map(Body::whole))
            }
            Some(Fault::Silent) => Err(Gone),
            Some(Fault::Slow(milliseconds)) => {
                tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
                Ok(answered.map(Body::whole))
            }
            Some(Fault::Cut(left)) => {
                Ok(answered.map(|inner| Body { inner, left: Some(left), stalls: false }))
            }
            Some(Fault::Stall(left)) => {
                Ok(answered.map(|inner| Body { inner, left: Some(left), stalls: true }))
            }
            _ => Ok(answered.map(Body::whole)),
        }
    }

    /// The server's own answer, mended.
    async fn served(&self, asked: &str, request: Request<Incoming>) -> Result<Response<s3s::Body>, Gone> {
        let creates = request.headers().contains_key("if-none-match");
        let alone = match creates {
            true => Some(self.creating.lock().await),
            false => None,
        };
        let lists = asked.contains("list-type=2");
        let whole = request.method() == Method::GET && !request.headers().contains_key("range");
        let checked =
            whole && request.headers().get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED");
        let answered = self.service.call(request.map(s3s::Body::from)).await;
        drop(alone);
        let answered = answered.map_err(|_| Gone)?;
        if lists && answered.status().is_success() {
            return Ok(rewritten(answered, |page| self.with_e_tags(page)).await);
        }
        if checked && answered.status() == StatusCode::OK {
            return Ok(with_checksum(answered).await);
        }
        if asked.contains("uploadId=") && answered.status() == StatusCode::FORBIDDEN {
            return Ok(said(404, "NoSuchUpload", "the specified upload does not exist"));
        }
        Ok(answered)
    }

    /// A page of a listing, with the e_tags that `s3s-fs` says only with the objects. Objects that were uploaded in parts have another e_tag.
    fn with_e_tags(&self, page: Vec<u8>) -> Vec<u8> {
        let page = String::from_utf8(page).unwrap();
        let mut parts = page.split("</Key>");
        let mut with = parts.next().unwrap().to_owned();
        let mut key = with.rsplit("<Key>").next().unwrap_or_default().to_owned();
        for part in parts {
            with.push_str("</Key>");
            let plain = key.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            let bytes = std::fs::read(self.root.join(BUCKET).join(plain)).unwrap_or_default();
            if !bytes.is_empty() && bytes.len() < PART_BYTES {
                with.push_str(&format!("<ETag>{}</ETag>", e_tag(&bytes)));
            }
            with.push_str(part);
            key = part.rsplit("<Key>").next().unwrap_or_default().to_owned();
        }
        with.into_bytes()
    }

    /// The answer to who asks for a bucket that is not there, or for a folder as if it were an object.
    fn missing(&self, request: &Request<Incoming>) -> Option<Response<s3s::Body>> {
        let path = object_store::path::Path::from_url_path(request.uri().path()).ok()?;
        let bucket = path.parts().next()?;
        if !self.root.join(bucket.as_ref()).is_dir() {
            return Some(said(404, "NoSuchBucket", "the specified bucket does not exist"));
        }
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let object = path.parts().count() > 1;
        if reads && object && !file_at(&self.root, &path) {
            return Some(said(404, "NoSuchKey", "the specified key does not exist"));
        }
        None
    }
}

fn e_tag(bytes: &[u8]) -> String {
    let hash: String = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hash}\"")
}

fn file_at(root: &Path, path: &object_store::path::Path) -> bool {
    root.join(path.as_ref()).is_file()
}

/// `response` with another body, and the length of that in its head.
async fn rewritten(
    response: Response<s3s::Body>,
    change: impl FnOnce(Vec<u8>) -> Vec<u8>,
) -> Response<s3s::Body> {
    let (mut head, mut body) = response.into_parts();
    let bytes = body.store_all_limited(usize::MAX).await.unwrap();
    let bytes = change(bytes.to_vec());
    head.headers.insert(hyper::header::CONTENT_LENGTH, bytes.len().into());
    Response::from_parts(head, s3s::Body::from(Bytes::from(bytes)))
}

/// An object with its checksum in the head, as S3 keeps one of every object.
async fn with_checksum(response: Response<s3s::Body>) -> Response<s3s::Body> {
    let (mut head, mut body) = response.into_parts();
    let bytes = body.store_all_limited(usize::MAX).await.unwrap();
    let mut hasher = ChecksumHasher { crc64nvme: Some(Crc64Nvme::default()), ..ChecksumHasher::default() };
    hasher.update(&bytes);
    let checksum = hasher.finalize().checksum_crc64nvme.unwrap();
    head.headers.insert("x-amz-checksum-crc64nvme", checksum.parse().unwrap());
    Response::from_parts(head, s3s::Body::from(bytes))
}

fn said(status: u16, code: &str, message: &str) -> Response<s3s::Body> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    plain(status, body)
}

fn plain(status: u16, body: String) -> Response<s3s::Body> {
    let mut response = Response::new(s3s::Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

struct Body {
    inner: s3s::Body,
    left: Option<u64>,
    stalls: bool,
}

impl Body {
    fn whole(inner: s3s::Body) -> Self {
        Self { inner, left: None, stalls: false }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == Some(0) && self.stalls {
            // This never wakes: it ends with its connection.
            return Poll::Pending;
        }
        if self.left == Some(0) {
            return Poll::Ready(Some(Err(Box::new(Gone))));
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other.map_err(Into::into),
        };
        let frame = match (self.left, frame.into_data()) {
            (Some(left), Ok(mut data)) => {
                data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                self.left = Some(left - data.len() as u64);
                Frame::data(data)
            }
            (None, Ok(data)) => Frame::data(data),
            (_, Err(other)) => other,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.left != Some(0) && self.inner.is_end_stream()
    }
}
