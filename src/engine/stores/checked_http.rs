//! The HTTP connector of the clients of stores, with checks of answers that the clients lack.
//!
//! The client retries a request that got no answer. It retries a request whose answer ended early only for the bytes of objects. This
//! connector therefore reads every other answer completely, as a part of the request. If a page of a listing has no token for the next
//! page, the client accepts it as the last page. The client also fails a whole listing if it cannot read one key. Therefore pages are
//! parsed here first.
//!
//! S3 sends the checksum of a whole object in the answer to a GET if the request asks for it. It never sends the checksum of a range.

use std::borrow::Cow;
use std::io;
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
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};
use url::form_urlencoded;

use super::errors::{BucketUrl, STORE, StoreFault};
use crate::address::secrets;
use crate::error::library_errors::http_refusal;
use crate::error::one_line;

/// The header that contains the token of temporary credentials.
const SESSION_TOKEN: &str = "x-amz-security-token";

/// The maximum size of a listing page, in bytes. A thousand escaped keys of 1,024 bytes take a fifth of it.
const PAGE_BYTES: usize = 32 * 1024 * 1024;
/// The number of bytes that are read of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;
/// "Not implemented" is final, unlike other 5xx errors.
const NOT_IMPLEMENTED: u16 = 501;
/// "Request timeout" and "too many requests" may succeed later, unlike other 4xx errors.
const PASSING: [u16; 2] = [408, 429];

#[derive(Debug)]
pub(super) struct Connector(pub Arc<BucketUrl>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = HttpClient::new(client(options)?);
        Ok(HttpClient::new(Service { inner, bucket_url: Arc::clone(&self.0) }))
    }
}

/// Returns a client with these options that follows no redirects. Otherwise, reqwest would send the session token to any host.
fn client(options: &ClientOptions) -> object_store::Result<Client> {
    use ClientConfigKey as Key;
    fn read<T>(
        options: &ClientOptions,
        key: Key,
        parse: impl Fn(&str) -> Option<T>,
    ) -> object_store::Result<Option<T>> {
        let wrong = || object_store::Error::Generic {
            store: STORE,
            source: format!("wrong {}", key.as_ref()).into(),
        };
        options.get_config_value(&key).map(|text| parse(&text).ok_or_else(wrong)).transpose()
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

/// Parses a boolean with the spellings that object_store accepts.
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
        let purpose = RequestPurpose::new(&request);
        // The token of the machine's IAM role is in no variable, so it is remembered as a secret here.
        if let Some(Ok(token)) = request.headers().get(SESSION_TOKEN).map(|token| token.to_str()) {
            secrets::remember_secret(token);
        }
        let answered = match self.inner.execute(request).await {
            Ok(response) => self.check(&purpose, response).await,
            Err(error) => Err(error),
        };
        answered.map_err(|error| purpose.retryable(error))
    }
}

