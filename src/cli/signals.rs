//! Handles Ctrl-C and SIGTERM: the first signal stops the work, and the second signal ends the process.

use tokio_util::sync::CancellationToken;

use crate::engine::spills;
use crate::error::Kind;

/// Cancels `stop` at the first signal. If `stop` is already cancelled, a signal ends the process.
pub(crate) async fn stop_on_signal(stop: CancellationToken) {
    while signalled().await {
        if stop.is_cancelled() {
            spills::remove_all();
            #[allow(clippy::disallowed_methods, reason = "the second signal ends the process at once")]
            std::process::exit(i32::from(Kind::Interrupted.exit_code()));
        }
        stop.cancel();
    }
}

/// Waits for a signal. Returns false if the process cannot receive signals.
#[cfg(unix)]
pub(crate) async fn signalled() -> bool {
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
pub(crate) async fn signalled() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}
