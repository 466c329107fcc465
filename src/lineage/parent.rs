//! The run that started this one, such as the task of a scheduler.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::facet::facet;
use crate::environment::{self, Environment};
use crate::error::{Error, Result};

/// A run of another program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OtherRun {
    run: RunId,
    job: JobName,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RunId {
    #[serde(rename = "runId")]
    id: RunUuid,
}

/// The id of a run, as the specification has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct RunUuid(Uuid);

impl TryFrom<String> for RunUuid {
    type Error = uuid::Error;

    fn try_from(text: String) -> std::result::Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct JobName {
    namespace: String,
    name: String,
}

/// The parent of a run, and the run at the root of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentRun {
    parent: OtherRun,
    root: OtherRun,
}

/// The value of OPENLINEAGE_CONTEXT.
#[derive(Deserialize)]
struct Given {
    parent: Option<GivenParent>,
}

#[derive(Deserialize)]
struct GivenParent {
    run: RunId,
    job: JobName,
    root: Option<OtherRun>,
}

impl ParentRun {
    /// The parent that the environment names: in OPENLINEAGE_CONTEXT, or else in OPENLINEAGE_PARENT_ID and
    /// OPENLINEAGE_ROOT_PARENT_ID.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the variable that cannot be read.
    pub(super) fn read(environment: &Environment) -> Result<Option<Self>> {
        if let Some(text) = environment.get(environment::OPENLINEAGE_CONTEXT) {
            let given: Given = serde_json::from_str(text).map_err(|e| {
                Error::job(
                    "the variable OPENLINEAGE_CONTEXT is not of the form \
                     {\"parent\": {\"run\": {\"runId\": UUID}, \"job\": {\"namespace\": TEXT, \"name\": TEXT}}}",
                )
                .because(e)
            })?;
            return Ok(given.parent.map(|GivenParent { run, job, root }| {
                let parent = OtherRun { run, job };
                Self { root: root.unwrap_or_else(|| parent.clone()), parent }
            }));
        }
        let named = |variable| environment.get(variable).map(|text| named(variable, text)).transpose();
        let Some(parent) = named(environment::OPENLINEAGE_PARENT_ID)? else { return Ok(None) };
        let root = named(environment::OPENLINEAGE_ROOT_PARENT_ID)?.unwrap_or_else(|| parent.clone());
        Ok(Some(Self { parent, root }))
    }

    /// The facet `parent` of a run.
    pub(super) fn facet(&self) -> Value {
        let fields = |of: &OtherRun| {
            json!({
                "run": { "runId": of.run.id.0.to_string() },
                "job": { "namespace": of.job.namespace, "name": of.job.name },
            })
        };
        let mut parent = fields(&self.parent);
        parent["root"] = fields(&self.root);
        facet(("1-2-0", "ParentRunFacet"), parent)
    }
}

/// The run that a text names as `NAMESPACE/JOB/UUID`.
fn named(variable: &str, text: &str) -> Result<OtherRun> {
    let mut parts = text.rsplitn(3, '/');
    let id = parts.next().and_then(|id| id.parse().ok()).map(RunUuid);
    match (id, parts.next(), parts.next()) {
        (Some(id), Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => {
            let job = JobName { namespace: namespace.to_owned(), name: name.to_owned() };
            Ok(OtherRun { run: RunId { id }, job })
        }
        _ => Err(Error::job(format!("the variable {variable} is {text:?}: expected NAMESPACE/JOB/UUID"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";
    const ROOT: &str = "11111111-89ab-4cde-8f01-23456789abcd";

    fn read(variables: &[(&str, &str)]) -> Result<Option<ParentRun>> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ParentRun::read(&Environment::of(variables.collect()))
    }

    #[test]
    fn a_parent_is_its_own_root_unless_another_one_is_named() {
        assert_eq!(read(&[]).unwrap(), None);
        let parent = format!("s3://lake/airflow/dag.task/{ID}");
        let (alone, root) = (("OPENLINEAGE_PARENT_ID", &*parent), format!("airflow/dag/{ROOT}"));
        let facet = read(&[alone]).unwrap().unwrap().facet();
        assert_eq!((&facet["run"]["runId"], &facet["job"]["name"]), (&json!(ID), &json!("dag.task")));
        assert_eq!(facet["job"]["namespace"], "s3://lake/airflow");
        assert_eq!((&facet["root"]["run"], &facet["root"]["job"]), (&facet["run"], &facet["job"]));
        let both = read(&[alone, ("OPENLINEAGE_ROOT_PARENT_ID", root.as_str())]).unwrap().unwrap();
        assert_eq!(both.facet()["root"]["run"]["runId"], ROOT);

        let context = json!({ "parent": {
            "run": { "runId": ID }, "job": { "namespace": "s3://lake/airflow", "name": "dag.task" },
            "root": { "run": { "runId": ROOT }, "job": { "namespace": "airflow", "name": "dag" } },
        } });
        // It goes before the older variables.
        let variables = [("OPENLINEAGE_CONTEXT", context.to_string()), ("OPENLINEAGE_PARENT_ID", "x".into())];
        assert_eq!(
            read(&variables.each_ref().map(|(name, value)| (*name, &**value))).unwrap().unwrap(),
            both
        );
    }

    #[test]
    fn what_names_no_run_is_an_error_with_its_variable() {
        for (variable, value) in [
            ("OPENLINEAGE_PARENT_ID", "airflow/dag/manual"),
            ("OPENLINEAGE_PARENT_ID", ID),
            ("OPENLINEAGE_CONTEXT", "{"),
            ("OPENLINEAGE_CONTEXT", r#"{"parent": {"run": {"runId": "1"}}}"#),
        ] {
            let error = read(&[(variable, value)]).unwrap_err();
            assert!(error.to_string().contains(variable), "{error}");
        }
    }
}
