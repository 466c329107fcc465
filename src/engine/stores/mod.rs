//! Object stores, which are created from URLs on first use. The stores are the same for drivers, schedulers and executors.
//!
//! | URL | store | feature |
//! |---|---|---|
//! | `file://` | this machine | |
//! | `s3://bucket/`, `s3a://bucket/` | S3 and compatible stores | |
//! | `gs://bucket/` | Google Cloud Storage | `gcs` |
//! | `az://container/`, `abfss://container@account.dfs.core.windows.net/` | Azure Blob Storage | `azure` |
//!
//! Credentials come only from the environment of the process. Plans and settings contain none. The client of S3 takes the `AWS_` variables
//! unchecked. It panics at the first request if one cannot be part of a URL or a header. So the variables are checked here. Errors name the
//! variable but never its value, which may be a secret.

mod checked_http;
mod errors;
mod remote;
mod retries;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::object_store::ObjectStoreRegistry;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use parking_lot::Mutex;
use url::Url;

use crate::address;
use crate::environment::{AWS, Environment, names_variable};
use crate::error::{Error, Kind, Result, chain};
use checked_http::{CHECKSUM_MODE, Connector, switch};
use errors::BucketUrl;
#[cfg(feature = "cluster")]
pub(super) use errors::TRANSIENT;
use remote::Remote;
pub(crate) use remote::uploads_ended;
use retries::RetryPolicy;

/// Returns a registry that creates each store once, with credentials from the environment of this process. If `process` is given, errors
/// about the environment name it, because a plan opens stores in the process that decodes it.
pub(super) fn registry(process: Option<String>) -> Arc<dyn ObjectStoreRegistry> {
    Arc::new(Registry { environment: Environment::process().clone(), process, stores: Mutex::default() })
}

/// Returns a registry that uses `variables` as the environment.
pub fn registry_of(variables: BTreeMap<String, String>) -> Arc<dyn ObjectStoreRegistry> {
    Arc::new(Registry { environment: Environment::new(variables), process: None, stores: Mutex::default() })
}

/// Returns an error that says that the environment of another process is wrong, so that users do not change their own.
pub(super) fn environment_error(process: &str, kind: Kind, cause: Error) -> Error {
    let message = format!(
        "{process} cannot use the storage: correct the variables of its environment, not of this process's"
    );
    Error::new(kind, message).because(cause)
}

struct Registry {
    environment: Environment,
    process: Option<String>,
    stores: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment contains secrets.
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

fn key(url: &Url) -> String {
    url[..url::Position::BeforePath].to_owned()
}

impl ObjectStoreRegistry for Registry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.stores.lock().insert(key(url), store)
    }

    fn deregister_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        let removed = self.stores.lock().remove(&key(url));
        removed.ok_or_else(|| Error::bug(format!("no store was registered for {}", url.scheme())).into())
    }

    fn get_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(&key(url)) {
            return Ok(Arc::clone(store));
        }
        let opened = open(url, &self.environment).map_err(|error| match &self.process {
            Some(process) if chain(&error).any(|cause| names_variable(&cause.to_string())) => {
                environment_error(process, error.kind(), error)
            }
            _ => error,
        });
        let store = opened.map_err(DataFusionError::from)?;
        stores.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

/// Returns a store twice, for all requests and for reading objects.
#[cfg(any(feature = "gcs", feature = "azure"))]
fn twice(store: Arc<dyn ObjectStore>) -> [Arc<dyn ObjectStore>; 2] {
    [Arc::clone(&store), store]
}

