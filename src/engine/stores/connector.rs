//! The HTTP connector of the S3 client, which checks answers that the client does not check.
//!
//! The client retries a request without an answer, but not one whose answer broke off, except for the bytes of objects. So
//! this connector reads every other answer whole, as a part of the request.
//!
//! S3 sends the checksum of a whole object with the answer to a GET if the request asks for it, and never with a range.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use futures::TryStreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};
use url::form_urlencoded;

use super::explain::{BrokeOff, BucketUrl, Refused, STORE};
use super::page;
use crate::address::secrets;
use crate::error::library_errors::http_refusal;

/// The header with the token of temporary credentials.
const SESSION_TOKEN: &str = "x-amz-security-token";

/// The longest page of a listing: a thousand keys of 1,024 bytes, escaped, take a fifth of it.
const PAGE_BYTES: usize = 32 * 1024 * 1024;
/// The bytes of a refusal that are read.
const REFUSAL_BYTES: usize = 64 * 1024;
/// "Not implemented" is final, unlike other 5xx.
const NOT_IMPLEMENTED: u16 = 501;
/// "Request timeout" and "too many requests" may succeed later, unlike other 4xx.
const PASSING: [u16; 2] = [408, 429];

/// Makes clients whose answers are checked.
#[derive(Debug)]
pub(super) struct Connector(pub Arc<BucketUrl>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = HttpClient::new(client(options)?);
        Ok(HttpClient::new(Service { inner, bucket_url: Arc::clone(&self.0) }))
    }
}

/// A client with these options that follows no redirect: reqwest would take the session token of a request along to any host.
///
/// # Errors
/// When an option cannot be used.
fn client(options: &ClientOptions) -> object_store::Result<Client> {
    use ClientConfigKey as Key;
    fn read<T>(
        of: &ClientOptions,
        key: Key,
        parse: impl Fn(&str) -> Option<T>,
    ) -> object_store::Result<Option<T>> {
        let wrong = || object_store::Error::Generic {
            store: STORE,
            source: format!("wrong {}", key.as_ref()).into(),
        };
        of.get_config_value(&key).map(|text| parse(&text).ok_or_else(wrong)).transpose()
    }
    let is_on = |key| read(options, key, switch).map(Option::unwrap_or_default);
    let duration = |key| read(options, key, |text| humantime::parse_duration(text).ok());
    is_on(Key::RandomizeAddresses)?;
    let mut client = Client::builder().redirect(Policy::none()).https_only(!is_on(Key::AllowHttp)?);
    client = client.danger_accept_invalid_certs(is_on(Key::AllowInvalidCertificates)?);
    client = if is_on(Key::Http1Only)? { client.http1_only() } else { client };
    if let Some(proxy) = read(options, Key::ProxyUrl, |url| Proxy::all(url).ok())? {
        let excluded = read(options, Key::ProxyExcludes, |hosts| Some(NoProxy::from_string(hosts)))?;
        client = client.proxy(proxy.no_proxy(excluded.flatten()));
        let authority =
            read(options, Key::ProxyCaCertificate, |pem| Certificate::from_pem(pem.as_bytes()).ok())?;
        client = authority.into_iter().fold(client, ClientBuilder::add_root_certificate);
    }
    client = duration(Key::Timeout)?.into_iter().fold(client, ClientBuilder::timeout);
    client = duration(Key::ConnectTimeout)?.into_iter().fold(client, ClientBuilder::connect_timeout);
    client = duration(Key::PoolIdleTimeout)?
        .into_iter()
        .fold(client, ClientBuilder::pool_idle_timeout::<Duration>);
    let idle = read(options, Key::PoolMaxIdlePerHost, |text| text.parse::<usize>().ok())?;
    client = idle.into_iter().fold(client, ClientBuilder::pool_max_idle_per_host);
    let agent = read(options, Key::UserAgent, |text| HeaderValue::from_str(text).ok())?;
    client = agent.into_iter().fold(client, ClientBuilder::user_agent::<HeaderValue>);
    client.build().map_err(|e| object_store::Error::Generic { store: STORE, source: Box::new(e) })
}

/// A switch in the words of object_store.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Some(true),
        "0" | "false" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    bucket_url: Arc<BucketUrl>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let asked = RequestPurpose::of(&request);
        // That of a machine's role is in no variable.
        if let Some(Ok(token)) = request.headers().get(SESSION_TOKEN).map(|token| token.to_str()) {
            secrets::remember_secret(token);
        }
        let answered = match self.inner.execute(request).await {
            Ok(response) => self.checked(&asked, response).await,
            Err(error) => Err(error),
        };
        answered.map_err(|error| asked.repeatable(error))
    }
}