impl Service {
    /// Reads an answer completely, except for the bytes of an object, whose read can resume.
    async fn check(
        &self,
        purpose: &RequestPurpose,
        response: HttpResponse,
    ) -> Result<HttpResponse, HttpError> {
        let status = response.status();
        match purpose {
            _ if status.as_u16() == NOT_IMPLEMENTED => Err(refusal(response).await),
            // Other 4xx errors are final, and their body contains the reason. For a 5xx error, the client retries by the status alone.
            _ if status.is_client_error() && !PASSING.contains(&status.as_u16()) => {
                let (parts, body) = response.into_parts();
                let (body, _) = up_to(body, REFUSAL_BYTES).await?;
                Ok(HttpResponse::from_parts(parts, body.into()))
            }
            RequestPurpose::Page { token } if status.is_success() => {
                self.page(token.as_deref(), response).await
            }
            RequestPurpose::Small | RequestPurpose::Deletion if status.is_success() => {
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

    /// Returns the page without keys that cannot be paths.
    async fn page(&self, token: Option<&str>, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = whole(body, PAGE_BYTES).await?;
        let page = read_page(&body, token)
            .map_err(|message| HttpError::new(HttpErrorKind::Decode, StoreFault::Refused(message)))?;
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

enum RequestPurpose {
    /// A page of a listing of S3 or Google Cloud Storage.
    Page {
        /// The token for this page.
        token: Option<String>,
    },
    /// The removal of objects.
    Deletion,
    Small,
    /// A get or a put of an object.
    Object,
}

impl RequestPurpose {
    fn new(request: &HttpRequest) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        if value("list-type").as_deref() == Some("2") {
            return Self::Page { token: value("continuation-token") };
        }
        match *request.method() {
            Method::POST if value("delete").is_some() => Self::Deletion,
            Method::POST => Self::Small,
            Method::GET if value("comp").as_deref() == Some("list") => Self::Small,
            _ => Self::Object,
        }
    }

    /// Returns `error` as an error that the client retries, if a retry is safe. Removing objects twice is safe, which the client does not
    /// know.
    fn retryable(&self, error: HttpError) -> HttpError {
        use HttpErrorKind as K;
        match (self, error.kind()) {
            (Self::Deletion, K::Timeout | K::Interrupted | K::Unknown) => HttpError::new(K::Request, error),
            _ => error,
        }
    }
}

/// Reads a body of at most `most` bytes.
async fn whole(body: HttpResponseBody, most: usize) -> Result<Bytes, HttpError> {
    match up_to(body, most).await? {
        (bytes, true) => Ok(bytes),
        (_, false) => {
            let message = format!("an answer has more than {most} bytes where few were expected");
            Err(HttpError::new(HttpErrorKind::Decode, StoreFault::Refused(message)))
        }
    }
}

/// Returns the first bytes of a body, at most `most`, and whether they are the whole body.
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

/// Returns the error for an answer that ended early, which makes the client retry.
fn broke_off(error: HttpError) -> HttpError {
    let kind = match error.kind() {
        HttpErrorKind::Timeout => HttpErrorKind::Timeout,
        _ => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, io::Error::other(format!("the answer broke off: {}", one_line(&error))))
}

/// Returns the error for a final answer, which the client does not retry.
async fn refusal(response: HttpResponse) -> HttpError {
    let status = response.status();
    let (body, _) = up_to(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    HttpError::new(HttpErrorKind::Decode, io::Error::other(http_refusal(status, &body)))
}

/// The header that requests the checksum, and its value.
pub(super) const CHECKSUM_MODE: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// The user metadata in which the client library passes on the checksum.
pub(super) const CHECKSUM_METADATA: &str = "resemblance-checksum";
const CHECKSUM_HEADER: &str = "x-amz-meta-resemblance-checksum";

/// The headers of the checksums of S3, with the checksum's size in bytes and its algorithm.
const ALGORITHMS: [(&str, usize, CrcAlgorithm); 3] = [
    ("x-amz-checksum-crc64nvme", 8, CrcAlgorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", 4, CrcAlgorithm::Crc32Iscsi),
    ("x-amz-checksum-crc32", 4, CrcAlgorithm::Crc32IsoHdlc),
];

/// The expected checksum of an object, and the checksum of the bytes that were already read.
#[derive(Debug)]
pub(super) struct Checksum {
    expected: String,
    bytes: usize,
    digest: Digest,
}

impl Checksum {
    pub(super) fn from_metadata(metadata: &str) -> Option<Self> {
        let (header, expected) = metadata.split_once(' ')?;
        let (_, bytes, algorithm) = ALGORITHMS.into_iter().find(|(name, ..)| *name == header)?;
        Some(Self { expected: expected.to_owned(), bytes, digest: Digest::new(algorithm) })
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Whether the added bytes have the expected checksum. S3 writes a checksum as base64 of its bytes in big-endian order.
    pub(super) fn is_right(&self) -> bool {
        BASE64.encode(&self.digest.finalize().to_be_bytes()[8 - self.bytes..]) == self.expected
    }
}

/// Moves the checksum of a whole object to the metadata that the client library passes on. Removes any other value of this metadata.
fn hand_on_checksum(headers: &mut HeaderMap) {
    headers.remove(CHECKSUM_HEADER);
    let found = ALGORITHMS.iter().find_map(|(header, ..)| {
        let value = headers.get(*header)?.to_str().ok()?;
        // The checksum of an object that was uploaded in parts may be computed from the checksums of the parts. It then ends in a hyphen
        // and their number.
        (!value.contains('-')).then(|| format!("{header} {value}"))
    });
    if let Some(value) = found.and_then(|found| found.parse().ok()) {
        headers.insert(CHECKSUM_HEADER, value);
    }
}

/// A listing page for the client library.
#[derive(Debug, PartialEq)]
struct ListingPage<'a> {
    /// The page without unreadable keys.
    body: Cow<'a, [u8]>,
    /// Keys that cannot be paths.
    unreadable: Vec<String>,
}

/// Parses the page of a listing, which was requested with `token`. Skips folder markers, which are empty objects whose key ends with `/`.
/// Skips keys that cannot be paths: keys with an empty segment, `.`, `..` or a control character.
fn read_page<'a>(body: &'a [u8], token: Option<&str>) -> Result<ListingPage<'a>, String> {
    let mut scan = PageScan { body, kept: Vec::new(), copied: 0, unreadable: Vec::new() };
    let mut reader = Reader::from_reader(body);
    let mut open: Vec<String> = Vec::new();
    let mut entry = ListingEntry::default();
    let mut text = String::new();
    let (mut root, mut truncated, mut next) = (false, false, String::new());
    loop {
        let start = position(&reader);
        let event = reader.read_event().map_err(|_| not_a_listing(body))?;
        match event {
            Event::Start(tag) => {
                let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
                if open.is_empty() {
                    if name != "ListBucketResult" {
                        return Err(not_a_listing(body));
                    }
                    root = true;
                }
                if open.len() == 1 {
                    entry = ListingEntry { start, ..ListingEntry::default() };
                }
                text.clear();
                open.push(name);
            }
            Event::Empty(tag) if open.is_empty() => {
                root = tag.local_name().as_ref() == b"ListBucketResult";
                if !root {
                    return Err(not_a_listing(body));
                }
            }
            Event::End(_) => {
                let names: Vec<&str> = open.iter().map(String::as_str).collect();
                match names.as_slice() {
                    [_, "IsTruncated"] => truncated = text.trim().eq_ignore_ascii_case("true"),
                    [_, "NextContinuationToken"] => next = std::mem::take(&mut text),
                    [_, "Contents", "Key"] | [_, "CommonPrefixes", "Prefix"] => {
                        entry.key = std::mem::take(&mut text)
                    }
                    [_, "Contents", "Size"] => entry.empty = text.trim() == "0",
                    [_, "Contents"] => scan.end(&entry, is_object(&entry), position(&reader)),
                    [_, "CommonPrefixes"] => scan.end(&entry, is_prefix(&entry), position(&reader)),
                    _ => {}
                }
                open.pop();
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|_| not_a_listing(body))?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|_| not_a_listing(body))?),
            Event::GeneralRef(reference) => text.push_str(&character(&reference)),
            Event::Eof => break,
            _ => {}
        }
    }
    if !root {
        return Err(not_a_listing(body));
    }
    if !open.is_empty() {
        return Err("a page of the listing is cut off".to_owned());
    }
    if truncated && next.is_empty() {
        return Err(
            "a page of the listing says that more objects follow, but not where they start".to_owned()
        );
    }
    if !next.is_empty() && token == Some(next.as_str()) {
        return Err(
            "a page of the listing names itself as the next page, so the listing would never end".to_owned()
        );
    }
    Ok(scan.page())
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

/// Returns the character for an XML reference. An unknown name is returned as written. An invalid number becomes a control character, so
/// that the key counts as unreadable.
fn character(reference: &BytesRef) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.decode().unwrap_or_default();
    match resolve_predefined_entity(&name) {
        Some(character) => character.to_owned(),
        None if name.starts_with('#') => char::REPLACEMENT_CHARACTER.to_string() + "\u{1}",
        None => format!("&{name};"),
    }
}

fn not_a_listing(body: &[u8]) -> String {
    let html = body.iter().take(1024).copied().collect::<Vec<u8>>().to_ascii_lowercase();
    let html = html.windows(5).any(|part| part == b"<html");
    let answer = if html { "an HTML page" } else { "something else" };
    format!(
        "{answer} came instead of a page of the listing: is there a proxy between this machine and the storage?"
    )
}

#[derive(Debug, Default)]
struct ListingEntry {
    /// The position in the page, in bytes, at which the entry starts.
    start: usize,
    key: String,
    empty: bool,
}

/// Whether the entry is an object with a key that can be a path. A path that is spelled differently would be another object.
fn is_object(entry: &ListingEntry) -> bool {
    Path::parse(&entry.key).is_ok_and(|path| path.as_ref() == entry.key)
}

fn is_prefix(entry: &ListingEntry) -> bool {
    Path::parse(&entry.key).is_ok_and(|path| Some(path.as_ref()) == entry.key.strip_suffix('/'))
}

struct PageScan<'a> {
    body: &'a [u8],
    kept: Vec<u8>,
    /// The number of bytes of the page that were copied to `kept` or skipped.
    copied: usize,
    unreadable: Vec<String>,
}

impl<'a> PageScan<'a> {
    fn end(&mut self, entry: &ListingEntry, is_readable: bool, end: usize) {
        if is_readable {
            return;
        }
        // Folder markers are skipped without a warning.
        if !(entry.empty && entry.key.ends_with('/')) {
            self.unreadable.push(entry.key.clone());
        }
        self.kept.extend_from_slice(self.body.get(self.copied..entry.start).unwrap_or_default());
        self.copied = end;
    }