fn open(url: &Url, environment: &Environment) -> Result<Arc<dyn ObjectStore>> {
    address::check(url.as_str()).map_err(|why| Error::job(format!("a URL {why}")))?;
    if url.scheme() == "file" {
        return Ok(Arc::new(LocalFileSystem::new()));
    }
    let policy = RetryPolicy::from_environment(environment)?;
    let bucket_url = Arc::new(BucketUrl::try_new(url)?);
    let [inner, reads]: [Arc<dyn ObjectStore>; 2] = match url.scheme() {
        "s3" | "s3a" => {
            let [inner, reads] = s3(&bucket_url, environment, &policy)?;
            [Arc::new(inner), Arc::new(reads)]
        }
        #[cfg(feature = "gcs")]
        "gs" => twice(google(&bucket_url, environment, &policy)?),
        #[cfg(not(feature = "gcs"))]
        "gs" => return Err(not_built_in(&bucket_url, "gcs")),
        #[cfg(feature = "azure")]
        "az" | "abfs" | "abfss" => twice(azure(url, &bucket_url, environment, &policy)?),
        #[cfg(not(feature = "azure"))]
        "az" | "abfs" | "abfss" => return Err(not_built_in(&bucket_url, "azure")),
        other => {
            return Err(Error::job(format!(
                "`{other}://` is not a known storage: expected a path, or a URL that starts with s3://, gs://, az:// \
                 or abfss://"
            )));
        }
    };
    Ok(Arc::new(Remote { inner, reads, bucket_url }))
}

/// The maximum time to wait for the credentials of the machine's IAM role.
const ROLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the client for the bucket of `bucket_url`, and the client for reading objects, which asks for checksums with every request.
/// Other requests must not have this header.
///
/// Credentials come from the first of these sources: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), a web identity
/// (AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN), the IAM role of a container, or of the machine. Fails with `Kind::Job` if the
/// variables contradict each other.
fn s3(bucket_url: &Arc<BucketUrl>, environment: &Environment, policy: &RetryPolicy) -> Result<[AmazonS3; 2]> {
    let builder = configured(bucket_url, environment, policy, HeaderMap::new())?;
    let (name, value) = CHECKSUM_MODE;
    let asking = [(HeaderName::from_static(name), HeaderValue::from_static(value))];
    let reads = configured(bucket_url, environment, policy, HeaderMap::from_iter(asking))?;
    let wrong = |_: object_store::Error| blame(environment);
    if environment.get("AWS_ACCESS_KEY_ID").is_some() || environment.get("AWS_SKIP_SIGNATURE").is_some() {
        return Ok([builder.build().map_err(wrong)?, reads.build().map_err(wrong)?]);
    }
    // A machine without an IAM role does not answer, so this time limit is shorter than the limit for a store.
    let retries = RetryConfig { retry_timeout: policy.retry.min(ROLE_TIMEOUT), ..policy.retries() };
    let asks = builder.clone().with_retry(retries).build().map_err(wrong)?;
    let with_role = |builder: AmazonS3Builder| builder.with_credentials(asks.credentials().clone()).build();
    Ok([with_role(builder).map_err(wrong)?, with_role(reads).map_err(wrong)?])
}

fn configured(
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
    headers: HeaderMap,
) -> Result<AmazonS3Builder> {
    for (name, value, key) in known_variables(environment) {
        check_value(key, value).map_err(|expected| {
            Error::job(format!(
                "the variable {name} cannot be used: expected {expected}; correct it or unset it"
            ))
        })?;
    }
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
    for (_, value, key) in known_variables(environment) {
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

/// Refuses incomplete credentials, and credentials in a profile.
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

/// Returns the variables that the client supports, with their values and keys.
fn known_variables(environment: &Environment) -> impl Iterator<Item = (&str, &str, AmazonS3ConfigKey)> {
    environment.starting(AWS).filter_map(|(name, value)| {
        let key = name.to_ascii_lowercase().parse().ok()?;
        // The URL names the bucket.
        (key != AmazonS3ConfigKey::Bucket).then_some((name, value, key))
    })
}

/// Returns the error for the variable that keeps a client from being created. The client's own errors would repeat the value.
fn blame(environment: &Environment) -> Error {
    let is_usable = |key, value: &str| {
        let builder = AmazonS3Builder::new().with_bucket_name("bucket").with_config(key, value);
        builder.with_access_key_id("id").with_secret_access_key("secret").build().is_ok()
    };
    if let Some((name, ..)) = known_variables(environment).find(|(_, value, key)| !is_usable(*key, value)) {
        return Error::job(format!("the variable {name} has an unknown value: correct it or unset it"));
    }
    let names: Vec<&str> = known_variables(environment).map(|(name, ..)| name).collect();
    Error::job(format!(
        "the variables {} do not fit together: correct them, or unset those that are not needed",
        names.join(", ")
    ))
}

/// Checks a value. The error describes the expected value.
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
    let fits = is_url(value) && is_url(&format!("{}/bucket", value.trim_end_matches('/')));
    if fits { Ok(()) } else { Err(expected) }
}

/// Whether both libraries that receive the URL can parse it.
fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let host = uri.host().is_some_and(|host| !host.is_empty());
    host && uri.scheme().is_some() && Url::parse(&uri.to_string()).is_ok_and(|url| url.has_host())
}

