//! The error type of the functions.

use std::fmt;

use datafusion::error::DataFusionError;

/// The result type of the functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error for a setting or an argument that a function cannot use. The message says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Returns an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
