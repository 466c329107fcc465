//! Parses the messages of errors in other libraries. This is necessary if the type of an error is private, or is lost between processes.
//! The tests make the library produce each message, so they fail if an upgrade changes a message. The messages of the TOML parser are in
//! `job::toml_errors`.

use http::StatusCode;

/// Returns the HTTP status from an error of `object_store`: `Server returned non-2xx status code: 503 Service Unavailable: BODY`.
pub(crate) fn http_status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Describes a refused request in the words of `object_store`, so that [`http_status`] and [`s3_element`] can parse the message.
pub(crate) fn http_refusal(status: StatusCode, body: &str) -> String {
    format!("Server returned non-2xx status code: {status}: {body}")
}

/// Returns the content of an XML element, such as `Code` or `Message`, of the S3 error that an `object_store` message repeats.
pub(crate) fn s3_element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

/// Returns whether `object_store` received a redirect without a location.
pub(crate) fn is_bare_redirect(text: &str) -> bool {
    text.contains("redirect without LOCATION")
}

/// Returns the URL in the message of an `object_store` error, such as `Error performing GET http://host/path in 5s`.
pub(crate) fn requested_url(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("://")?;
    let scheme = before.rsplit(' ').next().unwrap_or_default().len();
    text.get(before.len() - scheme..)?
        .get(..scheme + 3 + rest.find(char::is_whitespace).unwrap_or(rest.len()))
}

/// Returns whether S3 refused a conditional request because of a concurrent request.
pub(crate) fn is_conflict(text: &str) -> bool {
    text.contains("ConditionalRequestConflict")
}

/// Returns whether rustls refused the certificate of a server.
pub(crate) fn is_of_certificate(text: &str) -> bool {
    text.contains("certificate")
}

/// Returns whether Ballista gave up a task after several attempts because of an error that it considers transient.
#[cfg(feature = "cluster")]
pub(crate) fn is_passing_in_ballista(text: &str) -> bool {
    text.contains("Task failed due to IO error")
}

/// Returns whether the debug text of a DataFusion error reports that a memory pool is too small.
#[cfg(feature = "cluster")]
pub(crate) fn is_exhausted_pool(text: &str) -> bool {
    text.contains("ResourcesExhausted")
}

/// Returns whether a task belongs to a repeated attempt of a query stage. Ballista names tasks `TID job/stage.attempt/task.attempt`. Only a
/// private loop in the executor creates such names, so no unit test can produce such a name. The tests of lost executors fail if this
/// function is wrong.
#[cfg(feature = "cluster")]
pub(crate) fn is_rerun_stage(task: &str) -> bool {
    let attempt = task.split('/').nth(1).and_then(|stage| stage.split_once('.'));
    attempt.is_some_and(|(_, attempt)| attempt != "0")
}

/// Removes the location from a message of `serde_json`, such as `MESSAGE at line 1 column 5`.
pub(crate) fn json_without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or_default()
}

/// Expresses the location in a message of `serde_json` as a byte position. The JSON text must be a single line.
pub(crate) fn json_at_byte(message: &str) -> String {
    message.replace(" at line 1 column ", " at byte ")
}

/// Returns whether the message of an error only repeats the message of its cause after a label, as in `Arrow error: ...`.
pub(crate) fn is_label_of(message: &str, cause: &str) -> bool {
    let is_label =
        |label: &str| label.is_empty() || label.ends_with("error: ") || label.ends_with("caused by\n");
    message.strip_suffix(cause).is_some_and(is_label) || message.starts_with("SQL error: ")
}

