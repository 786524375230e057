//! What connections that this program opens trust: the certificates of the system, or only those that somebody names.
//! Certificates of our own servers are not here.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why a certificate is of no use.
#[derive(Debug, thiserror::Error)]
#[error("invalid CA certificate")]
pub struct InvalidCertificate;

/// A client of HTTP, whose TLS trusts the system's certificates. A machine without any can still talk without TLS.
pub fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config(system_roots()))
}

/// A client of HTTP, whose TLS trusts only these certificates, in PEM.
pub fn http_client_trusting(ca_pem: &[String]) -> Result<reqwest::ClientBuilder, InvalidCertificate> {
    let mut roots = RootCertStore::empty();
    for pem in ca_pem {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.map_err(|_| InvalidCertificate)?).map_err(|_| InvalidCertificate)?;
        }
    }
    if roots.is_empty() {
        return Err(InvalidCertificate);
    }
    Ok(reqwest::Client::builder().tls_backend_preconfigured(config(Arc::new(roots))))
}

/// Read once; a certificate that is added later counts after a restart.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "some of the system's certificates cannot be read");
        }
        roots.add_parsable_certificates(found.certs);
        Arc::new(roots)
    };
    Arc::clone(ROOTS.get_or_init(read))
}

fn config(roots: Arc<RootCertStore>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.expect("the provider knows TLS 1.2 and 1.3");
    builder.with_root_certificates(roots).with_no_client_auth()
}
