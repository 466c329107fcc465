//! The HTTP connector of the S3 client, which checks answers that the client does not check.
//!
//! The client retries a request without an answer, but not one whose answer broke off, except for the bytes of objects. So
//! this connector reads every other answer whole, as a part of the request.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use url::form_urlencoded;

use super::explain::{BrokeOff, BucketUrl, Refused};
use super::{checksum, page};
use crate::error::library_errors::http_refusal;

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
        let asked = Asked::of(&request);
        let answered = match self.inner.execute(request).await {
            Ok(response) => self.checked(&asked, response).await,
            Err(error) => Err(error),
        };
        answered.map_err(|error| asked.repeatable(error))
    }
}

impl Service {
    /// The answer, read whole where the client does not retry one that breaks off.
    async fn checked(&self, asked: &Asked, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let status = response.status();
        match asked {
            _ if status.as_u16() == NOT_IMPLEMENTED => Err(refusal(response).await),
            // Another 4xx is final, and its body has the reason. The client retries a 5xx by its status alone.
            _ if status.is_client_error() && !PASSING.contains(&status.as_u16()) => {
                let (parts, body) = response.into_parts();
                let (body, _) = up_to(body, REFUSAL_BYTES).await?;
                Ok(HttpResponse::from_parts(parts, body.into()))
            }
            Asked::Page { token } if status.is_success() => self.page(token.as_deref(), response).await,
            Asked::Post | Asked::Deletion if status.is_success() => {
                let (parts, body) = response.into_parts();
                Ok(HttpResponse::from_parts(parts, whole(body, PAGE_BYTES).await?.into()))
            }
            Asked::Object if status == StatusCode::OK => {
                let (mut parts, body) = response.into_parts();
                checksum::hand_on(&mut parts.headers);
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
enum Asked {
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

impl Asked {
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
