//! The error type. The kind of an error determines who must act, and the exit code of the process.

pub(crate) mod counts;
pub(crate) mod exit_codes;
pub(crate) mod guard;
pub(crate) mod library_errors;
pub(crate) mod visible;

use std::fmt;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;
use resemblance_functions::Error as FunctionError;
pub(crate) use resemblance_functions::spelling;
use serde::{Deserialize, Serialize};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. It determines who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The job file or the arguments are wrong and must be corrected. Exit code 2.
    Job,
    /// The input or the storage is wrong or cannot be reached. Correct it and run again. Exit code 3.
    Input,
    /// The engine lost its cluster, or this machine lacks a resource, such as disk space. Fix the cause or run again. Exit code 4.
    Engine,
    /// A task ran out of memory. The stage is first planned again with smaller parts. The name and the exit code are the same as for
    /// [`Kind::Engine`].
    Memory,
    /// This program contains a bug, which should be reported. Exit code 5.
    Bug,
    /// The result is complete but exceeds a bound of the job, and should be checked. Exit code 6.
    Alarm,
    /// The run was stopped. Run it again to continue. Exit code 130, as in shells.
    Interrupted,
}

impl Kind {
    /// Returns the name of the kind in logs and records.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Input => "input",
            Kind::Engine | Kind::Memory => "engine",
            Kind::Bug => "bug",
            Kind::Alarm => "alarm",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// An error. The message is a lowercase fragment that names the path, row or key. The kind determines who must act. Causes are chained
/// through [`std::error::Error::source`]. A message does not repeat its cause.
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Returns an error of `kind` without a cause.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Returns an error of the job file or the arguments.
    pub fn job(message: impl Into<String>) -> Self {
        Self::new(Kind::Job, message)
    }

    /// Returns an error for an exceeded bound of the job.
    pub fn alarm(message: impl Into<String>) -> Self {
        Self::new(Kind::Alarm, message)
    }

    /// Returns an error of the input or the storage.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// Returns an error of the engine.
    pub fn engine(message: impl Into<String>) -> Self {
        Self::new(Kind::Engine, message)
    }

    /// Returns an error of this program.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Kind::Bug, message)
    }

    /// Returns the error for a command that was stopped and cannot continue later.
    pub(crate) fn stopped() -> Self {
        Self::new(Kind::Interrupted, "stopped; running the same command again starts from the beginning")
    }

    /// Returns the error for a run that was stopped and can continue later.
    pub fn interrupted() -> Self {
        Self::new(
            Kind::Interrupted,
            "stopped; run the same command again to continue from the last finished stage, or part of the first one",
        )
    }

    /// Returns the error with a cause.
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    pub(crate) fn with_cause(self, cause: Option<Error>) -> Self {
        match cause {
            Some(cause) => self.because(cause),
            None => self,
        }
    }

    /// Returns the kind of the error, which determines who must act.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The form of an error in its debug text. It is needed because some processes pass on only the debug text.
#[derive(Serialize, Deserialize)]
struct WireError {
    kind: Kind,
    messages: Vec<String>,
}

/// The text that precedes a [`WireError`] in a debug text.
const WIRE_MARK: &str = "resemblance error ";

impl Error {
    /// Reads an error of this program from the debug text of an error that contains it.
    pub fn from_wire(text: &str) -> Option<Self> {
        let (_, text) = text.split_once(WIRE_MARK)?;
        let error = serde_json::Deserializer::from_str(text).into_iter::<WireError>().next()?.ok()?;
        Self::chained(error.kind, error.messages)
    }

    /// Returns a chain of errors with these messages, outermost first. Returns `None` if there are no messages.
    pub(crate) fn chained(kind: Kind, messages: Vec<String>) -> Option<Self> {
        let messages = messages.into_iter().rev();
        messages.fold(None, |cause, message| Some(Self::new(kind, message).with_cause(cause)))
    }

    /// Returns the messages of the error and its causes in one line, without repetitions.
    pub fn one_line(&self) -> String {
        one_line(self)
    }
}

/// An error of any type.
pub(crate) type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// Returns an error and its causes, outermost first, including the errors inside I/O errors.
pub(crate) fn chain(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// Returns the next error in [`chain`].
pub(crate) fn cause(error: Cause<'_>) -> Option<Cause<'_>> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(held) => Some(held),
        None => error.source(),
    }
}

/// Returns the messages of an error and its causes, outermost first, without library labels and without repetitions.
pub(crate) fn distinct_messages(error: Cause<'_>) -> Vec<String> {
    let all: Vec<String> = chain(error).map(|cause| cause.to_string()).collect();
    let mut messages: Vec<String> = Vec::new();
    for (at, message) in all.iter().enumerate() {
        let is_label = all.get(at + 1).is_some_and(|next| library_errors::is_label_of(message, next));
        let message = library_errors::without_labels(message);
        if !is_label && !messages.iter().any(|earlier| earlier.contains(&message)) {
            messages.push(message);
        }
    }
    messages
}

/// Returns the outermost message of a library error.
fn first_message(error: Cause<'_>) -> String {
    distinct_messages(error).into_iter().next().unwrap_or_default()
}

