//! The client side of a cluster's connections: they carry its token, and go over TLS if this process trusts an authority.

use std::sync::Arc;

use ballista_core::extension::{EndpointOverrideFn, SessionConfigExt};
use datafusion::prelude::SessionConfig;

use super::tls::Trust;
use super::token::Token;

/// The change to the endpoints of Ballista's clients; `None` without a token and without TLS.
pub(super) fn endpoints(trust: Option<&Trust>) -> Option<EndpointOverrideFn> {
    let (token, trust) = (Token::of_process(), trust.cloned());
    if token.is_none() && trust.is_none() {
        return None;
    }
    Some(Arc::new(move |mut endpoint| {
        if let Some(trust) = &trust {
            endpoint = trust.of_endpoint(endpoint)?;
        }
        if let Some(token) = &token {
            endpoint = endpoint.user_agent(token.user_agent())?;
        }
        Ok(endpoint)
    }))
}

/// A session's configuration whose connections have these endpoints.
pub(super) fn with_endpoints(config: SessionConfig, trust: Option<&Trust>) -> SessionConfig {
    let config = if trust.is_some() { config.with_ballista_use_tls(true) } else { config };
    match endpoints(trust) {
        Some(change) => config.with_ballista_override_create_grpc_client_endpoint(change),
        None => config,
    }
}

/// The scheme of a URL of the cluster.
pub(super) fn scheme(trust: Option<&Trust>) -> &'static str {
    if trust.is_some() { "https" } else { "http" }
}