impl Service {
    /// The answer, read whole where the client does not retry one that breaks off.
    async fn checked(
        &self,
        asked: &RequestPurpose,
        response: HttpResponse,
    ) -> Result<HttpResponse, HttpError> {
        let status = response.status();
        match asked {
            _ if status.as_u16() == NOT_IMPLEMENTED => Err(refusal(response).await),
            // Another 4xx is final, and its body has the reason. The client retries a 5xx by its status alone.
            _ if status.is_client_error() && !PASSING.contains(&status.as_u16()) => {
                let (parts, body) = response.into_parts();
                let (body, _) = up_to(body, REFUSAL_BYTES).await?;
                Ok(HttpResponse::from_parts(parts, body.into()))
            }
            RequestPurpose::Page { token } if status.is_success() => {
                self.page(token.as_deref(), response).await
            }
            RequestPurpose::Post | RequestPurpose::Deletion if status.is_success() => {
                let (parts, body) = response.into_parts();
                Ok(HttpResponse::from_parts(parts, whole(body, PAGE_BYTES).await?.into()))
            }
            RequestPurpose::Object if status == StatusCode::OK => {
                let (mut parts, body) = response.into_parts();
                hand_on_checksum(&mut parts.headers);
                Ok(HttpResponse::from_parts(parts, body))
            }
            _ => Ok(response),
        }
    }

    /// The page, without keys that no path can name.
    async fn page(&self, token: Option<&str>, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = whole(body, PAGE_BYTES).await?;
        let page = page::read(&body, token)
            .map_err(|message| HttpError::new(HttpErrorKind::Decode, Refused(message)))?;
        if let Some(first) = page.unreadable.first() {
            tracing::warn!(
                "{} keys of {} have an empty segment, `.`, `..` or a control character, and cannot be read: they are \
                 skipped; the first one is `{}`",
                page.unreadable.len(),
                self.bucket_url,
                first.escape_debug()
            );
        }
        let body = HttpResponseBody::from(page.body.into_owned());
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// The purpose of a request.
enum RequestPurpose {
    /// A page of a listing.
    Page {
        /// Where it starts.
        token: Option<String>,
    },
    /// The removal of objects.
    Deletion,
    /// The begin or the end of an upload.
    Post,
    /// A get or a put of an object.
    Object,
}

impl RequestPurpose {
    fn of(request: &HttpRequest) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        if value("list-type").as_deref() == Some("2") {
            return Self::Page { token: value("continuation-token") };
        }
        match *request.method() == Method::POST {
            true if value("delete").is_some() => Self::Deletion,
            true => Self::Post,
            false => Self::Object,
        }
    }

    /// `error`, as one after which the client retries where that is safe: objects can be removed twice, which the client does
    /// not know.
    fn repeatable(&self, error: HttpError) -> HttpError {
        use HttpErrorKind as K;
        match (self, error.kind()) {
            (Self::Deletion, K::Timeout | K::Interrupted | K::Unknown) => {
                HttpError::new(K::Request, BrokeOff(error))
            }
            _ => error,
        }
    }
}

/// A body of at most `most` bytes.
async fn whole(body: HttpResponseBody, most: usize) -> Result<Bytes, HttpError> {
    match up_to(body, most).await? {
        (bytes, true) => Ok(bytes),
        (_, false) => {
            let message = format!("an answer has more than {most} bytes where few were expected");
            Err(HttpError::new(HttpErrorKind::Decode, Refused(message)))
        }
    }
}

/// The first `most` bytes of a body, and whether it has no more.
async fn up_to(body: HttpResponseBody, most: usize) -> Result<(Bytes, bool), HttpError> {
    let mut bytes = Vec::new();
    let mut stream = body.bytes_stream();
    while let Some(chunk) = stream.try_next().await.map_err(broke_off)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most {
            bytes.truncate(most);
            return Ok((bytes.into(), false));
        }
    }
    Ok((bytes.into(), true))
}

/// The error of an answer that broke off, which is retried, first by the client and then by the reader of a listing.
fn broke_off(error: HttpError) -> HttpError {
    let kind = match error.kind() {
        HttpErrorKind::Timeout => HttpErrorKind::Timeout,
        _ => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, BrokeOff(error))
}

