//! Google Cloud Storage and Azure Blob Storage, each behind a feature of its own.

use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use super::explain::BucketUrl;
use super::retry_policy::RetryPolicy;
use crate::environment::Environment;
use crate::error::{Error, Result};

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
    if let Some(path) = environment.service_account() {
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
