//! Explains the errors of stores: who must act, and whether a retry may help.
//!
//! Ballista reruns a task only if the chain of causes contains a [`DataFusionError::IoError`]. So transient errors contain it, and other
//! errors do not. An error never repeats a whole answer of a store, because it may contain the session token of the request.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use datafusion::error::DataFusionError;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use url::Url;

use crate::address;
use crate::error::library_errors;
use crate::error::{Error, Result, chain, one_line};

/// The maximum number of characters of a store's message that an error repeats.
const MESSAGE_CHARS: usize = 300;

#[derive(Debug, Clone)]
pub(super) struct BucketUrl {
    scheme: String,
    authority: String,
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl BucketUrl {
    pub(super) fn try_new(url: &Url) -> Result<Self> {
        let authority = url[url::Position::BeforeUsername..url::Position::BeforePath].to_owned();
        if authority.is_empty() {
            return Err(Error::job(format!(
                "`{url}` names no bucket: expected `{}://bucket/path`",
                url.scheme()
            )));
        }
        Ok(Self { scheme: url.scheme().to_owned(), authority })
    }

    pub(super) fn bucket(&self) -> &str {
        &self.authority
    }

    /// Returns `error` with advice for the user and without secrets. Keeps the error variants that callers distinguish.
    pub(super) fn explain(&self, object: Option<&Path>, error: object_store::Error) -> object_store::Error {
        if let Some(StoreFault::Explained(_)) = find(&error) {
            return error;
        }
        let shown = match object {
            Some(object) => format!("{self}/{object}"),
            None => self.to_string(),
        };
        if let Some(StoreFault::Refused(message)) = find(&error) {
            return object_store::Error::Generic {
                store: STORE,
                source: Box::new(StoreFault::Explained(format!("{shown}: {message}"))),
            };
        }
        let answer = StoreAnswer::read(&error);
        let path = shown.clone();
        if let Some(kind) = answer.transient(&error) {
            let message =
                format!("{shown}: {}, even after several attempts: {TRANSIENT}", answer.message(&error));
            return transient(io::Error::new(kind, StoreFault::Explained(message)));
        }
        let source: Box<dyn StdError + Send + Sync> = Box::new(StoreFault::Explained(format!(
            "{shown}: {}{}",
            answer.message(&error),
            self.advice(&answer)
        )));
        use object_store::Error as E;
        match error {
            E::NotFound { .. } if answer.code != "NoSuchBucket" => E::NotFound { path, source },
            E::AlreadyExists { .. } => E::AlreadyExists { path, source },
            E::Precondition { .. } => E::Precondition { path, source },
            E::NotModified { .. } => E::NotModified { path, source },
            E::PermissionDenied { .. } => E::PermissionDenied { path, source },
            E::Unauthenticated { .. } => E::Unauthenticated { path, source },
            E::NotSupported { .. } => E::NotSupported { source },
            _ => E::Generic { store: STORE, source },
        }
    }

    /// Returns the transient error for an answer that ended `missing` bytes early.
    pub(super) fn cut_short(&self, object: &Path, missing: u64) -> object_store::Error {
        let message = format!("{self}/{object}: the answer ended {missing} bytes early: {TRANSIENT}");
        transient(io::Error::new(io::ErrorKind::UnexpectedEof, StoreFault::Explained(message)))
    }

    /// Returns the transient error for bytes that do not have the checksum of their object.
    pub(super) fn altered(&self, object: &Path) -> object_store::Error {
        let message = format!(
            "{self}/{object}: the received bytes do not have the checksum that the storage has for them: {TRANSIENT}, \
             and use https:// where the endpoint is http://"
        );
        transient(io::Error::new(io::ErrorKind::InvalidData, StoreFault::Explained(message)))
    }

    pub(super) fn refused(&self, object: Option<&Path>, message: &str) -> object_store::Error {
        let source = Box::new(StoreFault::Refused(message.to_owned()));
        self.explain(object, object_store::Error::Generic { store: STORE, source })
    }

    pub(super) fn replaced(&self, object: &Path) -> object_store::Error {
        let path = format!("{self}/{object}");
        let source =
            Box::new(StoreFault::Explained(format!("{path} was replaced while it was read: run again")));
        object_store::Error::Precondition { path, source }
    }

    /// Returns advice after a refusal, starting with a colon, or an empty text.
    fn advice(&self, answer: &StoreAnswer) -> String {
        let variables = match self.scheme.as_str() {
            "s3" | "s3a" => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
            "gs" => "GOOGLE_SERVICE_ACCOUNT",
            _ => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        };
        let bucket = &self.authority;
        match answer.code.as_str() {
            NO_CREDENTIALS => {
                format!(": set {variables}, since this machine has no role that gives credentials")
            }
            "NoSuchBucket" => format!(
                ": there is no bucket `{bucket}` at this endpoint: correct the URL, AWS_ENDPOINT or AWS_REGION"
            ),
            "SignatureDoesNotMatch" => {
                ": the secret does not belong to the key: correct AWS_SECRET_ACCESS_KEY".to_owned()
            }
            "InvalidAccessKeyId" | "NotSignedUp" => {
                ": the endpoint does not know this key: correct AWS_ACCESS_KEY_ID, or AWS_ENDPOINT".to_owned()
            }
            "ExpiredToken" | "InvalidToken" => {
                ": get new credentials and set AWS_SESSION_TOKEN with them".to_owned()
            }
            "RequestTimeTooSkewed" => ": correct this machine's clock".to_owned(),
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | REDIRECT => {
                format!(": the bucket `{bucket}` is in another region: correct AWS_REGION")
            }
            _ if matches!(answer.status, Some(401 | 403)) => {
                format!(": the credentials in {variables} do not allow this in `{bucket}`")
            }
            _ if answer.status == Some(501) => {
                ": this storage does not support the operation: use another one".to_owned()
            }
            _ => String::new(),
        }
    }
}

/// The end of the message of every transient error. Some readers pass on only the message.
pub(crate) const TRANSIENT: &str = "run again later";

/// The name of remote stores in errors.
pub(super) const STORE: &str = "storage";
const NO_CREDENTIALS: &str = "no credentials";
const REDIRECT: &str = "redirect";

/// Returns a transient error in a form that plans and Ballista recognise.
fn transient(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: Box::new(DataFusionError::IoError(error)) }
}

