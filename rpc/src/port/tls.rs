//! TLS on the port: certificates on both sides, and the region's names in a certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion,
    version,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use webpki::EndEntityCert;

use super::link::Conn;
use super::trust::{Refused, is_of_a_server};

/// TLS settings.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// CA certificates that must have signed others' certificates, PEM.
    pub ca_file: PathBuf,
    /// Own certificate, PEM, followed by any intermediate certificates.
    pub cert_file: PathBuf,
    /// Own private key, PEM.
    pub key_file: PathBuf,
    /// Region of the names that count.
    pub region: String,
    /// Whether a dialled server must have the name of a server of the region; otherwise any certificate signed by the
    /// CA will do.
    pub verify_server_hostname: bool,
    /// Whether connections without TLS are accepted too.
    pub upgrade: bool,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
}

/// Error of loading TLS settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("reading {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The files do not fit together.
    #[error("tls: {0}")]
    Unusable(String),
}

/// Loaded certificates and settings. Clones share them, and see certificates that are loaded anew.
#[derive(Clone)]
pub struct Tls {
    loaded: Arc<RwLock<Arc<Loaded>>>,
    names: Names,
    verify_server_hostname: bool,
    upgrade: bool,
}

/// Acceptor and connectors, made of the files.
struct Loaded {
    accepting: TlsAcceptor,
    dialling: TlsConnector,
    /// Dials servers of other regions, whose names are looked at after the handshake.
    dialling_regions: TlsConnector,
}

/// The names of a region's servers and clients.
#[derive(Debug, Clone)]
struct Names {
    server: ServerName<'static>,
    client: ServerName<'static>,
}

impl Loaded {
    fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let unusable = |error: &dyn std::fmt::Display| TlsError::Unusable(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&settings.ca_file)? {
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        let roots = Arc::new(roots);
        let own = certificates(&settings.cert_file)?;
        let key = PrivateKeyDer::from_pem_file(&settings.key_file).map_err(|error| file(&settings.key_file, &error))?;
        let versions: &[&SupportedProtocolVersion] =
            if settings.only_tls13 { &[&version::TLS13] } else { &[&version::TLS13, &version::TLS12] };
        let callers = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let callers = callers.build().map_err(|error| unusable(&error))?;
        let accepting = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let accepting = accepting.map_err(|error| unusable(&error))?.with_client_cert_verifier(callers);
        let accepting = accepting.with_single_cert(own.clone(), key.clone_key()).map_err(|error| unusable(&error))?;

        let dialling = |verify_name: bool| {
            let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
            let config = config.map_err(|error| unusable(&error))?;
            let chain_only = ChainOnly { roots: Arc::clone(&roots), provider: Arc::clone(&provider) };
            let config = match verify_name {
                true => config.with_root_certificates(Arc::clone(&roots)),
                false => config.dangerous().with_custom_certificate_verifier(Arc::new(chain_only)),
            };
            let config = config.with_client_auth_cert(own.clone(), key.clone_key());
            Ok(TlsConnector::from(Arc::new(config.map_err(|error| unusable(&error))?)))
        };
        Ok(Self {
            accepting: TlsAcceptor::from(Arc::new(accepting)),
            dialling: dialling(settings.verify_server_hostname)?,
            dialling_regions: dialling(false)?,
        })
    }
}

impl Tls {
    /// Loads the files.
    pub fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let name = |role: &str| {
            ServerName::try_from(format!("{role}.{}.nomad", settings.region))
                .map_err(|error| TlsError::Unusable(error.to_string()))
        };
        Ok(Self {
            loaded: Arc::new(RwLock::new(Arc::new(Loaded::load(settings)?))),
            names: Names { server: name("server")?, client: name("client")? },
            verify_server_hostname: settings.verify_server_hostname,
            upgrade: settings.upgrade,
        })
    }

    /// Loads the files of `settings` for new connections, of all clones; open connections stay. After an error
    /// everything is as before.
    pub fn reload(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let loaded = Arc::new(Loaded::load(settings)?);
        *self.loaded.write() = loaded;
        Ok(())
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read())
    }

    /// Whether connections without TLS are accepted too.
    pub fn takes_plain(&self) -> bool {
        self.upgrade
    }

    /// Does the TLS handshake with a server. Returns the names of the region in its certificate, too.
    pub(super) async fn connect(&self, stream: Conn) -> io::Result<(client::TlsStream<Conn>, Arc<[String]>)> {
        let stream = self.loaded().dialling.connect(self.names.server.clone(), stream).await?;
        let names = self.names.in_certificate(stream.get_ref().1.peer_certificates());
        Ok((stream, names))
    }

    /// Does the TLS handshake with a server of any region. Returns the names in its certificate, too. When servers'
    /// names are verified, one of them must be a server's.
    pub(super) async fn connect_to_region(&self, stream: Conn) -> io::Result<(client::TlsStream<Conn>, Arc<[String]>)> {
        let stream = self.loaded().dialling_regions.connect(self.names.server.clone(), stream).await?;
        let names = self.names.in_certificate(stream.get_ref().1.peer_certificates());
        if self.verify_server_hostname && !names.iter().any(|name| is_of_a_server(name)) {
            return Err(Refused::Certificate.into());
        }
        Ok((stream, names))
    }

    /// Does the TLS handshake with a caller. Returns the names of the region in its certificate, too.
    pub(super) async fn accept(&self, stream: Conn) -> io::Result<(server::TlsStream<Conn>, Arc<[String]>)> {
        let stream = self.loaded().accepting.accept(stream).await?;
        let names = self.names.in_certificate(stream.get_ref().1.peer_certificates());
        Ok((stream, names))
    }
}

impl Names {
    /// The region's names in the first certificate of a chain, and those of servers of other regions.
    fn in_certificate(&self, chain: Option<&[CertificateDer<'_>]>) -> Arc<[String]> {
        let first = chain.and_then(|chain| chain.first());
        let parsed = first.and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
        let has = |name: &&ServerName<'static>| {
            parsed.as_ref().is_some_and(|parsed| verify_server_name(parsed, name).is_ok())
        };
        let own = [&self.server, &self.client].into_iter().filter(has).map(|name| name.to_str().into_owned());
        let mut names: Vec<String> = own.collect();
        let whole = first.and_then(|certificate| EndEntityCert::try_from(certificate).ok());
        let of_servers = whole.iter().flat_map(|whole| whole.valid_dns_names()).filter(|name| is_of_a_server(name));
        for name in of_servers.map(str::to_owned) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("names", &self.names).field("upgrade", &self.upgrade).finish_non_exhaustive()
    }
}

fn file(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), why: why.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| file(path, &error))?;
    let read: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| file(path, &error))?;
    if read.is_empty() { Err(file(path, &"there is no certificate in it")) } else { Ok(read) }
}

/// Verifier that accepts every certificate signed by the CA, with any name.
#[derive(Debug)]
struct ChainOnly {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
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