    fn page(mut self) -> ListingPage<'a> {
        let body = match self.copied {
            0 => Cow::Borrowed(self.body),
            copied => {
                self.kept.extend_from_slice(self.body.get(copied..).unwrap_or_default());
                Cow::Owned(self.kept)
            }
        };
        ListingPage { body, unreadable: self.unreadable }
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;
    use proptest::prelude::*;

    use super::*;

    fn checksum(algorithm: usize, expected: &str) -> Checksum {
        Checksum::from_metadata(&format!("{} {expected}", ALGORITHMS[algorithm].0)).unwrap()
    }

    /// Compares with the check values from the catalogue of CRC algorithms, and with the checksums of empty input.
    #[test]
    fn the_checksums_are_those_that_are_published() {
        for (i, value) in [0xae8b_1486_0a79_9888_u64, 0xe306_9283, 0xcbf4_3926].into_iter().enumerate() {
            let expected = BASE64.encode(&value.to_be_bytes()[8 - ALGORITHMS[i].1..]);
            let mut digest = checksum(i, &expected);
            assert!(!digest.is_right());
            digest.update(b"123456789");
            assert!(digest.is_right(), "{}", ALGORITHMS[i].0);
        }
        assert!(checksum(0, "AAAAAAAAAAA=").is_right());
        assert!(checksum(2, "AAAAAA==").is_right());
        assert!(Checksum::from_metadata("x-amz-checksum-sha256 abc").is_none());
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0..100_usize) {
            let mut pieces = checksum(2, &BASE64.encode(crc32fast::hash(&bytes).to_be_bytes()));
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            pieces.update(first);
            pieces.update(second);
            prop_assert!(pieces.is_right());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_page(&bytes, None);
            let text = listing(&String::from_utf8_lossy(&bytes));
            let _ = read_page(text.as_bytes(), Some("a"));
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

    #[test]
    fn the_pages_of_every_store_are_read_whole() {
        let purpose = |query: &str| {
            let url = format!("https://store.example/bucket?{query}");
            RequestPurpose::new(&http::Request::get(url).body(HttpRequestBody::empty()).unwrap())
        };
        for pages in ["list-type=2&prefix=a", "prefix=a&list-type=2"] {
            assert!(matches!(purpose(pages), RequestPurpose::Page { token: None }), "{pages}");
        }
        assert!(matches!(purpose("restype=container&comp=list"), RequestPurpose::Small));
        assert!(matches!(purpose("comp=block"), RequestPurpose::Object));
    }

    fn listing(inside: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inside}</ListBucketResult>"
        )
    }

