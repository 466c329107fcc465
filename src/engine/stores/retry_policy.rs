//! Time limits for the answers of a store.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::environment::{Environment, REQUEST, RETRY};
use crate::error::Result;

const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time bounds the attempts; this only keeps them finite.
const ATTEMPTS: usize = 1_000;

/// Time limits of requests to a store.
pub(super) struct RetryPolicy {
    retry: Duration,
    request: Duration,
}

impl RetryPolicy {
    /// The limits that the environment sets, or the defaults.
    ///
    /// # Errors
    /// When a variable is not a number of seconds.
    pub(super) fn of(environment: &Environment) -> Result<Self> {
        let seconds = |variable| environment.seconds(variable).map(Duration::from_secs);
        Ok(Self { retry: seconds(&RETRY)?, request: seconds(&REQUEST)? })
    }

    /// The same policy with at most `most` seconds of retries.
    pub(super) fn at_most(&self, most: u64) -> Self {
        Self { retry: self.retry.min(Duration::from_secs(most)), request: self.request }
    }

    pub(super) fn retries(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: ATTEMPTS,
            retry_timeout: self.retry,
        }
    }

    pub(super) fn client(&self) -> ClientOptions {
        ClientOptions::new().with_connect_timeout(CONNECT).with_timeout(self.request)
    }
}
