//! `resemblance health`: checks the health of a scheduler or an executor, for container images without another HTTP client.

use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use crate::address::host_port;
use crate::cli::record::http;
use crate::cli::screen::print;
use crate::error::{Error, Result};

/// Ask a scheduler or an executor whether it is healthy
#[derive(clap::Args)]
#[command(after_help = "  resemblance health localhost:50050")]
pub(crate) struct Health {
    /// Address of the role: the port of a scheduler, or the port of an executor plus 2
    #[arg(value_name = "HOST:PORT", value_parser = host_port)]
    address: (String, u16),
    /// Ask whether it accepts work (/readyz), not only whether it runs (/healthz)
    #[arg(long)]
    ready: bool,
    /// Seconds to wait for the answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

impl Health {
    /// Fails with [`Kind::Engine`](crate::error::Kind::Engine) if the scheduler or executor is not healthy or does not answer.
    pub(crate) fn run(&self) -> Result<()> {
        let path = if self.ready { "readyz" } else { "healthz" };
        let (scheme, client) = client()?;
        let (host, port) = &self.address;
        let url = format!("{scheme}://{host}:{port}/{path}");
        let asked = |e: Error| Error::engine(format!("{url} does not answer")).because(e);
        let limit = Duration::from_secs(self.timeout);
        let (status, answer) = http::exchange(limit, client, |client| client.get(&url)).map_err(asked)?;
        if !status.is_success() {
            return Err(Error::engine(format!("{url} answers {status}: {answer}")));
        }
        print::result(&format!("{host}:{port} {path}\n"))
    }
}

/// Returns the scheme of the cluster's URLs, and an HTTP client. Both use TLS if the environment names a certificate authority to trust.
fn client() -> Result<(&'static str, ClientBuilder)> {
    let client = Client::builder().no_proxy();
    #[cfg(feature = "cluster")]
    if let Some(trust) = crate::engine::cluster::connections::Trust::from_environment()? {
        return Ok(("https", trust.add_to_client(client)));
    }
    Ok(("http", client))
}
