//! The clients of stores, from the variables of the environment: S3, and Google Cloud Storage and Azure Blob Storage, each behind a
//! feature of its own.
//!
//! The client of S3 takes the `AWS_` variables unchecked and panics at the first request if one cannot be part of a URL or a header.
//! So they are checked here. Errors name the variable and never its value, which may be a secret.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use super::connector::{CHECKSUM_MODE, Connector, switch};
use super::explain::BucketUrl;
use crate::environment::{AWS, Environment, REQUEST, RETRY};
use crate::error::{Error, Result};

const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time bounds the attempts; this only keeps them finite.
const ATTEMPTS: usize = 1_000;

/// Time limits of requests to a store.
pub(super) struct RetryPolicy {
    retry: Duration,
    request: Duration,
}

impl RetryPolicy {
    /// The limits that the environment sets, or the defaults.
    ///
    /// # Errors
    /// When a variable is not a number of seconds.
    pub(super) fn of(environment: &Environment) -> Result<Self> {
        let seconds = |variable| environment.seconds(variable).map(Duration::from_secs);
        Ok(Self { retry: seconds(&RETRY)?, request: seconds(&REQUEST)? })
    }

    /// The same policy with at most `most` seconds of retries.
    pub(super) fn at_most(&self, most: u64) -> Self {
        Self { retry: self.retry.min(Duration::from_secs(most)), request: self.request }
    }

    pub(super) fn retries(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: ATTEMPTS,
            retry_timeout: self.retry,
        }
    }

    pub(super) fn client(&self) -> ClientOptions {
        ClientOptions::new().with_connect_timeout(CONNECT).with_timeout(self.request)
    }
}

/// Seconds to wait for the role of a machine.
const ROLE_SECONDS: u64 = 10;

/// The client for the bucket of `bucket_url`, and the client that reads objects, which sends the header for their checksums
/// with every request: no other request may carry it.
///
/// Credentials are, in this order: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), a web identity
/// (AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN), a container's role, the machine's role.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when the variables contradict each other.
pub(super) fn s3(
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<[AmazonS3; 2]> {
    let builder = configured(bucket_url, environment, policy, HeaderMap::new())?;
    let (name, value) = CHECKSUM_MODE;
    let asking = [(HeaderName::from_static(name), HeaderValue::from_static(value))];
    let reads = configured(bucket_url, environment, policy, HeaderMap::from_iter(asking))?;
    let wrong = |_: object_store::Error| blame(environment);
    if environment.get("AWS_ACCESS_KEY_ID").is_some() || environment.get("AWS_SKIP_SIGNATURE").is_some() {
        return Ok([builder.build().map_err(wrong)?, reads.build().map_err(wrong)?]);
    }
    // A machine without a role does not answer, so its role is requested for a shorter time than a store's answers.
    let asks = builder.clone().with_retry(policy.at_most(ROLE_SECONDS).retries()).build().map_err(wrong)?;
    let with_role = |builder: AmazonS3Builder| builder.with_credentials(asks.credentials().clone()).build();
    Ok([with_role(builder).map_err(wrong)?, with_role(reads).map_err(wrong)?])
}

fn configured(
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
    headers: HeaderMap,
) -> Result<AmazonS3Builder> {
    check_variables(environment)?;
    check_credentials(environment)?;
    if !is_url(&format!("https://{0}.s3.amazonaws.com/{0}", bucket_url.bucket())) {
        return Err(Error::job(format!(
            "`{}` cannot be the name of a bucket: correct the URL",
            bucket_url.bucket()
        )));
    }
    let mut builder = AmazonS3Builder::new()
        .with_client_options(policy.client().with_default_headers(headers))
        .with_retry(policy.retries())
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_http_connector(Connector(Arc::clone(bucket_url)));
    for (_, value, key) in taken(environment) {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_bucket_name(bucket_url.bucket());
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key));
    let plain = endpoint.is_some_and(|url| url.trim().to_ascii_lowercase().starts_with("http://"));
    let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    if plain && allowed.and_then(|value| switch(&value)) != Some(true) {
        return Err(Error::job(
            "the endpoint in AWS_ENDPOINT or AWS_ENDPOINT_URL starts with http://, which sends documents unencrypted: set \
             AWS_ALLOW_HTTP=true if that is meant, or use https://",
        ));
    }
    Ok(builder)
}

/// Refuses credentials that are incomplete, or in a profile.
fn check_credentials(environment: &Environment) -> Result<()> {
    let has = |name| environment.get(name).is_some();
    match (has("AWS_ACCESS_KEY_ID"), has("AWS_SECRET_ACCESS_KEY")) {
        (true, false) => {
            Err(Error::job("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not: set both or neither"))
        }
        (false, true) => {
            Err(Error::job("AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not: set both or neither"))
        }
        (false, false) if has("AWS_PROFILE") && !has("AWS_WEB_IDENTITY_TOKEN_FILE") => Err(Error::job(
            "AWS_PROFILE names a profile, but profile files are not read: put its keys into the environment with `eval \
             \"$(aws configure export-credentials --format env)\"`, or unset it",
        )),
        _ => Ok(()),
    }
}

/// The variables that the client knows, with their values and its keys for them.
fn taken(environment: &Environment) -> impl Iterator<Item = (&str, &str, AmazonS3ConfigKey)> {
    environment.starting(AWS).filter_map(|(name, value)| {
        let key = name.to_ascii_lowercase().parse().ok()?;
        // The URL names the bucket.
        (key != AmazonS3ConfigKey::Bucket).then_some((name, value, key))
    })
}

/// Checks every variable that the client knows.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), which names the variable.
fn check_variables(environment: &Environment) -> Result<()> {
    for (name, value, key) in taken(environment) {
        check_value(key, value).map_err(|expected| {
            Error::job(format!(
                "the variable {name} cannot be used: expected {expected}; correct it or unset it"
            ))
        })?;
    }
    Ok(())
}

