//! HTTPS of the agent's HTTP port: certificates from files, and the handshake. Certificates among servers are not here.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use songline_api::Secure;
use songline_model::Dur;
use songline_rpc::port::Conn;
use tokio_rustls::TlsAcceptor;

use crate::config::network::{TlsConfig, TlsVersion};

/// What makes connections to the HTTP port safe; `None` where that is not asked for.
pub(crate) fn secure(tls: &TlsConfig, handshake_within: Dur) -> anyhow::Result<Option<Secure>> {
    if !tls.http {
        return Ok(None);
    }
    let acceptor = TlsAcceptor::from(Arc::new(server_config(tls)?));
    let within = handshake_within.to_std();
    Ok(Some(Arc::new(move |stream| {
        let acceptor = acceptor.clone();
        Box::pin(async move {
            let slow = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
            let stream = tokio::time::timeout(within, acceptor.accept(stream)).await.map_err(slow)??;
            Ok(Box::new(stream) as Conn)
        })
    })))
}

fn server_config(tls: &TlsConfig) -> anyhow::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[&rustls::SupportedProtocolVersion] = match tls.min_version {
        TlsVersion::Tls12 => &[&rustls::version::TLS12, &rustls::version::TLS13],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
    let builder = if tls.verify_https_client {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(tls.ca_file.as_deref(), "ca_file")? {
            roots.add(certificate).context("tls.ca_file")?;
        }
        builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
    } else {
        builder.with_no_client_auth()
    };
    let key_file = tls.key_file.as_deref().context("tls.key_file is needed")?;
    let key = PrivateKeyDer::from_pem_file(key_file).with_context(|| format!("reading tls.key_file {}", key_file.display()))?;
    let mut config = builder.with_single_cert(certificates(tls.cert_file.as_deref(), "cert_file")?, key).context("tls.cert_file")?;
    // Sessions in tasks upgrade their connection, which the second version of HTTP has no way for that clients know.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: Option<&Path>, key: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let file = file.with_context(|| format!("tls.{key} is needed"))?;
    let reading = || format!("reading tls.{key} {}", file.display());
    let found = CertificateDer::pem_file_iter(file).with_context(reading)?.collect::<Result<Vec<_>, _>>().with_context(reading)?;
    if found.is_empty() {
        anyhow::bail!("tls.{key}: there is no certificate in {}", file.display());
    }
    Ok(found)
}