pub(super) fn is_transient(error: &object_store::Error) -> bool {
    matches!(find::<DataFusionError>(error), Some(DataFusionError::IoError(_)))
}

/// Whether the request may have been carried out: no answer came, or S3 reported a conflict with another request.
pub(super) fn lost(error: &object_store::Error) -> bool {
    let kind = find::<HttpError>(error).map(HttpError::kind);
    matches!(kind, Some(HttpErrorKind::Timeout | HttpErrorKind::Interrupted | HttpErrorKind::Unknown))
        || library_errors::is_conflict(&error.to_string())
}

#[derive(Debug)]
pub(super) enum StoreFault {
    /// An explained error. The text names the object.
    Explained(String),
    /// The reason why an answer is wrong. A retry does not help.
    Refused(String),
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Explained(text) | Self::Refused(text)) = self;
        f.write_str(text)
    }
}

impl StdError for StoreFault {}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    chain(error).find_map(|cause| cause.downcast_ref())
}

/// The answer of a store, parsed from the message of the client library, whose types are private.
struct StoreAnswer {
    status: Option<u16>,
    /// S3's error code, reduced to letters and digits, or a code of this program.
    code: String,
    message: String,
}

impl StoreAnswer {
    fn read(error: &object_store::Error) -> Self {
        let text = error.to_string();
        let status = library_errors::http_status(&text);
        let element = |name| library_errors::s3_element(&text, name).unwrap_or_default();
        let mut code = address::masked(element("Code"));
        code.retain(|c| c.is_ascii_alphanumeric());
        if library_errors::requested_url(&text).is_some_and(asks_for_a_role) {
            code = NO_CREDENTIALS.to_owned();
        } else if library_errors::is_bare_redirect(&text) || matches!(status, Some(300..=399)) {
            code = REDIRECT.to_owned();
        }
        // Masking comes first, because a truncated secret would not be recognised.
        let message = address::masked(element("Message")).chars().take(MESSAGE_CHARS).collect();
        Self { status, code, message }
    }

