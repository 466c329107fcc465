//! What stands between the S3 client and HTTP: it looks at the answers that the client does not look at closely enough.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use url::form_urlencoded;

use super::explain::{BrokeOff, BucketUrl, Refused};
use super::page;

/// The longest page of a listing: a thousand keys of 1,024 bytes, escaped, take a fifth of it.
const PAGE_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of a refusal that are read.
const REFUSAL_BYTES: usize = 64 * 1024;
/// "Not implemented": a server that cannot do something now cannot do it later.
const NOT_IMPLEMENTED: u16 = 501;

/// Makes clients whose answers are looked at.
#[derive(Debug)]
pub(super) struct Connector(pub Arc<BucketUrl>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { inner, bucket_url: Arc::clone(&self.0) }))
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
        let listing = Listing::of(&request);
        let response = self.inner.execute(request).await?;
        if response.status().as_u16() == NOT_IMPLEMENTED {
            return Err(refusal(response).await);
        }
        match listing {
            Some(listing) if response.status().is_success() => self.page(&listing, response).await,
            _ => Ok(response),
        }
    }
}

impl Service {
    /// The page, without what no path names.
    async fn page(&self, listing: &Listing, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = whole(body, PAGE_BYTES).await?;
        let page = page::read(&body, listing.token.as_deref())
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

/// A request for a page of a listing.
struct Listing {
    /// Where it starts.
    token: Option<String>,
}

impl Listing {
    fn of(request: &HttpRequest) -> Option<Self> {
        let query = request.uri().query()?;
        let value = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        (value("list-type").as_deref() == Some("2")).then(|| Self { token: value("continuation-token") })
    }
}

/// A body of at most `most` bytes.
async fn whole(body: HttpResponseBody, most: usize) -> Result<Bytes, HttpError> {
    let mut bytes = Vec::new();
    let mut stream = body.bytes_stream();
    while let Some(chunk) = stream.try_next().await.map_err(broke_off)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most {
            let message = format!("an answer has more than {most} bytes where few were expected");
            return Err(HttpError::new(HttpErrorKind::Decode, Refused(message)));
        }
    }
    Ok(bytes.into())
}

/// An answer that began and broke off. It is asked for again, here and then by who reads the listing.
fn broke_off(error: HttpError) -> HttpError {
    let kind = match error.kind() {
        HttpErrorKind::Timeout => HttpErrorKind::Timeout,
        _ => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, BrokeOff(error))
}

/// An answer that stays the same however often it is asked for, as an error that the client does not repeat.
async fn refusal(response: HttpResponse) -> HttpError {
    let status = response.status();
    let body = whole(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    // The client's own words, which all refusals are read from.
    let message = format!("Server returned non-2xx status code: {status}: {body}");
    HttpError::new(HttpErrorKind::Decode, std::io::Error::other(message))
}
