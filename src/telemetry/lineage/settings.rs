//! Reads the destination, the namespace and the parent run of events from the standard environment variables of OpenLineage.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use crate::environment::Environment;
use crate::error::{Error, Result};

/// The default path of events at a collector.
const ENDPOINT: &str = "api/v1/lineage";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineageSettings {
    pub(crate) destination: EventDestination,
    pub(super) namespace: String,
    /// The run that started this run, such as a task of a workflow scheduler, and their root run.
    pub(super) parent: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EventDestination {
    /// A collector that takes events by POST at `url`.
    Http { url: Url, api_key: Option<String> },
    /// The log.
    Console,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "apiKey", alias = "apikey", alias = "api_key")]
    api_key: Option<String>,
}

impl LineageSettings {
    /// Reads the settings, if events are sent. Fails with `Kind::Job` if a variable has an invalid value.
    pub(crate) fn read(environment: &Environment) -> Result<Option<Self>> {
        if environment.is_true("OPENLINEAGE_DISABLED") {
            return Ok(None);
        }
        let destination = match environment.get("OPENLINEAGE__TRANSPORT__TYPE") {
            None if environment.get("OPENLINEAGE_URL").is_none() => return Ok(None),
            Some("noop") => return Ok(None),
            None | Some("http") => http(environment)?,
            Some("console") => EventDestination::Console,
            Some(other) => {
                return Err(Error::job(format!(
                    "the variable OPENLINEAGE__TRANSPORT__TYPE is {other:?}: expected http, console or noop"
                )));
            }
        };
        let namespace = environment.get("OPENLINEAGE_NAMESPACE").unwrap_or("default").to_owned();
        Ok(Some(Self { destination, namespace, parent: parent_run(environment)? }))
    }
}

fn http(environment: &Environment) -> Result<EventDestination> {
    let Some((_, url)) = environment.first(["OPENLINEAGE__TRANSPORT__URL", "OPENLINEAGE_URL"]) else {
        return Err(Error::job(
            "the variable OPENLINEAGE__TRANSPORT__TYPE is \"http\", but no collector is named: set \
             OPENLINEAGE__TRANSPORT__URL",
        ));
    };
    let endpoint = environment.first(["OPENLINEAGE__TRANSPORT__ENDPOINT", "OPENLINEAGE_ENDPOINT"]);
    let endpoint = endpoint.map_or(ENDPOINT, |(_, path)| path);
    let url = Url::parse(url).and_then(|url| url.join(endpoint));
    // The URL can contain a password, so the message omits it.
    let url = url.ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
        Error::job(
            "the variable OPENLINEAGE_URL or OPENLINEAGE__TRANSPORT__URL is not the http:// or https:// URL of a collector, such \
             as http://marquez:5000",
        )
    })?;
    Ok(EventDestination::Http { url, api_key: api_key(environment)? })
}

/// Returns the secret for the collector. The variables of the transport take precedence over `OPENLINEAGE_API_KEY`.
fn api_key(environment: &Environment) -> Result<Option<String>> {
    let variable = |name| environment.get(name).map(str::to_owned);
    let auth = match environment.get("OPENLINEAGE__TRANSPORT__AUTH") {
        // The value is a secret, which the message of the parser could repeat.
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Error::job(
                "the variable OPENLINEAGE__TRANSPORT__AUTH is not of the form {\"type\": \"api_key\", \"apiKey\": TEXT}",
            )
        })?,
        None => Auth {
            kind: variable("OPENLINEAGE__TRANSPORT__AUTH__TYPE"),
            api_key: variable("OPENLINEAGE__TRANSPORT__AUTH__API_KEY"),
        },
    };
    match auth.kind.as_deref() {
        None | Some("api_key") => Ok(auth.api_key.or_else(|| variable("OPENLINEAGE_API_KEY"))),
        Some(other) => Err(Error::job(format!(
            "the type of OPENLINEAGE__TRANSPORT__AUTH is {other:?}: expected api_key"
        ))),
    }
}