/// Returns the client for a bucket of Google Cloud Storage, from the `GOOGLE_` variables. Fails with `Kind::Job` if they contradict each
/// other.
#[cfg(feature = "gcs")]
fn google(
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

    let mut builder = GoogleCloudStorageBuilder::new()
        .with_client_options(policy.client())
        .with_retry(policy.retries())
        .with_http_connector(Connector(Arc::clone(bucket_url)));
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

/// Returns the client for a container of Azure Blob Storage, from the `AZURE_` variables. Fails with `Kind::Job` if they contradict each
/// other.
#[cfg(feature = "azure")]
fn azure(
    url: &Url,
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

    let mut builder = MicrosoftAzureBuilder::new()
        .with_client_options(policy.client())
        .with_retry(policy.retries())
        .with_http_connector(Connector(Arc::clone(bucket_url)));
    for (name, value) in environment.starting(crate::environment::AZURE) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    // The URL names the container, and some URLs name the account too.
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

#[cfg(not(all(feature = "gcs", feature = "azure")))]
fn not_built_in(bucket_url: &BucketUrl, feature: &str) -> Error {
    Error::job(format!(
        "{bucket_url} needs the feature `{feature}`, which this program was built without: build it with \
         `cargo build --release --features {feature}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(url: &str, variables: &[(&str, &str)]) -> Result<Arc<dyn ObjectStore>> {
        let variables = variables.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Ok(registry_of(variables).get_store(&Url::parse(url).unwrap())?)
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush")];

    #[test]
    fn a_bucket_has_one_client() {
        let registry = registry_of(KEYS.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let get = |url: &str| registry.get_store(&Url::parse(url).unwrap()).unwrap();
        assert!(Arc::ptr_eq(&get("s3://a/x"), &get("s3://a/y/z")));
        assert!(!Arc::ptr_eq(&get("s3://a/x"), &get("s3://b/x")));
        let shown = format!("{registry:?} {:?} {}", get("s3://a"), get("s3://a"));
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn errors_of_opening_have_advice() {
        let plain = [KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
        for (url, variables, advice) in [
            ("ftp://host/a", &[][..], "s3://"),
            ("s3://a/b", &[KEYS[0]], "AWS_SECRET_ACCESS_KEY"),
            ("s3://a/b", &[("AWS_PROFILE", "me")], "export-credentials"),
            ("s3://a/b", &plain, "AWS_ALLOW_HTTP"),
            ("s3://a/b", &[("RESEMBLANCE_RETRY_SECONDS", "soon")], "RESEMBLANCE_RETRY_SECONDS"),
        ] {
            let error = get(url, variables).err().unwrap();
            assert!(error.kind() == Kind::Job && error.to_string().contains(advice), "{error}");
        }
        let error = get("s3://id:hush@a/b", &KEYS).err().unwrap().to_string();
        assert!(!error.contains("hush"), "{error}");
    }
}
