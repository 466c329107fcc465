//! The client for a bucket of S3 or a compatible store, from the `AWS_` variables.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};

use super::connector::{Connector, switch};
use super::explain::BucketUrl;
use super::retry_policy::RetryPolicy;
use super::{aws_variables, checksum};
use crate::environment::Environment;
use crate::error::{Error, Result};

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
pub(super) fn open(
    bucket_url: &Arc<BucketUrl>,
    environment: &Environment,
    policy: &RetryPolicy,
) -> Result<[AmazonS3; 2]> {
    let builder = configured(bucket_url, environment, policy, HeaderMap::new())?;
    let (name, value) = checksum::MODE;
    let asking = [(HeaderName::from_static(name), HeaderValue::from_static(value))];
    let reads = configured(bucket_url, environment, policy, HeaderMap::from_iter(asking))?;
    let wrong = |_: object_store::Error| aws_variables::blame(environment);
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
    aws_variables::check(environment)?;
    check_credentials(environment)?;
    if !aws_variables::is_url(&format!("https://{0}.s3.amazonaws.com/{0}", bucket_url.bucket())) {
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
    for (_, value, key) in aws_variables::taken(environment) {
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
