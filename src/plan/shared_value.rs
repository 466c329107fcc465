//! A value that the partitions of an operator share.

use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use tokio::sync::OnceCell;

/// A value that is made by the first partition that needs it, in this process. An error is shared in the same way.
pub(crate) struct SharedValue<T>(OnceCell<Result<Arc<T>, Arc<DataFusionError>>>);

impl<T> Default for SharedValue<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("is_made", &self.0.initialized()).finish_non_exhaustive()
    }
}

impl<T> SharedValue<T> {
    /// The value, which `make` makes if it does not exist yet.
    ///
    /// # Errors
    /// The error of the future that tried to make it.
    pub(crate) async fn get(&self, make: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let made = self.0.get_or_init(|| async { make.await.map(Arc::new).map_err(Arc::new) }).await;
        made.clone().map_err(DataFusionError::Shared)
    }
}
