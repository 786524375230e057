//! Trust of the TLS connections to an agent.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::client::Setup;

/// The TLS configuration of a client.
pub(crate) fn config(setup: &Setup) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = if setup.tls_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        builder.with_root_certificates(roots(setup)?)
    };
    match (&setup.client_cert, &setup.client_key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(Path::new(certificate))?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("reading {key}: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(_), None) | (None, Some(_)) => Err("both client cert and client key must be provided".to_owned()),
    }
}

fn roots(setup: &Setup) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &setup.ca_cert {
        add(&mut roots, Path::new(file))?;
    } else if let Some(directory) = &setup.ca_path {
        let found = std::fs::read_dir(directory).map_err(|error| format!("reading {directory}: {error}"))?;
        for entry in found {
            let path = entry.map_err(|error| format!("reading {directory}: {error}"))?.path();
            if path.is_file() {
                add(&mut roots, &path)?;
            }
        }
    } else {
        // Certificates of the system that cannot be read are left out: the connection says what is missing.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error| format!("reading {}: {error}", file.display());
    let found = CertificateDer::pem_file_iter(file).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if found.is_empty() {
        return Err(format!("{} has no certificate", file.display()));
    }
    Ok(found)
}

/// Takes any certificate: `-tls-skip-verify`. Signatures of the handshake are still checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
