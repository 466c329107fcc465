//! The time limits and retries of requests to object stores. `checked_http` decides which errors are retried.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::environment::{Environment, REQUEST, RETRY};
use crate::error::Result;

const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The maximum number of attempts of a request. Usually the time limit ends them earlier.
const ATTEMPTS: usize = 1_000;

pub(super) struct RetryPolicy {
    pub(super) retry: Duration,
    request: Duration,
}

impl RetryPolicy {
    /// Reads the limits from the environment, with defaults.
    pub(super) fn from_environment(environment: &Environment) -> Result<Self> {
        let seconds = |variable| environment.seconds(variable).map(Duration::from_secs);
        Ok(Self { retry: seconds(&RETRY)?, request: seconds(&REQUEST)? })
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
