//! Variables that cannot be used: each is named, and no value is repeated.

use resemblance::error::Error;

use super::*;

/// Values that no header and no URL can hold.
const UNPRINTABLE: [&str; 7] = ["\n", "a\nb", "hush\r\nx: y", "\u{0}", "\u{7f}", "ä", "\u{feff}"];

/// Plausible values, for variables that are quick to try.
const PRINTABLE: [&str; 13] = [
    " ",
    "http://",
    "https://",
    "://",
    "99999",
    "http://127.0.0.1:99999",
    "http://hush@127.0.0.1:1",
    "http://[::1",
    "http://a b",
    "file:///hush",
    "-1",
    "%",
    "{\"hush\": 1}",
];

/// All that the client reads, and one that it does not.
const NAMES: &str = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_TOKEN AWS_REGION AWS_DEFAULT_REGION \
     AWS_BUCKET AWS_ENDPOINT AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL_STS \
     AWS_VIRTUAL_HOSTED_STYLE_REQUEST AWS_S3_EXPRESS AWS_IMDSV1_FALLBACK AWS_METADATA_ENDPOINT \
     AWS_UNSIGNED_PAYLOAD AWS_CHECKSUM_ALGORITHM AWS_CONTAINER_CREDENTIALS_RELATIVE_URI \
     AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE AWS_WEB_IDENTITY_TOKEN_FILE \
     AWS_ROLE_ARN AWS_ROLE_SESSION_NAME AWS_SKIP_SIGNATURE AWS_COPY_IF_NOT_EXISTS AWS_CONDITIONAL_PUT \
     AWS_DISABLE_TAGGING AWS_REQUEST_PAYER AWS_SERVER_SIDE_ENCRYPTION AWS_SSE_KMS_KEY_ID \
     AWS_SSE_BUCKET_KEY_ENABLED AWS_SSE_CUSTOMER_KEY_BASE64 AWS_ALLOW_HTTP AWS_ALLOW_INVALID_CERTIFICATES \
     AWS_CONNECT_TIMEOUT AWS_TIMEOUT AWS_DEFAULT_CONTENT_TYPE AWS_HTTP1_ONLY AWS_POOL_IDLE_TIMEOUT \
     AWS_POOL_MAX_IDLE_PER_HOST AWS_PROXY_URL AWS_PROXY_EXCLUDES AWS_USER_AGENT AWS_RANDOMIZE_ADDRESSES \
     AWS_SOMETHING_ELSE";

/// No server listens there, so that each request ends at once, also if the endpoint is ignored.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"),
    ("AWS_ACCESS_KEY_ID", "id"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("AWS_ENDPOINT", "http://127.0.0.1:1"),
    ("AWS_ALLOW_HTTP", "true"),
    ("RESEMBLANCE_RETRY_SECONDS", "0"),
    ("RESEMBLANCE_REQUEST_SECONDS", "1"),
];

/// A store with these variables, the last of each name, asked for one object.
async fn ask(variables: Vec<(&str, &str)>) -> Result<(), Error> {
    let variables = crate::support::variables(&variables).into_iter().collect();
    let store = stores::registry_of(variables).get_store(&"s3://bucket".parse().unwrap())?;
    use object_store::ObjectStoreExt;
    store.head(&object_store::path::Path::from("a")).await?;
    Ok(())
}

/// Every variable, with every absurd value: an error, and no panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_variable_makes_a_panic_or_repeats_its_value() {
    use futures::StreamExt;
    let cases = NAMES.split(' ').flat_map(|name| {
        // Whatever is taken costs the making of a client.
        let url = ["ENDPOINT", "URI", "REGION"].iter().any(|part| name.contains(part));
        let printable = if url { &PRINTABLE[..] } else { &["18446744073709551616"] };
        UNPRINTABLE.iter().chain(printable).map(move |nasty| (name, *nasty))
    });
    let asked = futures::stream::iter(cases).map(|(name, nasty)| async move {
        let error =
            ask([&ENVIRONMENT[..], &[(name, nasty)]].concat()).await.expect_err("nobody listens there");
        assert!(!format!("{error:?}").contains("hush"), "{name}: {error:?}");
    });
    let count = asked.buffer_unordered(32).count().await;
    assert!(count > 8 * 45);
}

#[tokio::test]
async fn unusable_reference_outputs_are_named() {
    for (name, value) in [
        ("AWS_ENDPOINT", "127.0.0.1:9000"),
        ("AWS_ENDPOINT", "hush.example.org"),
        ("AWS_ENDPOINT", "http://"),
        ("AWS_ENDPOINT_URL", "http://hush:99999"),
        ("AWS_ENDPOINT_URL_S3", "https://me:hush@example.org"),
        ("AWS_ENDPOINT", "https://example.org/?hush"),
        ("AWS_ACCESS_KEY_ID", "hush\nhush"),
        ("AWS_SECRET_ACCESS_KEY", "hush\nhush"),
        ("AWS_SESSION_TOKEN", "hush\r\nhush"),
        ("AWS_REGION", "hush east"),
        ("AWS_REGION", "hush.example.org/"),
        ("AWS_DEFAULT_REGION", "hu\nsh"),
        ("AWS_SKIP_SIGNATURE", "hush"),
        ("AWS_ALLOW_HTTP", "hush"),
        ("AWS_POOL_IDLE_TIMEOUT", "hush"),
    ] {
        let mut variables = ENVIRONMENT.to_vec();
        variables.retain(|(name, _)| !name.starts_with("AWS_ENDPOINT"));
        variables.push((name, value));
        let error = ask(variables).await.unwrap_err();
        assert_eq!(error.kind().exit_code(), 2, "{name}: {error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(name) && !text.contains("hush"), "{name}: {text}");
    }
}

/// Values with a line end, as in files that are mounted as secrets.
#[test]
fn a_line_break_at_the_end_of_a_value_is_no_part_of_it() {
    let corpus = Corpus::new(60, 30);
    let broken: Vec<(String, String)> =
        corpus.s3.env().into_iter().map(|(name, value)| (name, format!("{value}\n"))).collect();
    run_to(&broken, &corpus.job, &corpus.s3.url("out"), &[]).shown(&[]);
    corpus.check("out");
}