/// The error that names the variable with which no client can be made: the client's own errors repeat values.
fn blame(environment: &Environment) -> Error {
    let alone = |key, value: &str| {
        AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_access_key_id("id")
            .with_secret_access_key("secret")
            .with_config(key, value)
            .build()
    };
    let names = |wrong: &dyn Fn(AmazonS3ConfigKey, &str) -> bool| -> Vec<&str> {
        taken(environment).filter(|(_, value, key)| wrong(*key, value)).map(|(name, _, _)| name).collect()
    };
    let wrong = names(&|key, value| alone(key, value).is_err());
    match wrong.as_slice() {
        [] => Error::job(format!(
            "the variables {} do not fit together: correct them, or unset those that are not needed",
            names(&|_, _| true).join(", ")
        )),
        [name, ..] => Error::job(format!("the variable {name} has an unknown value: correct it or unset it")),
    }
}

/// Checks a value; the error is what was expected.
fn check_value(key: AmazonS3ConfigKey, value: &str) -> Result<(), &'static str> {
    use AmazonS3ConfigKey as K;
    let fits = |fits: bool, expected| if fits { Ok(()) } else { Err(expected) };
    match key {
        K::Endpoint
        | K::S3Endpoint
        | K::StsEndpoint
        | K::MetadataEndpoint
        | K::ContainerCredentialsFullUri => check_endpoint(value),
        K::ContainerCredentialsRelativeUri => fits(
            value.starts_with('/') && is_url(&format!("http://169.254.170.2{value}")),
            "a path that starts with /",
        ),
        K::Region | K::DefaultRegion => fits(
            value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                && is_url(&format!("https://s3.{value}.amazonaws.com")),
            "the name of a region, such as us-east-1",
        ),
        K::SecretAccessKey | K::WebIdentityTokenFile | K::ContainerAuthorizationTokenFile => {
            fits(!value.contains(char::is_control), "one line without control characters")
        }
        K::Client(ClientConfigKey::ProxyCaCertificate) => Ok(()),
        _ => fits(
            value.chars().all(|c| c == ' ' || c.is_ascii_graphic()),
            "one line of ASCII without control characters",
        ),
    }
}

fn check_endpoint(value: &str) -> Result<(), &'static str> {
    let lower = value.to_ascii_lowercase();
    if !lower.starts_with("https://") && !lower.starts_with("http://") {
        return Err("a URL that starts with https:// or http://");
    }
    let expected = "a URL such as https://host or https://host:9000";
    let url = Url::parse(value).map_err(|_| expected)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL without a name or a password in it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a URL without ? and #");
    }
    if is_url(value) && is_url(&format!("{}/bucket", value.trim_end_matches('/'))) {
        Ok(())
    } else {
        Err(expected)
    }
}

/// Whether both libraries that the client hands a URL to can read it.
fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let host = uri.host().is_some_and(|host| !host.is_empty());
    host && uri.scheme().is_some() && Url::parse(&uri.to_string()).is_ok_and(|url| url.has_host())
}

/// The client for a bucket of Google Cloud Storage, from the variables that start with `GOOGLE_`.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when the variables contradict each other.
#[cfg(feature = "gcs")]
pub(super) fn google(
    bucket_url: &BucketUrl,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

    let mut builder =
        GoogleCloudStorageBuilder::new().with_client_options(policy.client()).with_retry(policy.retries());
    if let Some(path) = environment.get("SERVICE_ACCOUNT") {
        builder = builder.with_service_account_path(path);
    }
    for (name, value) in environment.starting(crate::environment::GOOGLE) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    match builder.with_bucket_name(bucket_url.bucket()).build() {
        Ok(store) => Ok(Arc::new(store)),
        Err(e) => Err(wrong(bucket_url, "GOOGLE_", e)),
    }
}

/// The client for a container of Azure Blob Storage, from the variables that start with `AZURE_`.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when the variables contradict each other.
#[cfg(feature = "azure")]
pub(super) fn azure(
    url: &Url,
    bucket_url: &BucketUrl,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

    let mut builder =
        MicrosoftAzureBuilder::new().with_client_options(policy.client()).with_retry(policy.retries());
    for (name, value) in environment.starting(crate::environment::AZURE) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    // The URL names the container, and the account if its scheme has a place for it.
    match builder.with_url(url.as_str()).build() {
        Ok(store) => Ok(Arc::new(store)),
        Err(e) => Err(wrong(bucket_url, "AZURE_", e)),
    }
}

#[cfg(any(feature = "gcs", feature = "azure"))]
fn wrong(bucket_url: &BucketUrl, prefix: &str, e: object_store::Error) -> Error {
    Error::job(format!("{bucket_url} cannot be used: correct the variables that start with {prefix}"))
        .because(bucket_url.explain(None, e))
}

/// The error for a feature that is not built in.
#[cfg(not(feature = "gcs"))]
pub(super) fn google(
    bucket_url: &BucketUrl,
    _: &Environment,
    _: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    Err(not_built_in(bucket_url, "gcs"))
}

/// The error for a feature that is not built in.
#[cfg(not(feature = "azure"))]
pub(super) fn azure(
    _: &Url,
    bucket_url: &BucketUrl,
    _: &Environment,
    _: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    Err(not_built_in(bucket_url, "azure"))
}

#[cfg(not(all(feature = "gcs", feature = "azure")))]
fn not_built_in(bucket_url: &BucketUrl, feature: &str) -> Error {
    Error::job(format!(
        "{bucket_url} needs the feature `{feature}`, which this program was built without: build it with \
         `cargo build --release --features {feature}`"
    ))
}