    /// Returns the kind of a failure after which the same request may succeed.
    fn transient(&self, error: &object_store::Error) -> Option<io::ErrorKind> {
        if self.code == NO_CREDENTIALS {
            return None;
        }
        if matches!(
            self.code.as_str(),
            "SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout"
        ) || matches!(self.status, Some(408 | 429 | 500 | 502..=599))
        {
            return Some(io::ErrorKind::Other);
        }
        if self.status.is_some() {
            return None;
        }
        let http = find::<HttpError>(error)?;
        // Waiting does not make a certificate valid.
        if library_errors::is_of_certificate(&one_line(http)) {
            return None;
        }
        Some(match http.kind() {
            HttpErrorKind::Timeout => io::ErrorKind::TimedOut,
            HttpErrorKind::Connect => io::ErrorKind::ConnectionRefused,
            _ => io::ErrorKind::ConnectionReset,
        })
    }

    /// Describes the failure in a few words.
    fn message(&self, error: &object_store::Error) -> String {
        let code = self.code.as_str();
        match (self.status, find::<HttpError>(error)) {
            _ if code == NO_CREDENTIALS => "there are no credentials".to_owned(),
            _ if code == REDIRECT => "the storage redirects to another place".to_owned(),
            (None, Some(http)) => format!("the connection failed ({})", address::masked(&one_line(http))),
            (status, _) if status.is_some() || !code.is_empty() => {
                let status = status.map(|status| format!(" {status}")).unwrap_or_default();
                let code = if code.is_empty() { String::new() } else { format!(" {code}") };
                let message =
                    if self.message.is_empty() { String::new() } else { format!(" ({})", self.message) };
                format!("the storage answered{status}{code}{message}")
            }
            _ => address::masked(&error.to_string()).chars().take(MESSAGE_CHARS).collect(),
        }
    }
}

/// Whether a request asks for the credentials of the machine's IAM role, by the hosts and paths that clouds use for it.
fn asks_for_a_role(url: &str) -> bool {
    let Some((_, place)) = url.split_once("://") else { return false };
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let host = host.split(':').next().unwrap_or_default();
    host.starts_with("169.254.")
        || matches!(host, "metadata" | "metadata.google.internal")
        || path.starts_with("latest/api/token")
        || path.starts_with("latest/meta-data/iam/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_url() -> BucketUrl {
        BucketUrl::try_new(&Url::parse("s3://bucket/a").unwrap()).unwrap()
    }

    fn answered(text: &str) -> object_store::Error {
        let source = io::Error::other(text.to_owned()).into();
        bucket_url().explain(Some(&Path::from("a/b")), object_store::Error::Generic { store: "S3", source })
    }

    fn root(error: object_store::Error) -> bool {
        let own: DataFusionError = Error::input("reading a failed").because(error).into();
        matches!(own.find_root(), DataFusionError::IoError(_))
    }

    #[test]
    fn a_transient_error_is_an_io_error_to_a_plan_and_names_the_object() {
        for answer in [
            "Error performing GET http://h/bucket/a in 5s - Server returned non-2xx status code: 503 Service Unavailable: \
             <Error><Code>SlowDown</Code><Message>slow</Message></Error>",
            "x - Server returned error response: <Error><Code>InternalError</Code></Error>",
            "Server returned non-2xx status code: 500 Internal Server Error: ",
        ] {
            let error = answered(answer);
            assert!(is_transient(&error), "{error}");
            assert!(error.to_string().contains("s3://bucket/a/b: the storage answered"), "{error}");
            assert!(root(error));
        }
        let error = answered("status code: 503 Service Unavailable: ");
        let text = error.to_string();
        assert_eq!(bucket_url().explain(None, error).to_string(), text);
    }

    #[test]
    fn a_final_error_is_not_an_io_error_and_has_advice() {
        let refused =
            |status: &str, code: &str| format!("status code: {status}: <Error><Code>{code}</Code></Error>");
        for (answer, advice) in [
            (refused("404 Not Found", "NoSuchBucket"), "no bucket `bucket`"),
            (refused("403 Forbidden", "AccessDenied"), "do not allow this in `bucket`"),
            (refused("403 Forbidden", "SignatureDoesNotMatch"), "AWS_SECRET_ACCESS_KEY"),
            (refused("403 Forbidden", "InvalidAccessKeyId"), "AWS_ACCESS_KEY_ID"),
            (refused("400 Bad Request", "ExpiredToken"), "AWS_SESSION_TOKEN"),
            ("Received redirect without LOCATION, this".into(), "AWS_REGION"),
            (
                "Error performing PUT http://169.254.169.254/latest/api/token in 5s".into(),
                "AWS_ACCESS_KEY_ID",
            ),
        ] {
            let error = answered(&answer);
            assert!(!is_transient(&error), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
            assert!(!root(error));
        }
    }
}
