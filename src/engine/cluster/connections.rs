//! A pool of connections from an executor to others: one for each fetch would use up the ports of a machine. Ballista's own
//! pool comes only with its own execution engine.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;

/// Connections that were unused for this long are closed.
const IDLE: Duration = Duration::from_secs(30);

/// Open, unused connections.
#[derive(Default)]
pub(super) struct Connections {
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    to: (String, u16, GrpcClientConfig),
    since: Instant,
    client: BallistaClient,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    /// Closes connections that were unused for too long, and takes the one that was used last.
    fn take(&self, to: &(String, u16, GrpcClientConfig)) -> Option<BallistaClient> {
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE);
        let last = idle.iter().rposition(|idle| idle.to == *to)?;
        Some(idle.remove(last).client)
    }
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        let to = (host.to_owned(), port, config.clone());
        let client = match self.take(&to) {
            Some(client) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let idle = Arc::clone(&self.idle);
        let put_back = move |client| {
            let mut idle = idle.lock();
            idle.push(Idle { to, since: Instant::now(), client });
        };
        Ok(PooledClient::new(client, Box::new(put_back)))
    }

    async fn evict_idle(&self) {
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE);
    }
}