/// Reads OPENLINEAGE_CONTEXT, or else OPENLINEAGE_PARENT_ID and OPENLINEAGE_ROOT_PARENT_ID. A parent without a root is also the root.
fn parent_run(environment: &Environment) -> Result<Option<Value>> {
    let (parent, root) = match environment.get("OPENLINEAGE_CONTEXT") {
        Some(text) => {
            let wrong = || {
                Error::job(
                    "the variable OPENLINEAGE_CONTEXT is not of the form \
                     {\"parent\": {\"run\": {\"runId\": UUID}, \"job\": {\"namespace\": TEXT, \"name\": TEXT}}}",
                )
            };
            let context: Map<String, Value> = serde_json::from_str(text).map_err(|e| wrong().because(e))?;
            let read = |run: Option<&Value>| match run {
                None | Some(Value::Null) => Ok(None),
                Some(run) => run_in_context(run).ok_or_else(wrong).map(Some),
            };
            let parent = context.get("parent");
            (read(parent)?, read(parent.and_then(|parent| parent.get("root")))?)
        }
        None => {
            let run = |variable| environment.get(variable).map(|text| run_in_id(variable, text)).transpose();
            let parent = run("OPENLINEAGE_PARENT_ID")?;
            let root = parent.is_some().then(|| run("OPENLINEAGE_ROOT_PARENT_ID")).transpose()?;
            (parent, root.flatten())
        }
    };
    Ok(parent.map(|mut parent| {
        parent["root"] = root.unwrap_or_else(|| parent.clone());
        parent
    }))
}

/// Returns a run of OPENLINEAGE_CONTEXT, if all its fields are valid.
fn run_in_context(run: &Value) -> Option<Value> {
    let (id, job) = (run["run"]["runId"].as_str()?, &run["job"]);
    Some(other_run(id.parse().ok()?, job["namespace"].as_str()?, job["name"].as_str()?))
}