/// The error of a final answer, which the client does not retry.
async fn refusal(response: HttpResponse) -> HttpError {
    let status = response.status();
    let (body, _) = up_to(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    HttpError::new(HttpErrorKind::Decode, std::io::Error::other(http_refusal(status, &body)))
}

/// The header, and its value, of a request for the checksum.
pub(super) const CHECKSUM_MODE: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// The user metadata of an object in which the client library passes the checksum on.
pub(super) const CHECKSUM_METADATA: &str = "resemblance-checksum";
const CHECKSUM_HEADER: &str = "x-amz-meta-resemblance-checksum";

/// The checksums of S3 by their headers, each with its bytes and its algorithm.
const ALGORITHMS: [(&str, usize, CrcAlgorithm); 3] = [
    ("x-amz-checksum-crc64nvme", 8, CrcAlgorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", 4, CrcAlgorithm::Crc32Iscsi),
    ("x-amz-checksum-crc32", 4, CrcAlgorithm::Crc32IsoHdlc),
];

/// The checksum of an object, and that of its bytes so far.
#[derive(Debug)]
pub(super) struct Checksum {
    expected: String,
    bytes: usize,
    digest: Digest,
}

impl Checksum {
    /// The checksum in the metadata of an answer.
    pub(super) fn of(metadata: &str) -> Option<Self> {
        let (header, expected) = metadata.split_once(' ')?;
        let (_, bytes, algorithm) = ALGORITHMS.into_iter().find(|(name, ..)| *name == header)?;
        Some(Self { expected: expected.to_owned(), bytes, digest: Digest::new(algorithm) })
    }

    /// Adds the bytes that follow.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Whether the bytes so far have the checksum of the whole object, which S3 writes as base64 of its bytes, highest first.
    pub(super) fn is_right(&self) -> bool {
        BASE64.encode(&self.digest.finalize().to_be_bytes()[8 - self.bytes..]) == self.expected
    }
}

/// Replaces the checksum of a whole object in the headers by metadata that the client library passes on, and removes
/// any other value.
fn hand_on_checksum(headers: &mut HeaderMap) {
    headers.remove(CHECKSUM_HEADER);
    let found = ALGORITHMS.iter().find_map(|(header, ..)| {
        let value = headers.get(*header)?.to_str().ok()?;
        // The checksum of an object that was uploaded in parts may be that of the parts' checksums: a hyphen precedes their number.
        (!value.contains('-')).then(|| format!("{header} {value}"))
    });
    if let Some(value) = found.and_then(|found| found.parse().ok()) {
        headers.insert(CHECKSUM_HEADER, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checksum(algorithm: usize, expected: &str) -> Checksum {
        Checksum::of(&format!("{} {expected}", ALGORITHMS[algorithm].0)).unwrap()
    }

    /// The check values of the catalogue of CRC algorithms, and those of no bytes.
    #[test]
    fn the_checksums_are_those_that_are_published() {
        for (i, value) in [0xae8b_1486_0a79_9888_u64, 0xe306_9283, 0xcbf4_3926].into_iter().enumerate() {
            let expected = BASE64.encode(&value.to_be_bytes()[8 - ALGORITHMS[i].1..]);
            let mut of_digits = checksum(i, &expected);
            assert!(!of_digits.is_right());
            of_digits.update(b"123456789");
            assert!(of_digits.is_right(), "{}", ALGORITHMS[i].0);
        }
        assert!(checksum(0, "AAAAAAAAAAA=").is_right());
        assert!(checksum(2, "AAAAAA==").is_right());
        assert!(Checksum::of("x-amz-checksum-sha256 abc").is_none());
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0..100_usize) {
            let mut of_pieces = checksum(2, &BASE64.encode(crc32fast::hash(&bytes).to_be_bytes()));
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            of_pieces.update(first);
            of_pieces.update(second);
            prop_assert!(of_pieces.is_right());
        }
    }

    #[test]
    fn checksums_of_parts_and_metadata_of_users_are_ignored() {
        let mut headers = HeaderMap::new();
        headers.insert(CHECKSUM_HEADER, "x-amz-checksum-crc32 AAAAAA==".parse().unwrap());
        headers.insert("x-amz-checksum-crc32", "AAAAAA==-3".parse().unwrap());
        hand_on_checksum(&mut headers);
        assert!(headers.get(CHECKSUM_HEADER).is_none());
        headers.insert("x-amz-checksum-crc32c", "AAAAAA==".parse().unwrap());
        hand_on_checksum(&mut headers);
        assert_eq!(headers[CHECKSUM_HEADER], "x-amz-checksum-crc32c AAAAAA==");
    }
}
