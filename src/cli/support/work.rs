//! The work of a command: its threads, the signals that stop it, and an orderly end.

use std::sync::RwLock;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::cli::support::allocator;
use crate::cli::support::panics::Panics;
use crate::engine::spills;
use crate::engine::stores::uploads_ended;
use crate::error::{Error, Kind, Result};
use crate::{job, lookup, machine};

/// How long the cancellation of unfinished uploads may take: each is one request.
const UPLOADS_END: Duration = Duration::from_secs(10);
/// How long threads may take to end: what holds them longer, such as a look-up of a name, must not keep the process.
const THREADS_END: Duration = Duration::from_secs(3);
/// Threads that must start in addition to those of the runtime: reading local files takes some.
const SPARE_THREADS: usize = 8;
/// Bytes for a session that reads manifests and no tables.
pub(in crate::cli) const MANIFEST_MEMORY: u64 = 64 << 20;

/// Does `work` on a session of this machine with `memory` bytes, until it ends or a signal stops it.
pub(in crate::cli) fn on_session<T>(
    memory: u64,
    work: impl AsyncFnOnce(&SessionContext, &CancellationToken) -> Result<T>,
) -> Result<T> {
    let engine = job::Engine::local(memory);
    let threads = JobRuntime::begin(&engine)?;
    let session = lookup::session(&engine)?;
    threads.run(work(&session, &threads.stop))
}

/// A runtime with the threads of a job, and the token that Ctrl-C and SIGTERM cancel.
///
/// When it is dropped, its tasks are dropped and their unfinished uploads are cancelled.
pub(in crate::cli) struct JobRuntime {
    /// `None` when it has ended.
    runtime: Option<Runtime>,
    /// Cancelled by the first signal.
    pub(in crate::cli) stop: CancellationToken,
}

impl JobRuntime {
    /// Starts the threads, and sets the allocator to the job's memory budget.
    ///
    /// # Errors
    /// [`Kind::Engine`] when the system refuses to start as many threads.
    pub(in crate::cli) fn begin(engine: &job::Engine) -> Result<Self> {
        let threads = engine.thread_count();
        check_threads(threads)?;
        if let Some(warning) = above_machine(engine) {
            tracing::warn!("{warning}");
        }
        allocator::give_back(engine.memory_bytes(), threads);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        let runtime = built(&mut builder)?;
        let stop = CancellationToken::new();
        runtime.spawn(stop_on_signal(stop.clone()));
        runtime.spawn(allocator::give_back_in_intervals());
        Ok(Self { runtime: Some(runtime), stop })
    }

    /// Does `work` to its end.
    pub(in crate::cli) fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::bug("the threads of this command have ended")),
        }
    }

    /// Does `work` until it ends or a signal stops it.
    pub(in crate::cli) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.run_or(work, Error::interrupted)
    }

    /// Does `work` until it ends, or a signal stops it: then the error is `stopped`.
    pub(in crate::cli) fn run_or<T>(
        &self,
        work: impl Future<Output = Result<T>>,
        stopped: fn() -> Error,
    ) -> Result<T> {
        self.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.stop.cancelled() => Err(stopped()),
            }
        })
    }
}

/// The warning about a memory budget that is more than there is; `None` for any other.
pub(in crate::cli) fn above_machine(engine: &job::Engine) -> Option<String> {
    let memory = machine::memory().filter(|memory| engine.memory_bytes() > *memory)?;
    Some(format!(
        "the memory budget is {} MiB, and this machine or its container has {} MiB: the system may kill a process that uses more; \
         leave engine.memory out for half of what there is",
        engine.memory_bytes() >> 20,
        memory >> 20
    ))
}

impl Drop for JobRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            end(runtime);
        }
    }
}

/// Ends a runtime whose work has ended or was dropped.
pub(in crate::cli) fn end(runtime: Runtime) {
    // Dropped tasks end when they are polled next, and only then are their uploads dropped.
    if runtime.block_on(async { tokio::time::timeout(UPLOADS_END, uploads_ended()).await }).is_err() {
        tracing::warn!(
            "uploads in progress could not be cancelled within {} seconds: the bucket's rule for incomplete uploads \
             removes them, if it has one",
            UPLOADS_END.as_secs()
        );
    }
    runtime.shutdown_timeout(THREADS_END);
}

/// Builds a runtime whose threads inherit the calling thread's log span and panic record.
pub(in crate::cli) fn built(builder: &mut Builder) -> Result<Runtime> {
    let (span, panics) = (tracing::Span::current(), Panics::current());
    builder.on_thread_start(move || {
        // The span ends with the thread.
        std::mem::forget(span.clone().entered());
        Panics::enter(panics.clone());
    });
    builder.build().map_err(|e| Error::engine("the threads of this program cannot be started").because(e))
}

/// Starts as many threads as will be needed, all at once, and ends them: a runtime that lacks one hangs.
fn check_threads(threads: usize) -> Result<()> {
    let needed = threads + SPARE_THREADS;
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // Held until all have started.
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

/// Stops the work at the first Ctrl-C or SIGTERM, and ends the process at the second.
async fn stop_on_signal(stop: CancellationToken) {
    loop {
        if !signalled().await {
            return;
        }
        if stop.is_cancelled() {
            spills::remove_all();
            #[allow(clippy::disallowed_methods, reason = "the second signal ends the process at once")]
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
