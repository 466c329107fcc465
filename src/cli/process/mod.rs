//! The process: its threads, memory, panics and local files, and the execution of a job.

pub(crate) mod allocator;
pub(crate) mod files;
pub(crate) mod panics;
pub(crate) mod run_job;

use std::sync::RwLock;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::cli::signals::stop_on_signal;
use crate::engine::stores::uploads_ended;
use crate::error::{Error, Kind, Result};
use crate::job::EngineSettings;
use crate::{lookup, machine};
use panics::Panics;

/// The time limit for cancelling unfinished uploads. Each cancellation takes one request.
const UPLOADS_END: Duration = Duration::from_secs(10);
/// The time limit for ending threads. Without it, a slow name lookup could keep the process alive.
const THREADS_END: Duration = Duration::from_secs(3);
/// The number of additional threads that must start. The runtime reads local files on some of these threads.
const SPARE_THREADS: usize = 8;
/// The memory of a session that reads only manifests, in bytes.
pub(crate) const MANIFEST_MEMORY: u64 = 64 << 20;

/// Executes `work` on a local session with `memory` bytes, until it ends or a signal stops it.
pub(crate) fn on_session<T>(
    memory: u64,
    work: impl AsyncFnOnce(&SessionContext, &CancellationToken) -> Result<T>,
) -> Result<T> {
    let engine = EngineSettings::local(memory);
    let runtime = JobRuntime::start(&engine)?;
    let session = lookup::session(&engine)?;
    runtime.run(work(&session, &runtime.stop))
}

/// A runtime with the threads of a job, and the token that Ctrl-C and SIGTERM cancel.
///
/// Dropping it drops its tasks and cancels their unfinished uploads.
pub(crate) struct JobRuntime {
    /// The runtime, or `None` after its end.
    runtime: Option<Runtime>,
    /// Cancelled by the first signal.
    pub(crate) stop: CancellationToken,
}

impl JobRuntime {
    /// Starts the threads and configures the allocator for the job's memory budget.
    ///
    /// # Errors
    /// [`Kind::Engine`] when the system refuses to start enough threads.
    pub(crate) fn start(engine: &EngineSettings) -> Result<Self> {
        let threads = engine.thread_count();
        check_threads(threads)?;
        if let Some(warning) = above_machine(engine) {
            tracing::warn!("{warning}");
        }
        allocator::give_back(engine.memory_bytes(), threads);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        let runtime = build_runtime(&mut builder)?;
        let stop = CancellationToken::new();
        runtime.spawn(stop_on_signal(stop.clone()));
        runtime.spawn(allocator::give_back_in_intervals());
        Ok(Self { runtime: Some(runtime), stop })
    }

    /// Executes `work` until it ends.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::bug("the threads of this command have ended")),
        }
    }

    /// Executes `work` until it ends or a signal stops it. The command cannot continue the work later.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.run_resumable(work).map_err(not_resumable)
    }

    /// Executes `work` until it ends or a signal stops it. The same command can continue the work later.
    pub(crate) fn run_resumable<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.stop.cancelled() => Err(Error::interrupted()),
            }
        })
    }
}

/// Replaces every interruption with an error that does not promise a continuation.
pub(crate) fn not_resumable(error: Error) -> Error {
    if error.kind() == Kind::Interrupted { Error::stopped() } else { error }
}

/// Returns a warning if the memory budget exceeds the memory of this machine.
pub(crate) fn above_machine(engine: &EngineSettings) -> Option<String> {
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

/// Ends a runtime after its work has ended or was dropped.
pub(crate) fn end(runtime: Runtime) {
    // A dropped task ends when it is polled the next time. Its uploads are dropped only then.
    if runtime.block_on(async { tokio::time::timeout(UPLOADS_END, uploads_ended()).await }).is_err() {
        tracing::warn!(
            "uploads in progress could not be cancelled within {} seconds: the bucket's rule for incomplete uploads \
             removes them, if it has one",
            UPLOADS_END.as_secs()
        );
    }
    runtime.shutdown_timeout(THREADS_END);
}

/// Builds a runtime. Its threads inherit the log span and the panic record of the calling thread.
pub(crate) fn build_runtime(builder: &mut Builder) -> Result<Runtime> {
    let (span, panics) = (tracing::Span::current(), Panics::current());
    builder.on_thread_start(move || {
        // The span ends when the thread ends.
        std::mem::forget(span.clone().entered());
        Panics::enter(panics.clone());
    });
    builder.build().map_err(|e| Error::engine("the threads of this program cannot be started").because(e))
}

/// Starts at the same time all threads that will be needed, and ends them. A runtime that lacks a thread would hang.
fn check_threads(threads: usize) -> Result<()> {
    let needed = threads + SPARE_THREADS;
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // The gate is closed until all threads have started.
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