/// Parses `NAMESPACE/JOB/UUID`.
fn run_in_id(variable: &str, text: &str) -> Result<Value> {
    let mut parts = text.rsplitn(3, '/');
    let id = parts.next().and_then(|id| id.parse::<Uuid>().ok());
    match (id, parts.next(), parts.next()) {
        (Some(id), Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => {
            Ok(other_run(id, namespace, name))
        }
        _ => Err(Error::job(format!("the variable {variable} is {text:?}: expected NAMESPACE/JOB/UUID"))),
    }
}

/// Returns a run of another program in the form of `ParentRunFacet`.
fn other_run(id: Uuid, namespace: &str, name: &str) -> Value {
    json!({ "run": { "runId": id.to_string() }, "job": { "namespace": namespace, "name": name } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";
    const ROOT: &str = "11111111-89ab-4cde-8f01-23456789abcd";

    fn read(variables: &[(&str, &str)]) -> Result<Option<LineageSettings>> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        LineageSettings::read(&Environment::new(variables.collect()))
    }

    fn to(url: &str, key: Option<&str>) -> EventDestination {
        EventDestination::Http { url: url.parse().unwrap(), api_key: key.map(str::to_owned) }
    }

    #[test]
    fn the_short_and_the_long_variables_lead_to_one_destination() {
        let short = ("OPENLINEAGE_URL", "http://marquez:5000");
        let at_marquez = |key| to("http://marquez:5000/api/v1/lineage", key);
        let http = ("OPENLINEAGE__TRANSPORT__TYPE", "http");
        let long = ("OPENLINEAGE__TRANSPORT__URL", "https://lineage.example.org/");
        let auth = ("OPENLINEAGE__TRANSPORT__AUTH", r#"{"type": "api_key", "apiKey": "k"}"#);
        let cases: &[(&[(&str, &str)], EventDestination)] = &[
            (&[short], at_marquez(None)),
            (&[short, ("OPENLINEAGE_API_KEY", "k")], at_marquez(Some("k"))),
            (&[short, ("OPENLINEAGE_ENDPOINT", "events")], to("http://marquez:5000/events", None)),
            (&[http, short, long, auth], to("https://lineage.example.org/api/v1/lineage", Some("k"))),
            (&[http, short, ("OPENLINEAGE__TRANSPORT__AUTH__API_KEY", "k")], at_marquez(Some("k"))),
            (&[("OPENLINEAGE__TRANSPORT__TYPE", "console")], EventDestination::Console),
        ];
        for (variables, expected) in cases {
            let settings = read(variables).unwrap().unwrap();
            assert_eq!((&settings.destination, &*settings.namespace), (expected, "default"));
        }
        let named = read(&[short, ("OPENLINEAGE_NAMESPACE", "nightly")]).unwrap().unwrap();
        assert_eq!(named.namespace, "nightly");
        let (off, noop) = (("OPENLINEAGE_DISABLED", "True"), ("OPENLINEAGE__TRANSPORT__TYPE", "noop"));
        for none in [&[][..], &[short, off], &[short, noop]] {
            assert_eq!(read(none).unwrap(), None, "{none:?}");
        }
    }

    #[test]
    fn errors_name_the_variable_and_show_no_secret() {
        let http = ("OPENLINEAGE__TRANSPORT__TYPE", "http");
        let url = ("OPENLINEAGE_URL", "http://m");
        let run = ("OPENLINEAGE_CONTEXT", r#"{"parent": {"run": {"runId": "1"}}}"#);
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("OPENLINEAGE__TRANSPORT__TYPE", "kafka")], "OPENLINEAGE__TRANSPORT__TYPE"),
            (&[http], "OPENLINEAGE__TRANSPORT__URL"),
            (&[("OPENLINEAGE_URL", "user:hush@marquez")], "OPENLINEAGE_URL"),
            (&[url, ("OPENLINEAGE__TRANSPORT__AUTH", "hush")], "OPENLINEAGE__TRANSPORT__AUTH"),
            (&[url, ("OPENLINEAGE__TRANSPORT__AUTH__TYPE", "jwt")], "jwt"),
            (&[url, ("OPENLINEAGE_PARENT_ID", "airflow/dag/manual")], "OPENLINEAGE_PARENT_ID"),
            (&[url, ("OPENLINEAGE_PARENT_ID", ID)], "OPENLINEAGE_PARENT_ID"),
            (&[url, ("OPENLINEAGE_CONTEXT", "{")], "OPENLINEAGE_CONTEXT"),
            (&[url, run], "OPENLINEAGE_CONTEXT"),
        ];
        for (variables, part) in cases {
            let error = read(variables).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_parent_without_a_root_is_its_own_root() {
        let parent = |variables: &[(&str, &str)]| {
            let all = [&[("OPENLINEAGE_URL", "http://m")], variables].concat();
            json!(read(&all).unwrap().unwrap().parent)
        };
        assert_eq!(parent(&[]), json!(null));
        assert_eq!(parent(&[("OPENLINEAGE_ROOT_PARENT_ID", "without a parent")]), json!(null));
        let id = format!("s3://lake/airflow/dag.task/{ID}");
        let (alone, root) = (("OPENLINEAGE_PARENT_ID", &*id), format!("airflow/dag/{ROOT}"));
        let facet = parent(&[alone]);
        assert_eq!((&facet["run"]["runId"], &facet["job"]["name"]), (&json!(ID), &json!("dag.task")));
        assert_eq!(facet["job"]["namespace"], "s3://lake/airflow");
        assert_eq!((&facet["root"]["run"], &facet["root"]["job"]), (&facet["run"], &facet["job"]));
        let both = parent(&[alone, ("OPENLINEAGE_ROOT_PARENT_ID", root.as_str())]);
        assert_eq!(both["root"]["run"]["runId"], ROOT);

        let context = json!({ "parent": {
            "run": { "runId": ID }, "job": { "namespace": "s3://lake/airflow", "name": "dag.task" },
            "root": { "run": { "runId": ROOT }, "job": { "namespace": "airflow", "name": "dag" } },
        } });
        // The context takes precedence over the older variables.
        let context = context.to_string();
        assert_eq!(parent(&[("OPENLINEAGE_CONTEXT", &context), ("OPENLINEAGE_PARENT_ID", "x")]), both);
    }
}
