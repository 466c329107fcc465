//! How long a far store is waited for.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use super::variables::Variables;
use crate::error::{Error, Result};

/// Seconds for which a request is sent again after a 5xx, a broken connection or silence.
const RETRY_SECONDS: (&str, u64) = ("RESEMBLANCE_RETRY_SECONDS", 60);
/// Seconds that one request may take, its body included: a part of 8 MiB goes up in them, and a longer download is
/// taken up where it was.
const REQUEST_SECONDS: (&str, u64) = ("RESEMBLANCE_REQUEST_SECONDS", 60);

const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time is what bounds the attempts; this only keeps them finite.
const ATTEMPTS: usize = 1_000;

/// Bounds in time for requests to a store.
pub(super) struct RetryPolicy {
    retry: Duration,
    request: Duration,
}

impl RetryPolicy {
    /// The defaults, or what the variables say.
    pub(super) fn of(variables: &Variables) -> Result<Self> {
        Ok(Self {
            retry: seconds(variables, RETRY_SECONDS, 0)?,
            request: seconds(variables, REQUEST_SECONDS, 1)?,
        })
    }

    /// At most `most` seconds of retries.
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

fn seconds(variables: &Variables, (name, default): (&str, u64), least: u64) -> Result<Duration> {
    let seconds = match variables.get(name) {
        None => default,
        Some(given) => {
            given.trim().parse().ok().filter(|n| (least..=3_600).contains(n)).ok_or_else(|| {
                Error::job(format!(
                    "the variable {name} is {given:?}: expected whole seconds from {least} to 3600"
                ))
            })?
        }
    };
    Ok(Duration::from_secs(seconds))
}