/// Removes DataFusion's labels, its request to report a bug, and its advice to set an option from a message. If the message contained any
/// of these, the result is a single line.
pub(crate) fn without_labels(message: &str) -> String {
    const LABELS: [&str; 6] = [
        "Error during planning: ",
        "Execution error: ",
        "Internal error: ",
        "sql parser error: ",
        " or disable the datafusion.sql_parser.enable_ident_normalization configuration",
        "This issue was likely caused by a bug in DataFusion's code. Please help us to resolve this by filing a bug report in our \
         issue tracker: https://github.com/apache/datafusion/issues",
    ];
    let plain = LABELS
        .iter()
        .fold(message.replace("\nValid fields", " Valid fields"), |text, label| text.replace(label, ""));
    // A message of this program may contain values from the data, which must not change.
    if plain == message {
        plain
    } else {
        plain.replace("Utf8View", "text").replace('\n', " ").replace('\t', "")
    }
}

/// Returns the name of a function and the types of its arguments from a DataFusion error that refuses these types: `... argument types
/// 'avg(text)'`.
pub(crate) fn refused_types(message: &str) -> Option<(&str, Vec<&str>)> {
    let (_, call) = message.split_once("argument types '")?;
    let (name, types) = call.split_once(")'")?.0.split_once('(')?;
    Some((name, types.split(", ").collect()))
}

/// Returns whether a message of the operating system reports missing permissions, for an error whose type was lost.
pub(crate) fn is_no_permission(message: &str) -> bool {
    // EACCES and EROFS.
    cfg!(unix) && (message.contains("(os error 13)") || message.contains("(os error 30)"))
}

