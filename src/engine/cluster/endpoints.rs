//! The client side of a cluster's connections: they carry its token, go over TLS if this process trusts an authority, and end
//! when the other side is silent.

use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::{EndpointOverrideFn, SessionConfigExt};
use datafusion::prelude::SessionConfig;

use super::tls::Trust;
use super::token::Token;

/// The longest time in which a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection with requests that wait is probed this often.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection whose probe is not answered within this time is closed, and its requests fail. Longer than a busy process needs.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The change to the endpoints of Ballista's clients.
///
/// Those that fetch shuffled partitions have no timeout of Ballista's. Where packets are lost without a word, a task would wait as
/// long as TCP sends them again, up to a quarter of an hour, and keep its slot even if its stage is cancelled: tasks that
/// were begun cannot be cancelled by a scheduler that executors poll.
pub(super) fn endpoints(trust: Option<&Trust>) -> EndpointOverrideFn {
    let (token, trust) = (Token::of_process(), trust.cloned());
    Arc::new(move |mut endpoint| {
        if let Some(trust) = &trust {
            endpoint = trust.of_endpoint(endpoint)?;
        }
        if let Some(token) = &token {
            endpoint = endpoint.user_agent(token.user_agent())?;
        }
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
        Ok(endpoint.http2_keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
    })
}

/// A session's configuration whose connections have these endpoints.
pub(super) fn with_endpoints(config: SessionConfig, trust: Option<&Trust>) -> SessionConfig {
    let config = if trust.is_some() { config.with_ballista_use_tls(true) } else { config };
    config.with_ballista_override_create_grpc_client_endpoint(endpoints(trust))
}

/// The scheme of a URL of the cluster.
pub(super) fn scheme(trust: Option<&Trust>) -> &'static str {
    if trust.is_some() { "https" } else { "http" }
}
