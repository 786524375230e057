//! Trust of TLS connections that this program opens: the system's certificates, or only the given ones. Certificates
//! of our own servers are handled elsewhere.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// A certificate that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("invalid CA certificate")]
pub struct InvalidCertificate;

/// An HTTP client that trusts the system's certificates. On a machine without certificates it still works without
/// TLS.
pub fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config(system_roots()))
}

/// An HTTP client that trusts only these certificates, in PEM.
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

/// The system's certificates. Read once; a certificate that is added later is used after a restart.
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
