//! The work of a command: threads to do it, signals that stop it, and an end in order.

use std::sync::RwLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::cli::support::allocator;
use crate::cli::support::panics::Panics;
use crate::engine::stores::uploads;
use crate::engine::{session, spills};
use crate::error::{Error, Kind, Result};
use crate::job;

/// Uploads that are given up are waited for this long: each takes one request.
const UPLOADS_END: Duration = Duration::from_secs(10);
/// Threads are waited for this long: what holds them longer, such as a look-up of a name, must not keep the process.
const THREADS_END: Duration = Duration::from_secs(3);
/// Threads that must start beside those of the runtime: reading local files takes some.
const SPARE_THREADS: usize = 8;

/// A runtime of as many threads as a job asks for, and the token that Ctrl-C and SIGTERM cancel.
///
/// Dropped, it ends in order: its tasks are dropped, and uploads that they had under way given up.
pub(in crate::cli) struct Work {
    /// None when it has ended.
    runtime: Option<Runtime>,
    /// Is cancelled by the first signal.
    pub(in crate::cli) stop: CancellationToken,
}

impl Work {
    /// Starts the threads, and has the allocator follow the job's budget.
    ///
    /// # Errors
    /// [`Kind::Engine`] when the system lets this process start no more of them.
    pub(in crate::cli) fn begin(engine: &job::Engine) -> Result<Self> {
        let threads = session::threads(engine);
        check_threads(threads)?;
        allocator::give_back(engine.memory);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        let runtime = built(&mut builder)?;
        let stop = CancellationToken::new();
        runtime.spawn(stop_on_signal(stop.clone()));
        Ok(Self { runtime: Some(runtime), stop })
    }

    /// Does `work` to its end.
    pub(in crate::cli) fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::bug("the threads of this command have ended")),
        }
    }

    /// Does `work` to its end, or until somebody stops it.
    pub(in crate::cli) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.stop.cancelled() => Err(Error::interrupted()),
            }
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            end(runtime);
        }
    }
}

/// Ends a runtime whose work is done or was dropped.
pub(in crate::cli) fn end(runtime: Runtime) {
    // Tasks of what was dropped end when they are looked at next, and only then are their uploads dropped.
    if runtime.block_on(async { tokio::time::timeout(UPLOADS_END, uploads::ended()).await }).is_err() {
        tracing::warn!(
            "uploads in progress could not be cancelled within {} seconds: the bucket's rule for incomplete uploads \
             removes them, if it has one",
            UPLOADS_END.as_secs()
        );
    }
    runtime.shutdown_timeout(THREADS_END);
}

/// The runtime, whose threads bear what the calling thread has for logs and panics.
pub(in crate::cli) fn built(builder: &mut Builder) -> Result<Runtime> {
    let (span, panics) = (tracing::Span::current(), Panics::current());
    builder.on_thread_start(move || {
        // Left only by the end of the thread.
        std::mem::forget(span.clone().entered());
        Panics::enter(panics.clone());
    });
    builder.build().map_err(|e| Error::engine("the threads of this program cannot be started").because(e))
}

/// Starts as many threads as will be needed, all at once, and ends them: a runtime that lacks some stands still for ever.
fn check_threads(threads: usize) -> Result<()> {
    let needed = threads + SPARE_THREADS;
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // Held until all were started.
        let _closed = gate.write();
        for started in 0..needed {
            let wait = || drop(gate.read());
            if let Err(e) = std::thread::Builder::new().spawn_scoped(scope, wait) {
                return Err(Error::engine(format!(
                    "the system lets this process start only {started} of the {needed} threads that engine.threads = \
                     {threads} needs: lower it, or raise the limit (ulimit -u, or the container's limit of processes)"
                ))
                .because(e));
            }
        }
        Ok(())
    })
}

/// The first Ctrl-C or SIGTERM stops the work in order; the second ends the process at once.
async fn stop_on_signal(stop: CancellationToken) {
    loop {
        if !signalled().await {
            return;
        }
        if stop.is_cancelled() {
            spills::remove_all();
            #[allow(clippy::disallowed_methods, reason = "asked for twice: now, whatever is half written")]
            std::process::exit(i32::from(Kind::Interrupted.exit_code()));
        }
        stop.cancel();
    }
}

#[cfg(unix)]
pub(in crate::cli) async fn signalled() -> bool {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return false;
    };
    tokio::select! {
        got = interrupt.recv() => got.is_some(),
        got = terminate.recv() => got.is_some(),
    }
}

#[cfg(not(unix))]
pub(in crate::cli) async fn signalled() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}
