//! Writes a run's metrics to a file or a Pushgateway.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use url::Url;

use crate::cli::support::http;
use crate::cli::support::metrics_text::MARK;
use crate::cli::support::own_file::{Mark, OwnFile};
use crate::error::{Error, Result};

/// The time limit of a push.
const PUSH_LIMIT: Duration = Duration::from_secs(10);

/// The destination of metrics.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum Destination {
    /// A file, for node_exporter's textfile collector.
    File(OwnFile),
    /// The group of a Pushgateway, as `http://host:9091/metrics/job/NAME`.
    Push(Url),
}

impl Destination {
    /// Parses `--metrics`. The message shows no URL, because it may contain a password.
    pub(in crate::cli) fn parse(text: &str) -> Result<Destination> {
        if !text.contains("://") {
            let mark = Mark { beginning: MARK, what: "the metrics of a run" };
            return Ok(Destination::File(OwnFile::at("--metrics", text, mark)?));
        }
        match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(Destination::Push(url)),
            _ => Err(Error::job(
                "--metrics: expected a file, or the http:// or https:// URL of a Pushgateway's group, \
                 such as http://host:9091/metrics/job/NAME",
            )),
        }
    }

    /// Writes the metrics, and replaces those of the previous run.
    pub(in crate::cli) fn put(&self, text: String) -> Result<()> {
        match self {
            Destination::File(file) => file.write(&text),
            Destination::Push(url) => push(url, text),
        }
    }
}

fn push(url: &Url, text: String) -> Result<()> {
    let shown = http::without_secrets(url);
    let put = |client: reqwest::Client| {
        client.put(url.clone()).header(CONTENT_TYPE, prometheus::TEXT_FORMAT).body(text)
    };
    let (status, said) = http::exchange(PUSH_LIMIT, reqwest::Client::builder(), put)
        .map_err(|e| Error::input(format!("{shown} does not accept the metrics")).because(e))?;
    match status.is_success() {
        true => Ok(()),
        false => {
            Err(Error::input(format!("{shown} does not accept the metrics: it answers {status}: {said}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_pushed_to_and_anything_else_is_a_file() {
        let url = "http://user:secret@localhost:9091/metrics/job/nightly?token=secret";
        let Destination::Push(url) = Destination::parse(url).unwrap() else { panic!("a URL is no file") };
        assert_eq!(http::without_secrets(&url), "http://localhost:9091/metrics/job/nightly");
        assert!(matches!(Destination::parse("run.prom").unwrap(), Destination::File(_)));
        for wrong in ["ftp://user:secret@host/x", "http://:secret@", "", "no-such-folder/run.prom", "src"] {
            let error = Destination::parse(wrong).unwrap_err();
            assert_eq!(error.kind().exit_code(), 2, "{wrong}");
            let said = error.to_string();
            assert!(said.starts_with("--metrics") && !said.contains("secret"), "{said}");
        }
    }
}
