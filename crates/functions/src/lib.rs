//! Functions that find similar texts, for any DataFusion session.
//!
//! ```
//! # async fn example() -> datafusion::error::Result<()> {
//! let session = datafusion::prelude::SessionContext::new();
//! resemblance_functions::register_all(&session)?;
//! session.sql("select jaccard(shingles('a b c d e f', 'word', 2), shingles('a b c d e g', 'word', 2))").await?.show().await
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`kernel`] | plain functions on texts, shingle sets and signatures |
//! | [`udf`] | the SQL functions, which adapt the kernels to Arrow |
//! | [`error`] | the error of both |
//! | [`spelling`] | suggestions for misspelled words |

pub mod error;
pub mod kernel;
pub mod spelling;
pub mod udf;

pub use error::{Error, Result};
pub use udf::register_all;
