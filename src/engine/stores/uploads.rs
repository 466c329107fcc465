//! The running uploads of this process, so that its end can wait for those that are being aborted.

use std::sync::LazyLock;

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Closed from the beginning, so that waiting ends whenever no upload runs.
static UNDER_WAY: LazyLock<TaskTracker> = LazyLock::new(|| {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
});

/// Counts an upload while the token lives.
pub(super) fn begin() -> TaskTrackerToken {
    UNDER_WAY.token()
}

/// Waits until every upload is completed or aborted.
pub(crate) async fn ended() {
    UNDER_WAY.wait().await;
}
