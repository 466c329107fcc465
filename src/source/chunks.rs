//! The bytes of a file, as they come.

use bytes::Bytes;
use datafusion::error::DataFusionError;
use futures::stream::BoxStream;

/// Bytes as they come.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, DataFusionError>>;