    fn object(key: &str, size: u64) -> String {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
    }

    fn wrong(body: &str, token: Option<&str>) -> String {
        read_page(body.as_bytes(), token).unwrap_err()
    }

    #[test]
    fn pages_stay_as_they_are_and_other_documents_are_refused() {
        for (body, answer) in [
            ("<!DOCTYPE html><html><body>Sign in</body></html>", "an HTML page"),
            ("<HTML><p>sign in<br></HTML>", "an HTML page"),
            ("<Error><Code>Odd</Code></Error>", "something else"),
            ("{\"contents\": []}", "something else"),
            ("", "something else"),
        ] {
            assert!(wrong(body, None).starts_with(answer), "{body}");
        }
        let whole = listing(&object("a", 1));
        assert!(wrong(&whole[..whole.len() - 19], None).contains("cut off"));
        let pages = [
            listing(&object("a/b c&amp;d.csv", 3)),
            listing("<IsTruncated>false</IsTruncated>"),
            listing("<IsTruncated>true</IsTruncated><NextContinuationToken>b</NextContinuationToken>"),
            listing("<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>"),
            "<ListBucketResult/>".to_owned(),
        ];
        for page in &pages {
            let read = read_page(page.as_bytes(), Some("a")).unwrap();
            assert_eq!((read.body, read.unreadable), (Cow::Borrowed(page.as_bytes()), vec![]), "{page}");
        }
    }

    #[test]
    fn unreadable_keys_are_left_out_and_listed() {
        let good = object("t/a.txt", 1) + &object("t/b.txt", 0);
        let markers = object("t/sub/", 0) + &object("t/", 0);
        let odd = ["t//c", "t/./d", "t/../e", "/f", "t/g/", "t/h&#x1;", "t/i&#10;", "t/j\u{7}"];
        let odd_objects: String = odd.iter().map(|key| object(key, 5)).collect();
        let prefixes = "<CommonPrefixes><Prefix>t//</Prefix></CommonPrefixes>";
        let body = listing(&format!("{markers}{good}{odd_objects}{prefixes}{}", object("u", 2)));
        let page = read_page(body.as_bytes(), None).unwrap();
        assert_eq!(String::from_utf8(page.body.into_owned()).unwrap(), listing(&(good + &object("u", 2))));
        let named = ["t//c", "t/./d", "t/../e", "/f", "t/g/", "t/h\u{1}", "t/i\n", "t/j\u{7}", "t//"];
        assert_eq!(page.unreadable, named);
    }
}
