//! Handles panics. Every panic is a bug in this program, and ends the command with a single line and the exit code for bugs.
//!
//! If a task panics, the engine resumes the panic in the waiting task, or reports a closed channel. If no task waits, the panic is lost.
//! Therefore a hook records every panic in [`Panics`], which threads inherit.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Arc, Once};

use parking_lot::Mutex;

use crate::cli::screen;
use crate::error::guard::{is_guarded, panic_text};
use crate::error::{Error, Kind, Result};

/// The first panic on any of the threads that share this record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panics(Arc<Mutex<Option<String>>>);

thread_local! {
    static CURRENT: RefCell<Option<Panics>> = const { RefCell::new(None) };
}

impl Panics {
    pub(crate) fn current() -> Option<Self> {
        // A thread that is ending may already have dropped its thread locals.
        CURRENT.try_with(|current| current.try_borrow().ok()?.clone()).ok().flatten()
    }

    pub(crate) fn enter(panics: Option<Self>) -> Option<Self> {
        CURRENT.with(|current| current.replace(panics))
    }

    fn add(&self, panic: &str) {
        self.0.lock().get_or_insert_with(|| panic.to_owned());
    }

    fn take(&self) -> Option<String> {
        self.0.lock().take()
    }
}

/// Installs the panic hook. If the thread has a panic record, the hook logs and records the panic. Otherwise it calls the previous hook.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match Panics::current() {
            // The guard will turn this panic into an error about the input.
            _ if is_guarded() => {}
            Some(panics) => {
                let description = describe(panic);
                panics.add(&description);
                // A thread that panicked while it wrote to the log must not write to it again.
                if !screen::is_writing() {
                    tracing::error!("{description}");
                }
            }
            None => before(panic),
        }));
    });
}

/// Executes `work`. If this thread panics, or a thread of a runtime that `work` starts, the result is [`Kind::Bug`], even if `work`
/// succeeds. Only an interruption is returned unchanged.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panics = Panics::default();
    let before = Panics::enter(Some(panics.clone()));
    let ended = catch_unwind(AssertUnwindSafe(work));
    Panics::enter(before);
    match (ended, panics.take()) {
        (Err(payload), panic) => {
            let panic = panic.unwrap_or_else(|| format!("a thread panicked: {}", message(payload.as_ref())));
            Err(Error::bug(panic))
        }
        (Ok(result), None) => result,
        (Ok(Ok(_)), Some(panic)) => Err(Error::bug(panic)),
        // After a signal, an interruption is reported even if a task panicked.
        (Ok(Err(error)), Some(_)) if error.kind() == Kind::Interrupted => Err(error),
        (Ok(Err(error)), Some(panic)) => Err(Error::bug(panic).because(error)),
    }
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    format!("thread {thread} panicked{place}: {}", message(panic.payload()))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    panic_text(payload).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::DataType;
    use datafusion::common::exec_err;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::cli::process::JobRuntime;
    use crate::engine::session;
    use crate::job::EngineSettings;

    fn two_threads() -> EngineSettings {
        EngineSettings { threads: 2, ..EngineSettings::local(1 << 28) }
    }

    fn is_told(result: Result<()>, message: &str) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::Bug, "{error}");
        let told = crate::cli::screen::print::explain(&error);
        assert!(told.contains(message) && told.contains("this is a bug"), "{told}");
    }

    #[test]
    fn a_panic_of_the_command_itself_is_a_bug() {
        watch();
        is_told(caught(|| panic!("own thread {}", 1)), "own thread 1");
        is_told(caught(|| std::panic::panic_any(7)), "no message");
        assert_eq!(caught(|| Ok(7)).unwrap(), 7);
    }

    #[test]
    fn a_panic_that_was_made_another_error_is_a_bug_but_not_over_damaged_input() {
        watch();
        let result = caught(|| {
            let _ = catch_unwind(|| panic!("hidden"));
            Err(Error::input("a channel was closed"))
        });
        let error = result.as_ref().unwrap_err();
        assert_eq!(std::error::Error::source(error).unwrap().to_string(), "a channel was closed");
        is_told(result, "hidden");
        let stopped: Result<()> = caught(|| {
            let _ = catch_unwind(|| panic!("hidden"));
            Err(Error::interrupted())
        });
        assert_eq!(stopped.unwrap_err().kind(), Kind::Interrupted);
        let damaged: Result<()> = caught(|| crate::error::guard::guarded(|| panic!("a footer")));
        assert_eq!(damaged.unwrap_err().kind(), Kind::Input);
    }

    #[test]
    fn a_panic_of_a_task_that_nobody_waits_for_is_a_bug() {
        watch();
        let result = caught(|| {
            let work = JobRuntime::start(&two_threads())?;
            work.block_on(async {
                let task = tokio::spawn(async { panic!("unseen") });
                while !task.is_finished() {
                    tokio::task::yield_now().await;
                }
                Ok(())
            })
        });
        is_told(result, "unseen");
    }

    /// Panics on a thread of the runtime, behind a shuffle, so that many parts of the engine pass the panic on.
    #[test]
    fn a_panic_in_a_plan_is_a_bug_and_does_not_hang() {
        watch();
        let panics =
            |_: &[ColumnarValue]| -> datafusion::error::Result<ColumnarValue> { panic!("in a plan") };
        let fails = |_: &[ColumnarValue]| exec_err!("an error and no panic");
        let query = |name: &str| {
            caught(|| {
                let work = JobRuntime::start(&two_threads())?;
                let context: SessionContext = session::session(&two_threads())?;
                for (name, function) in [
                    ("panics", Arc::new(panics) as datafusion::logical_expr::ScalarFunctionImplementation),
                    ("fails", Arc::new(fails)),
                ] {
                    let (types, volatile) = (vec![DataType::Int64], Volatility::Volatile);
                    context.register_udf(create_udf(name, types, DataType::Int64, volatile, function));
                }
                let query = format!(
                    "SELECT g.value % 7 AS bucket, count({name}(g.value)) FROM range(0, 100000) AS g \
                     JOIN range(0, 100000) AS h ON g.value = h.value GROUP BY bucket ORDER BY bucket"
                );
                work.block_on(async {
                    context.sql(&query).await?.collect().await?;
                    Ok(())
                })
            })
        };
        is_told(query("panics"), "in a plan");
        assert_eq!(query("fails").unwrap_err().kind(), Kind::Input);
    }
}
