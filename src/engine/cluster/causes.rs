//! The causes of an error, also through Ballista's own errors.

use ballista_core::error::BallistaError;
use datafusion::error::DataFusionError;

use crate::error::{Cause, Error, Kind, cause};

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
