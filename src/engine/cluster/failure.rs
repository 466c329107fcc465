//! What an error of a job means for the step.

use datafusion::error::DataFusionError;

use super::causes::{causes, chain};
use super::rerun_guard::SHUFFLE_LOST;
use crate::engine::stores::{TRANSIENT, names_variable};
use crate::error::{Error, Kind};

/// Why an attempt of a step ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// Something was lost that may be there again, or may be elsewhere: worth another attempt.
    Lost(Error),
    /// The same will happen again.
    Final(Error),
}

/// What Ballista says before an error that it takes to pass, when it has tried a task often enough.
const PASSING: &str = "Task failed due to IO error";

/// What DataFusion says where a task's memory pool is too small.
const EXHAUSTED: &str = "ResourcesExhausted";

/// What stands before an error of a task that another executor may not have.
const ON_EXECUTOR: &str = "a task failed on the executor ";

/// The error of a task that failed on `executor` for a reason of that executor, or of its connections.
pub(super) fn on_executor(
    executor: &str,
    what: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::engine(format!("{ON_EXECUTOR}{executor}: {what}")).because(cause)
}

/// Whether an error is about the environment of the process in which it came up: its variables, or its credentials.
pub(super) fn is_of_environment(error: &DataFusionError) -> bool {
    chain(error).any(|cause| names_variable(&cause.to_string()))
}

/// Such an error of `who`, who has an environment of its own: the driver's user would correct the driver's.
pub(super) fn of_environment(who: &str, error: &DataFusionError) -> Error {
    let own = chain(error).find_map(|cause| cause.downcast_ref::<Error>());
    let message = format!(
        "{who} cannot use the storage: correct the variables of its environment, not of this process's"
    );
    Error::new(own.map_or(Kind::Input, Error::kind), message).because(causes(error))
}

/// Reads the error that a job's client came back with. It crossed processes, so its text is all there is.
pub(super) fn read(error: &DataFusionError) -> Failure {
    let text = error.to_string();
    if text.contains(SHUFFLE_LOST) {
        return Failure::Lost(Error::engine(SHUFFLE_LOST));
    }
    let told = Error::from_wire(&text);
    let exhausted = match &told {
        Some(own) => own.kind() == Kind::Memory,
        None => text.contains(EXHAUSTED),
    };
    if exhausted {
        let advice = "a task's share of an executor's memory is too small for this step: start the executors with \
                      more --memory or fewer --vcores";
        let cause = told.map_or_else(|| first_line(&text), |own| own.one_line());
        return Failure::Final(Error::new(Kind::Memory, advice).because(cause));
    }
    if let Some(own) = told {
        let passes = text.contains(PASSING) || text.contains(TRANSIENT);
        return match passes || own.to_string().starts_with(ON_EXECUTOR) {
            true => Failure::Lost(own),
            false => Failure::Final(own),
        };
    }
    Failure::Lost(Error::engine(first_line(&text)))
}

/// The first line of a text, at most 500 characters of it: plans and backtraces follow.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(500).collect()
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
        let Failure::Final(own) = read(&error) else { panic!("{error}") };
        assert_eq!((own.kind(), own.to_string().as_str()), (Kind::Input, "a.csv is damaged"));
    }

    #[test]
    fn what_is_wrong_with_an_executors_environment_is_not_told_as_the_drivers() {
        let variable = Error::job("the variable AWS_REGION cannot be used: expected the name of a region");
        let error = DataFusionError::from(variable).context("while planning");
        assert!(is_of_environment(&error));
        let error = failed(of_environment("the executor 10.0.0.7:50051", &error).into());
        let Failure::Final(told) = read(&error) else { panic!("{error}") };
        assert_eq!(told.kind(), Kind::Job);
        assert!(told.to_string().starts_with("the executor 10.0.0.7:50051 cannot use the storage"), "{told}");
        assert!(innermost(&told).contains("AWS_REGION"), "{told:?}");
        let damaged = Error::input("reading s3://bucket/AWS_REGION/a.csv failed");
        assert!(!is_of_environment(&damaged.into()));
    }

    #[test]
    fn a_storage_that_is_away_may_be_there_again() {
        let away = Error::input(format!("s3://bucket/a: the storage answered 503: {TRANSIENT}"));
        let error = failed(Error::input("reading s3://bucket/a failed").because(away).into());
        let Failure::Lost(why) = read(&error) else { panic!("{error}") };
        assert!(innermost(&why).contains("503"), "{why:?}");
    }

    #[test]
    fn what_one_executor_failed_at_another_may_do_and_the_innermost_cause_arrives() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = DataFusionError::from(full).context("while sorting");
        let error = failed(on_executor("10.0.0.7:50051", "no space is left on its disk", full).into());
        let Failure::Lost(why) = read(&error) else { panic!("{error}") };
        assert!(why.to_string().contains("10.0.0.7:50051"), "{why}");
        assert!(innermost(&why).contains("no storage space"), "{why:?}");
    }

    fn innermost(error: &Error) -> String {
        let mut error: &dyn std::error::Error = error;
        while let Some(cause) = error.source() {
            error = cause;
        }
        error.to_string()
    }

    #[test]
    fn too_little_memory_is_final() {
        let exhausted = || DataFusionError::ResourcesExhausted("no more".into());
        for error in [exhausted(), Error::from(exhausted()).into()] {
            let error = failed(error);
            let Failure::Final(own) = read(&error) else { panic!("{error}") };
            assert_eq!(own.kind(), Kind::Memory);
            assert!(own.to_string().contains("executors") && innermost(&own).contains("no more"), "{own:?}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [failed(reset.into()), DataFusionError::Execution("h2: broken pipe".into())] {
            assert!(matches!(read(&error), Failure::Lost(_)), "{error}");
        }
    }
}