/// Returns whether a message of the operating system reports a full disk, for an error whose type was lost.
pub(crate) fn is_full_disk(message: &str) -> bool {
    // ENOSPC and EDQUOT.
    cfg!(target_os = "linux") && (message.contains("(os error 28)") || message.contains("(os error 122)"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use object_store::aws::{AmazonS3, AmazonS3Builder};
    use object_store::path::Path;
    use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig};

    use super::*;
    use crate::error::one_line;

    /// Starts a server on the loopback interface and returns its address. The server passes each connection to `serve`.
    fn server(serve: impl Fn(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || listener.incoming().for_each(|connection| serve(connection.unwrap())));
        address
    }

    /// Starts a server that answers every request in this way and closes the connection. Returns the URL of the server.
    fn answering(status: &str, body: &str) -> String {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let address = server(move |connection| {
            let mut lines = BufReader::new(&connection).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = (&connection).write_all(answer.as_bytes());
        });
        format!("http://{address}")
    }

    fn builder(endpoint: &str) -> AmazonS3Builder {
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        AmazonS3Builder::new()
            .with_endpoint(endpoint)
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_region("us-east-1")
            .with_bucket_name("bucket")
            .with_retry(retry)
    }

    fn store(endpoint: &str) -> AmazonS3 {
        builder(endpoint).with_access_key_id("id").with_secret_access_key("secret").build().unwrap()
    }

    async fn get(store: &AmazonS3) -> object_store::Error {
        match store.get(&Path::from("a")).await {
            Ok(got) => got.bytes().await.unwrap_err(),
            Err(error) => error,
        }
    }

    #[tokio::test]
    async fn refusals_of_a_store() {
        let body = "<Error><Code>AccessDenied</Code><Message>not you</Message></Error>";
        let at = answering("403 Forbidden", body);
        let text = get(&store(&at)).await.to_string();
        assert_eq!(http_status(&text), Some(403), "{text}");
        assert_eq!(s3_element(&text, "Code"), Some("AccessDenied"), "{text}");
        assert_eq!(s3_element(&text, "Message"), Some("not you"), "{text}");
        assert!(text.contains(&http_refusal(StatusCode::FORBIDDEN, body)), "{text}");
        assert_eq!(requested_url(&text), Some(format!("{at}/bucket/a").as_str()), "{text}");
        let text = get(&store(&answering("503 Service Unavailable", ""))).await.to_string();
        assert_eq!((http_status(&text), s3_element(&text, "Code")), (Some(503), None), "{text}");
        let text = get(&store(&answering("301 Moved Permanently", ""))).await.to_string();
        assert!(is_bare_redirect(&text), "{text}");
    }

    #[tokio::test]
    async fn a_conflict_of_conditional_requests() {
        let at = answering("409 Conflict", "<Error><Code>ConditionalRequestConflict</Code></Error>");
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = store(&at).put_opts(&Path::from("a"), "a".into(), create).await;
        let text = put.unwrap_err().to_string();
        assert!(is_conflict(&text), "{text}");
    }

    #[tokio::test]
    async fn a_request_for_the_role_of_a_machine() {
        let at = answering("404 Not Found", "");
        let store = builder("http://127.0.0.1:1").with_metadata_endpoint(&at).build().unwrap();
        let text = get(&store).await.to_string();
        assert_eq!(requested_url(&text), Some(format!("{at}/latest/api/token").as_str()), "{text}");
    }

    /// Returns the server's half of a TLS 1.2 handshake, with random bytes for the certificate and the signature.
    fn handshake_with_no_certificate() -> Vec<u8> {
        let message = |kind: u8, body: &[u8]| [&[kind, 0, 0, body.len() as u8], body].concat();
        // The fields of the hello: TLS 1.2, a random number, no session, ECDHE_RSA_WITH_AES_128_GCM_SHA256, no compression.
        let hello = [&[3, 3][..], &[7; 32], &[0, 0xc0, 0x2f, 0]].concat();
        let certificate = [0, 0, 7, 0, 0, 4, 1, 2, 3, 4];
        // The fields of the key exchange: the named curve x25519, a point, RSA with SHA-256, a signature.
        let key_exchange = [&[3, 0, 0x1d, 32][..], &[9; 32], &[4, 1, 0, 4, 1, 2, 3, 4]].concat();
        let (certificate, key_exchange) = (message(11, &certificate), message(12, &key_exchange));
        let messages = [message(2, &hello), certificate, key_exchange, message(14, &[])].concat();
        [&[22, 3, 3, 0, messages.len() as u8][..], &messages].concat()
    }

    #[tokio::test]
    async fn a_certificate_that_is_not_valid() {
        let at = server(|mut connection| {
            let mut hello = [0; 4096];
            if connection.read(&mut hello).is_ok() {
                let _ = connection.write_all(&handshake_with_no_certificate());
                // Waits until the client has read all bytes and closes the connection.
                while connection.read(&mut hello).is_ok_and(|read| read > 0) {}
            }
        });
        let text = one_line(&get(&store(&format!("https://{at}"))).await);
        assert!(is_of_certificate(&text), "{text}");
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn failed_tasks_in_ballista() {
        use std::sync::Arc;

        use ballista_core::error::BallistaError;
        use ballista_core::serde::protobuf::FailedTask;
        use datafusion::error::DataFusionError;
        use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

        let failed =
            |error: DataFusionError| FailedTask::from(BallistaError::DataFusionError(Box::new(error))).error;
        let reset = failed(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
        assert!(is_passing_in_ballista(&reset) && !is_exhausted_pool(&reset), "{reset}");
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1));
        let exhausted = failed(MemoryConsumer::new("test").register(&pool).try_grow(2).unwrap_err());
        assert!(is_exhausted_pool(&exhausted) && !is_passing_in_ballista(&exhausted), "{exhausted}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk() {
        use rustix::io::Errno;
        for (code, is_full) in [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::IO, false)] {
            let text = std::io::Error::from(code).to_string();
            assert_eq!(is_full_disk(&text), is_full, "{text}");
        }
        let written = std::fs::File::options().write(true).open("/dev/full").unwrap().write_all(b"x");
        assert!(is_full_disk(&written.unwrap_err().to_string()));
    }

    #[test]
    fn lines_that_are_not_json() {
        let message = serde_json::from_str::<serde_json::Value>("{\"a\": nil}").unwrap_err().to_string();
        assert_eq!(json_at_byte(&message), "expected ident at byte 8");
        assert_eq!(json_without_place(&message), "expected ident");
    }
}
