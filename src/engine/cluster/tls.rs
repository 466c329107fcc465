//! TLS between the processes of a cluster: the certificate that a server shows, and the authorities that a client trusts.

use std::path::Path;
use std::sync::Arc;

use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use http::Uri;
use http::uri::Scheme;
use reqwest::ClientBuilder;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, Environment};
use crate::error::{Error, Result};

/// The authorities that the clients of this process trust. With them, every connection to the cluster is TLS.
#[derive(Clone)]
pub(crate) struct Trust {
    grpc: ClientTlsConfig,
    rest: Vec<reqwest::Certificate>,
}

impl Trust {
    /// By the file that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) when the file cannot be read or holds no certificate.
    pub(crate) fn of_process() -> Result<Option<Self>> {
        Environment::of_process().cluster_ca().map(|path| Self::read(path.as_ref())).transpose()
    }

    fn read(path: &Path) -> Result<Self> {
        let mut rest = Vec::new();
        for certificate in certificates(CLUSTER_CA, path)? {
            let wrong = |e| unusable(CLUSTER_CA, path).because(e);
            rest.push(reqwest::Certificate::from_der(&certificate).map_err(wrong)?);
        }
        let grpc = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(std::fs::read(path)?));
        Ok(Self { grpc, rest })
    }

    /// `client`, which trusts no other authorities.
    pub(crate) fn of_client(&self, client: ClientBuilder) -> ClientBuilder {
        let client = client.tls_built_in_root_certs(false);
        self.rest.iter().cloned().fold(client, ClientBuilder::add_root_certificate)
    }

    /// `endpoint` over TLS. An executor of Ballista connects to its scheduler by `http`, whatever its settings are.
    ///
    /// # Errors
    /// When the host is no name that a certificate can have.
    pub(super) fn of_endpoint(
        &self,
        mut endpoint: Endpoint,
    ) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
        if endpoint.uri().scheme() != Some(&Scheme::HTTPS) {
            let mut parts = endpoint.uri().clone().into_parts();
            parts.scheme = Some(Scheme::HTTPS);
            endpoint =
                create_grpc_client_endpoint(Uri::from_parts(parts)?, Some(&GrpcClientConfig::default()))?;
        }
        let host = endpoint.uri().host().unwrap_or_default();
        // An IPv6 address has brackets in a URL, and none in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(endpoint.tls_config(self.grpc.clone().domain_name(host))?)
    }
}

/// What a server of this process accepts TLS connections with; `None` if the environment names no certificate.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when a certificate or its key is missing or cannot be used.
pub(super) fn acceptor() -> Result<Option<TlsAcceptor>> {
    let environment = Environment::of_process();
    let (certificate, key) = match (environment.cluster_certificate(), environment.cluster_key()) {
        (Some(certificate), Some(key)) => (Path::new(certificate), Path::new(key)),
        (None, None) => return Ok(None),
        _ => {
            return Err(Error::job(format!(
                "set both {CLUSTER_CERTIFICATE} and {CLUSTER_KEY}, or neither of them: a server needs its certificate and its key"
            )));
        }
    };
    acceptor_of(certificate, key).map(Some)
}

fn acceptor_of(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = certificates(CLUSTER_CERTIFICATE, certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(CLUSTER_KEY, key).because(e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|e| {
        let (certificate, key) = (certificate.display(), key.display());
        Error::job(format!("the certificate {certificate} and the key {key} cannot be used together"))
            .because(e)
    })?;
    // gRPC, and the HTTP interface of a scheduler.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificates of the file that `variable` names.
fn certificates(variable: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|e| unusable(variable, path).because(e))?;
    if found.is_empty() {
        return Err(unusable(variable, path));
    }
    Ok(found)
}

fn unusable(variable: &str, path: &Path) -> Error {
    let expected = if variable == CLUSTER_KEY { "a private key" } else { "certificates" };
    Error::job(format!("{variable} names {}: expected a file with {expected} as PEM", path.display()))
}
