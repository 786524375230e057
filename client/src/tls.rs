//! Trust of TLS connections that this program opens: the system's certificates, or only the given ones. Certificates
//! of our own servers are handled elsewhere.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// A certificate that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("invalid CA certificate")]
pub struct InvalidCertificate;

/// Certificates of connections to another system, and whether its own is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// File of the certificates that must have signed the other side's, in PEM; `None` takes the system's.
    pub ca_file: Option<PathBuf>,
    /// Files of the own certificate and its key, in PEM.
    pub own_files: Option<(PathBuf, PathBuf)>,
    /// Whether the other side's certificate is verified at all.
    pub verify: bool,
}

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A file cannot be read.
    #[error("reading {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The files do not fit together.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
}

impl Default for Trust {
    fn default() -> Self {
        Self { ca_file: None, own_files: None, verify: true }
    }
}

impl Trust {
    /// An HTTP client with this trust. Reads the files.
    pub fn http_client(&self) -> Result<reqwest::ClientBuilder, Unusable> {
        let roots = match &self.ca_file {
            None => system_roots(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate)?;
                }
                Arc::new(roots)
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = if self.verify {
            builder.with_root_certificates(roots)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone { provider }))
        };
        let config = match &self.own_files {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let read = PrivateKeyDer::from_pem_file(key);
                let read = read.map_err(|error| Unusable::File { path: key.clone(), why: error.to_string() })?;
                builder.with_client_auth_cert(certificates(certificate)?, read)?
            }
        };
        Ok(reqwest::Client::builder().tls_backend_preconfigured(config))
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let failed = |why: String| Unusable::File { path: path.clone(), why };
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed("it has no certificate".to_owned())),
        all => all.map_err(|error| failed(error.to_string())),
    }
}

/// Accepts any certificate: the operator has switched verification off. Signatures of the handshake are still checked.
#[derive(Debug)]
struct Anyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// An HTTP client that trusts the system's certificates. On a machine without certificates it still works without
/// TLS.
pub fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config(system_roots()))
}

/// TLS of a client that trusts the system's certificates.
pub fn client_config() -> ClientConfig {
    config(system_roots())
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
