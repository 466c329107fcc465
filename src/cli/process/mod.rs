//! The process: threads, panics and local files.

pub(crate) mod files;
pub(crate) mod pair_page;
pub(crate) mod panics;
pub(crate) mod rejects_file;
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

/// The time limit for cancelling unfinished uploads. Cancelling an upload takes one request.
const UPLOADS_END: Duration = Duration::from_secs(10);
/// The time limit for ending threads. Without the limit, a slow name lookup could keep the process alive.
const THREADS_END: Duration = Duration::from_secs(3);
/// The number of threads that must start besides the worker threads. The runtime reads local files on them.
const SPARE_THREADS: usize = 8;
/// The memory limit of sessions that read only manifests, in bytes.
pub(crate) const MANIFEST_MEMORY: u64 = 64 << 20;

/// Executes `work` on a local session with a memory limit of `memory` bytes, until it ends or a signal stops it.
pub(crate) fn on_session<T>(
    memory: u64,
    work: impl AsyncFnOnce(&SessionContext, &CancellationToken) -> Result<T>,
) -> Result<T> {
    let engine = EngineSettings::local(memory);
    let runtime = JobRuntime::start(&engine)?;
    let session = lookup::session(&engine)?;
    runtime.run(work(&session, &runtime.stop))
}

/// A runtime with as many threads as the engine settings require, and a token that Ctrl-C and SIGTERM cancel. Dropping the runtime drops
/// its tasks and cancels their uploads.
pub(crate) struct JobRuntime {
    runtime: Option<Runtime>,
    /// Cancelled by the first signal.
    pub(crate) stop: CancellationToken,
}

impl JobRuntime {
    /// Starts the threads. Fails with `Kind::Engine` if the system refuses a thread.
    pub(crate) fn start(engine: &EngineSettings) -> Result<Self> {
        let threads = engine.thread_count();
        check_threads(threads)?;
        if let Some(warning) = above_machine(engine) {
            tracing::warn!("{warning}");
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        let runtime = build_runtime(&mut builder)?;
        let stop = CancellationToken::new();
        runtime.spawn(stop_on_signal(stop.clone()));
        Ok(Self { runtime: Some(runtime), stop })
    }

    /// Executes `work` until it ends. Signals do not stop it.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::bug("the threads of this command have ended")),
        }
    }

    /// Executes `work` until it ends or a signal stops it. The error after a signal does not promise that the same command continues the
    /// work.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.run_resumable(work).map_err(not_resumable)
    }

    /// Like [`Self::run`], but the error after a signal says that the same command continues the work.
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

/// Replaces the error after a signal by one that does not promise that the same command continues the work.
pub(crate) fn not_resumable(error: Error) -> Error {
    if error.kind() == Kind::Interrupted { Error::stopped() } else { error }
}

pub(crate) fn above_machine(engine: &EngineSettings) -> Option<String> {
    let memory = machine::memory().filter(|memory| engine.memory_bytes() > *memory)?;
    Some(format!(
        "the memory budget is {} MiB, and this machine or its container has {} MiB: the system may kill a process that uses more; \
         leave engine.memory out to use half of the available memory",
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

/// Ends a runtime. Its work must have ended or been dropped.
pub(crate) fn end(runtime: Runtime) {
    // A dropped task ends only when the runtime polls it next. Its uploads are cancelled then.
    if runtime.block_on(async { tokio::time::timeout(UPLOADS_END, uploads_ended()).await }).is_err() {
        tracing::warn!(
            "uploads in progress could not be cancelled within {} seconds: the bucket's rule for incomplete uploads \
             removes them, if it has one",
            UPLOADS_END.as_secs()
        );
    }
    runtime.shutdown_timeout(THREADS_END);
}

/// Builds a runtime. The threads of the runtime inherit the log span and the panic record of the calling thread.
pub(crate) fn build_runtime(builder: &mut Builder) -> Result<Runtime> {
    let (span, panics) = (tracing::Span::current(), Panics::current());
    builder.on_thread_start(move || {
        // The span is never left, so it lasts until the thread ends.
        std::mem::forget(span.clone().entered());
        Panics::enter(panics.clone());
    });
    builder.build().map_err(|e| Error::engine("the threads of this program cannot be started").because(e))
}

/// Checks that the system lets this process start all threads of the runtime, since a runtime that lacks a thread hangs. Starts the same
/// number of threads at once, and ends them.
fn check_threads(threads: usize) -> Result<()> {
    let needed = threads + SPARE_THREADS;
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // The threads wait at this gate until all have started.
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
