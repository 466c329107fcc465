//! `resemblance health`: the health check of a scheduler or an executor, for images without another HTTP client.

use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use crate::cli::support::{arguments, http, print};
use crate::error::{Error, Result};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance health localhost:50050";

/// Ask a scheduler or an executor whether it is healthy
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Health {
    /// Address of the role: a scheduler's port, or an executor's port plus 2
    #[arg(value_name = "HOST:PORT", value_parser = arguments::host_and_port)]
    address: String,
    /// Ask whether it accepts work (/readyz), not only whether it runs (/healthz)
    #[arg(long)]
    ready: bool,
    /// Seconds to wait for the answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

impl Health {
    /// Ends with exit code 0 if the role is healthy, else 4.
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let path = if self.ready { "readyz" } else { "healthz" };
        let (scheme, client) = client()?;
        let url = format!("{scheme}://{}/{path}", self.address);
        let asked = |e: Error| Error::engine(format!("{url} does not answer")).because(e);
        let limit = Duration::from_secs(self.timeout);
        let (status, said) = http::exchange(limit, client, |client| client.get(&url)).map_err(asked)?;
        match status.is_success() {
            true => print::result(&format!("{} {path}\n", self.address)),
            false => Err(Error::engine(format!("{url} answers {status}: {said}"))),
        }
    }
}

/// The scheme of a role's URL and a client for it: over TLS if this process trusts an authority.
fn client() -> Result<(&'static str, ClientBuilder)> {
    let client = Client::builder().no_proxy();
    #[cfg(feature = "cluster")]
    if let Some(trust) = crate::engine::cluster::credentials::Trust::of_process()? {
        return Ok(("https", trust.of_client(client)));
    }
    Ok(("http", client))
}
