//! Checks of the `AWS_` variables.
//!
//! The client library takes them unchecked and panics at the first request if one cannot be part of a URL or a header.
//! Errors name the variable and never its value, which may be a secret.

use http::Uri;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use url::Url;

use crate::environment::{AWS, Environment};
use crate::error::{Error, Result};

/// The variables that the client knows, with their values and its keys for them.
pub(super) fn taken(environment: &Environment) -> impl Iterator<Item = (&str, &str, AmazonS3ConfigKey)> {
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
pub(super) fn check(environment: &Environment) -> Result<()> {
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
pub(super) fn blame(environment: &Environment) -> Error {
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
pub(super) fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let host = uri.host().is_some_and(|host| !host.is_empty());
    host && uri.scheme().is_some() && Url::parse(&uri.to_string()).is_ok_and(|url| url.has_host())
}
