//! The consequences of a job's error for its stage, and the causes of an error, also through Ballista's own errors.

use ballista_core::error::BallistaError;
use datafusion::error::DataFusionError;

use super::wire::SHUFFLE_LOST;
use crate::engine::stores::TRANSIENT;
use crate::environment::names_variable;
use crate::error::library_errors::{is_exhausted_pool, is_passing_in_ballista};
use crate::error::{Cause, Error, Kind, cause};

/// Why an attempt of a stage ended.
#[derive(Debug)]
pub(super) enum AttemptFailure {
    /// A part of the cluster was lost: another attempt may succeed.
    Lost(Error),
    /// Another attempt would fail again.
    Final(Error),
}

/// The prefix of an error that a task may not have on another executor.
const ON_EXECUTOR: &str = "a task failed on the executor ";

/// The error of a task that failed because of `executor` or its connections.
pub(super) fn on_executor(
    executor: &str,
    what: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::engine(format!("{ON_EXECUTOR}{executor}: {what}")).because(cause)
}

/// Whether an error is about the variables or the credentials of its process.
pub(super) fn is_of_environment(error: &DataFusionError) -> bool {
    chain(error).any(|cause| names_variable(&cause.to_string()))
}

/// Such an error with the name of its process, so that users do not correct the environment of the driver.
pub(super) fn of_environment(who: &str, error: &DataFusionError) -> Error {
    let own = chain(error).find_map(|cause| cause.downcast_ref::<Error>());
    let message = format!(
        "{who} cannot use the storage: correct the variables of its environment, not of this process's"
    );
    Error::new(own.map_or(Kind::Input, Error::kind), message).because(causes(error))
}

/// The failure of an attempt, from the client's error. It crossed processes, so only its text is left.
pub(super) fn read(error: &DataFusionError) -> AttemptFailure {
    let text = error.to_string();
    if text.contains(SHUFFLE_LOST) {
        return AttemptFailure::Lost(Error::engine(SHUFFLE_LOST));
    }
    let own = Error::from_wire(&text);
    let exhausted = match &own {
        Some(own) => own.kind() == Kind::Memory,
        None => is_exhausted_pool(&text),
    };
    if exhausted {
        let advice = "a task's share of an executor's memory is too small for this stage: start the executors with \
                      more --memory or fewer --vcores";
        let cause = own.map_or_else(|| first_line(&text), |own| own.one_line());
        return AttemptFailure::Final(Error::new(Kind::Memory, advice).because(cause));
    }
    if let Some(own) = own {
        let passes = is_passing_in_ballista(&text) || text.contains(TRANSIENT);
        return match passes || own.to_string().starts_with(ON_EXECUTOR) {
            true => AttemptFailure::Lost(own),
            false => AttemptFailure::Final(own),
        };
    }
    AttemptFailure::Lost(Error::engine(first_line(&text)))
}

/// The first line of a text without the plans and backtraces behind it, at most 500 characters.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(500).collect()
}

/// An error of ours with the messages of `error` and its causes.
pub(super) fn causes(error: &DataFusionError) -> Error {
    let only_wraps = |cause: &Cause<'_>| {
        matches!(cause.downcast_ref(), Some(DataFusionError::External(_)))
            || matches!(
                cause.downcast_ref(),
                Some(
                    BallistaError::DataFusionError(_)
                        | BallistaError::ArrowError(_)
                        | BallistaError::IoError(_)
                )
            )
    };
    let messages = chain(error).filter(|cause| !only_wraps(cause)).map(|cause| cause.to_string()).collect();
    Error::chained(Kind::Engine, messages).unwrap_or_else(|| Error::engine(error.to_string()))
}

/// An error and its causes, outermost first. Ballista's errors do not name the errors that they hold as their sources.
pub(super) fn chain(error: &DataFusionError) -> impl Iterator<Item = Cause<'_>> {
    let error: Cause = error;
    std::iter::successors(Some(error), |error| match error.downcast_ref::<BallistaError>() {
        Some(BallistaError::DataFusionError(error)) => Some(error.as_ref() as Cause),
        Some(BallistaError::ArrowError(error)) => Some(error.as_ref() as Cause),
        Some(BallistaError::IoError(error)) => Some(error as Cause),
        Some(BallistaError::TonicError(error)) => Some(error as Cause),
        Some(_) => None,
        None => cause(*error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(inner: DataFusionError) -> DataFusionError {
        let inner = ballista_core::error::BallistaError::DataFusionError(Box::new(inner));
        let task = ballista_core::serde::protobuf::FailedTask::from(inner);
        DataFusionError::Execution(format!("Job abc failed: {}", task.error))
    }

    #[test]
    fn own_errors_are_final_with_their_kind() {
        let error = failed(Error::input("a.csv is damaged").into());
        let AttemptFailure::Final(own) = read(&error) else { panic!("{error}") };
        assert_eq!((own.kind(), own.to_string().as_str()), (Kind::Input, "a.csv is damaged"));
    }

    #[test]
    fn an_error_of_an_executors_environment_names_the_executor() {
        let variable = Error::job("the variable AWS_REGION cannot be used: expected the name of a region");
        let error = DataFusionError::from(variable).context("while planning");
        assert!(is_of_environment(&error));
        let error = failed(of_environment("the executor 10.0.0.7:50051", &error).into());
        let AttemptFailure::Final(own) = read(&error) else { panic!("{error}") };
        assert_eq!(own.kind(), Kind::Job);
        assert!(own.to_string().starts_with("the executor 10.0.0.7:50051 cannot use the storage"), "{own}");
        assert!(innermost(&own).contains("AWS_REGION"), "{own:?}");
        let damaged = Error::input("reading s3://bucket/AWS_REGION/a.csv failed");
        assert!(!is_of_environment(&damaged.into()));
    }

    #[test]
    fn a_store_that_does_not_answer_is_tried_again() {
        let away = Error::input(format!("s3://bucket/a: the storage answered 503: {TRANSIENT}"));
        let error = failed(Error::input("reading s3://bucket/a failed").because(away).into());
        let AttemptFailure::Lost(why) = read(&error) else { panic!("{error}") };
        assert!(innermost(&why).contains("503"), "{why:?}");
    }

    #[test]
    fn a_task_is_tried_on_another_executor_and_the_innermost_cause_arrives() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = DataFusionError::from(full).context("while sorting");
        let error = failed(on_executor("10.0.0.7:50051", "no space is left on its disk", full).into());
        let AttemptFailure::Lost(why) = read(&error) else { panic!("{error}") };
        assert!(why.to_string().contains("10.0.0.7:50051"), "{why}");
        assert!(innermost(&why).contains("no storage space"), "{why:?}");
    }

    fn innermost(error: &Error) -> String {
        crate::error::chain(error).last().unwrap().to_string()
    }

    #[test]
    fn too_little_memory_is_final() {
        let exhausted = || DataFusionError::ResourcesExhausted("no more".into());
        for error in [exhausted(), Error::from(exhausted()).into()] {
            let error = failed(error);
            let AttemptFailure::Final(own) = read(&error) else { panic!("{error}") };
            assert_eq!(own.kind(), Kind::Memory);
            assert!(own.to_string().contains("executors") && innermost(&own).contains("no more"), "{own:?}");
        }
    }

    #[test]
    fn transient_errors_are_tried_again() {
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [failed(reset.into()), DataFusionError::Execution("h2: broken pipe".into())] {
            assert!(matches!(read(&error), AttemptFailure::Lost(_)), "{error}");
        }
    }
}
