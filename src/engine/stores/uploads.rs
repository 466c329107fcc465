//! The uploads of this process that are under way, so that its end can wait for those that are being given up.

use std::sync::LazyLock;

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Closed from the beginning, so that waiting ends whenever there is none.
static UNDER_WAY: LazyLock<TaskTracker> = LazyLock::new(|| {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
});

/// An upload that is under way as long as this lives.
pub(super) fn begin() -> TaskTrackerToken {
    UNDER_WAY.token()
}

/// Waits until no upload is under way: each was completed or given up.
pub(crate) async fn ended() {
    UNDER_WAY.wait().await;
}
