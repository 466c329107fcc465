//! Where the events go: the standard's environment variables.

use serde::Deserialize;
use url::Url;

use super::parent::ParentRun;
use crate::environment::{self as names, Environment};
use crate::error::{Error, Result};

/// The path of the collector's interface, unless another one is named.
const ENDPOINT: &str = "api/v1/lineage";
/// The namespace of jobs, unless another one is named.
const NAMESPACE: &str = "default";

/// What the environment says about events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineageSettings {
    pub(crate) destination: EventDestination,
    /// The namespace of the job.
    pub(super) namespace: String,
    pub(super) parent: Option<ParentRun>,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EventDestination {
    /// To a collector, by POST.
    Http {
        /// The URL of its interface.
        url: Url,
        /// The secret that it asks for.
        api_key: Option<String>,
    },
    /// To the log.
    Console,
}

/// The value of OPENLINEAGE__TRANSPORT__AUTH.
#[derive(Deserialize)]
struct Auth {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "apiKey", alias = "apikey", alias = "api_key")]
    api_key: Option<String>,
}

impl LineageSettings {
    /// What the environment says; `None` if it asks for no events.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the variable that cannot be used, and what it may be.
    pub(crate) fn read(environment: &Environment) -> Result<Option<Self>> {
        let is_true = |text: &str| text.eq_ignore_ascii_case("true");
        if environment.get(names::OPENLINEAGE_DISABLED).is_some_and(is_true) {
            return Ok(None);
        }
        let short = environment.get(names::OPENLINEAGE_URL);
        let destination = match environment.get(names::OPENLINEAGE_TYPE) {
            None if short.is_none() => return Ok(None),
            Some("noop") => return Ok(None),
            None | Some("http") => http(environment)?,
            Some("console") => EventDestination::Console,
            Some(other) => {
                return Err(Error::job(format!(
                    "the variable {} is {other:?}: expected http, console or noop",
                    names::OPENLINEAGE_TYPE
                )));
            }
        };
        let namespace = environment.get(names::OPENLINEAGE_NAMESPACE).unwrap_or(NAMESPACE).to_owned();
        Ok(Some(Self { destination, namespace, parent: ParentRun::read(environment)? }))
    }
}

fn http(environment: &Environment) -> Result<EventDestination> {
    let first = |variables: [&'static str; 2]| variables.into_iter().find_map(|name| environment.get(name));
    let Some(url) = first([names::OPENLINEAGE_TRANSPORT_URL, names::OPENLINEAGE_URL]) else {
        return Err(Error::job(format!(
            "the variable {} is \"http\", but no collector is named: set {}",
            names::OPENLINEAGE_TYPE,
            names::OPENLINEAGE_TRANSPORT_URL
        )));
    };
    let endpoint = first([names::OPENLINEAGE_TRANSPORT_ENDPOINT, names::OPENLINEAGE_ENDPOINT]);
    let joined = Url::parse(url).and_then(|url| url.join(endpoint.unwrap_or(ENDPOINT)));
    // The URL may hold a password, so it is not shown.
    let url = joined.ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
        Error::job(format!(
            "the variable {} or {} is not the http:// or https:// URL of a collector, such as http://marquez:5000",
            names::OPENLINEAGE_URL,
            names::OPENLINEAGE_TRANSPORT_URL
        ))
    })?;
    Ok(EventDestination::Http { url, api_key: api_key(environment)? })
}

/// The secret of the collector, from the variables of the transport or the short one.
fn api_key(environment: &Environment) -> Result<Option<String>> {
    let auth = match environment.get(names::OPENLINEAGE_AUTH) {
        // The value is a secret, so neither it nor the parser's words are shown.
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Error::job(format!(
                "the variable {} is not of the form {{\"type\": \"api_key\", \"apiKey\": TEXT}}",
                names::OPENLINEAGE_AUTH
            ))
        })?,
        None => Auth {
            kind: environment.get(names::OPENLINEAGE_AUTH_TYPE).map(str::to_owned),
            api_key: environment.get(names::OPENLINEAGE_AUTH_KEY).map(str::to_owned),
        },
    };
    match auth.kind.as_deref() {
        None | Some("api_key") => {
            Ok(auth.api_key.or_else(|| environment.get(names::OPENLINEAGE_API_KEY).map(str::to_owned)))
        }
        Some(other) => {
            Err(Error::job(format!("the type of {} is {other:?}: expected api_key", names::OPENLINEAGE_AUTH)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<LineageSettings>> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        LineageSettings::read(&Environment::of(variables.collect()))
    }

    fn to(url: &str, key: Option<&str>) -> EventDestination {
        EventDestination::Http { url: url.parse().unwrap(), api_key: key.map(str::to_owned) }
    }

    #[test]
    fn the_short_and_the_long_variables_lead_to_one_place() {
        let short = ("OPENLINEAGE_URL", "http://marquez:5000");
        let http = ("OPENLINEAGE__TRANSPORT__TYPE", "http");
        let long = ("OPENLINEAGE__TRANSPORT__URL", "https://lineage.example.org/");
        let auth = ("OPENLINEAGE__TRANSPORT__AUTH", r#"{"type": "api_key", "apiKey": "k"}"#);
        let cases: &[(&[(&str, &str)], EventDestination)] = &[
            (&[short], to("http://marquez:5000/api/v1/lineage", None)),
            (&[short, ("OPENLINEAGE_API_KEY", "k")], to("http://marquez:5000/api/v1/lineage", Some("k"))),
            (&[short, ("OPENLINEAGE_ENDPOINT", "events")], to("http://marquez:5000/events", None)),
            (&[http, short, long, auth], to("https://lineage.example.org/api/v1/lineage", Some("k"))),
            (
                &[http, short, ("OPENLINEAGE__TRANSPORT__AUTH__API_KEY", "k")],
                to("http://marquez:5000/api/v1/lineage", Some("k")),
            ),
            (&[("OPENLINEAGE__TRANSPORT__TYPE", "console")], EventDestination::Console),
        ];
        for (variables, expected) in cases {
            let settings = read(variables).unwrap().unwrap();
            assert_eq!((&settings.destination, &*settings.namespace), (expected, "default"));
        }
        let named = read(&[short, ("OPENLINEAGE_NAMESPACE", "nightly")]).unwrap().unwrap();
        assert_eq!(named.namespace, "nightly");
        for none in [
            &[][..],
            &[short, ("OPENLINEAGE_DISABLED", "True")],
            &[short, ("OPENLINEAGE__TRANSPORT__TYPE", "noop")],
        ] {
            assert_eq!(read(none).unwrap(), None, "{none:?}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_an_error_without_secrets() {
        let http = ("OPENLINEAGE__TRANSPORT__TYPE", "http");
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("OPENLINEAGE__TRANSPORT__TYPE", "kafka")], "OPENLINEAGE__TRANSPORT__TYPE"),
            (&[http], "OPENLINEAGE__TRANSPORT__URL"),
            (&[("OPENLINEAGE_URL", "user:hush@marquez")], "OPENLINEAGE_URL"),
            (
                &[("OPENLINEAGE_URL", "http://m"), ("OPENLINEAGE__TRANSPORT__AUTH", "hush")],
                "OPENLINEAGE__TRANSPORT__AUTH",
            ),
            (&[("OPENLINEAGE_URL", "http://m"), ("OPENLINEAGE__TRANSPORT__AUTH__TYPE", "jwt")], "jwt"),
        ];
        for (variables, part) in cases {
            let error = read(variables).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hush"), "{error}");
        }
    }
}