pub(crate) fn one_line(error: Cause<'_>) -> String {
    distinct_messages(error).join(": ")
}

/// Writes a text that [`Error::from_wire`] can read.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = WireError { kind: self.kind, messages: distinct_messages(self) };
        let text = serde_json::to_string(&error).map_err(|_| fmt::Error)?;
        write!(f, "{WIRE_MARK}{text}")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// Adds a description of the current action to an error, and keeps the kind of the error.
pub trait Context<T> {
    /// Returns an error with `message` and the original error as its cause.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| {
            let e: Error = e.into();
            Error::new(e.kind, message()).because(e)
        })
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        if let Some(own) = own_error(&error) {
            return own;
        }
        let kind = if panicked(&error) { Kind::Bug } else { engine_kind(&error) };
        let message = match kind {
            Kind::Engine | Kind::Memory => {
                "the memory budget is too small for this stage: raise [engine] memory, or lower [engine] threads"
                    .to_owned()
            }
            Kind::Job => "the query cannot be planned".to_owned(),
            Kind::Bug | Kind::Alarm => "the engine failed in a way that this program did not foresee".to_owned(),
            Kind::Input | Kind::Interrupted => first_message(&error),
        };
        Error::new(kind, message).because(error)
    }
}

/// Finds the error of this program that a library error contains. Returns a copy of its kind and of the messages in its chain, because
/// several tasks can share the original.
fn own_error(error: Cause<'_>) -> Option<Error> {
    chain(error).find_map(|cause| match cause.downcast_ref::<Error>() {
        Some(own) => Error::chained(own.kind, distinct_messages(own)),
        None => cause.downcast_ref::<FunctionError>().map(|error| error.clone().into()),
    })
}

impl From<FunctionError> for Error {
    fn from(error: FunctionError) -> Self {
        Error::job(error.to_string())
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        if panicked(&error) {
            return Error::bug("a task of the storage failed in a way that this program did not foresee")
                .because(error);
        }
        Error::input(first_message(&error)).because(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::input(first_message(&error)).because(error)
    }
}

fn panicked(error: Cause<'_>) -> bool {
    let panics = |cause: Cause<'_>| {
        cause.downcast_ref::<tokio::task::JoinError>().is_some_and(tokio::task::JoinError::is_panic)
    };
    chain(error).any(panics)
}

fn engine_kind(error: &DataFusionError) -> Kind {
    match error {
        DataFusionError::ResourcesExhausted(_) => Kind::Memory,
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Diagnostic(..)
        | DataFusionError::Configuration(_) => Kind::Job,
        DataFusionError::ArrowError(..)
        | DataFusionError::ParquetError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::IoError(_)
        | DataFusionError::External(_)
        | DataFusionError::Execution(_) => Kind::Input,
        DataFusionError::Context(_, inner) => engine_kind(inner),
        DataFusionError::Shared(inner) => engine_kind(inner),
        _ => Kind::Bug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_errors_survive_the_engine() {
        let own = Error::job("unknown key `sise`");
        let through: Error =
            DataFusionError::Context("while planning".into(), Box::new(DataFusionError::from(own))).into();
        assert_eq!(through.kind(), Kind::Job);
        assert_eq!(through.to_string(), "unknown key `sise`");
        let own = Error::input("reading a.csv failed").because(Error::input("the store").because("refused"));
        let shared = DataFusionError::Shared(std::sync::Arc::new(own.into()));
        let through: Error = shared.context("while scanning").into();
        assert_eq!(distinct_messages(&through), ["reading a.csv failed", "the store", "refused"]);
    }

    #[test]
    fn own_errors_survive_as_debug_text() {
        let own = Error::input("reading a/\"b\".csv failed").because(Error::job("why {").because("deep"));
        let text = format!("Task failed: {:?}", DataFusionError::from(own).context("while scanning"));
        let own = Error::from_wire(&text).unwrap();
        assert_eq!((own.kind(), own.to_string().as_str()), (Kind::Input, "reading a/\"b\".csv failed"));
        assert_eq!(distinct_messages(&own), ["reading a/\"b\".csv failed", "why {", "deep"]);
        assert!(Error::from_wire("Task failed: no such thing").is_none());
    }

    #[tokio::test]
    async fn a_panic_of_a_task_is_a_bug_whoever_passes_it_on() {
        let panic = async || tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
        let store = async || object_store::Error::JoinError { source: panic().await };
        let errors: [Error; 4] = [
            store().await.into(),
            DataFusionError::ObjectStore(Box::new(store().await)).context("while listing").into(),
            DataFusionError::ExecutionJoin(Box::new(panic().await)).into(),
            DataFusionError::External(Box::new(panic().await)).into(),
        ];
        for error in errors {
            assert_eq!(error.kind(), Kind::Bug, "{error}");
        }
    }

    #[test]
    fn an_exhausted_pool_is_the_engines() {
        let error: Error = DataFusionError::ResourcesExhausted("no more".into()).into();
        assert_eq!(error.kind(), Kind::Memory);
        assert_eq!(error.kind().exit_code(), 4);
        assert_eq!(error.kind().name(), "engine");
        let own = Error::from_wire(&format!("{error:?}")).unwrap();
        assert_eq!(own.kind(), Kind::Memory);
    }
}
