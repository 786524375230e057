//! HTTPS of the agent's HTTP port: certificates from files, and the handshake. TLS between servers is configured
//! elsewhere.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use songline_api::Secure;
use songline_model::Dur;
use songline_rpc::port::Conn;
use tokio_rustls::TlsAcceptor;

use crate::config::network::{TlsConfig, TlsVersion};

/// The certificates of the HTTP port. Clones share them.
#[derive(Clone)]
pub(crate) struct Certificates(Arc<RwLock<TlsAcceptor>>);

impl Certificates {
    /// Loads the files that the configuration names; `None` where HTTPS is not configured.
    pub(crate) fn load(tls: &TlsConfig) -> anyhow::Result<Option<Self>> {
        let loaded = || anyhow::Ok(Self(Arc::new(RwLock::new(acceptor(tls)?))));
        tls.http.then(loaded).transpose()
    }

    /// Loads files for new connections; open connections stay. After an error everything is as before.
    pub(crate) fn reload(&self, tls: &TlsConfig) -> anyhow::Result<()> {
        let loaded = acceptor(tls)?;
        *self.0.write() = loaded;
        Ok(())
    }
}

fn acceptor(tls: &TlsConfig) -> anyhow::Result<TlsAcceptor> {
    Ok(TlsAcceptor::from(Arc::new(server_config(tls)?)))
}

/// TLS set-up of the HTTP port.
pub(crate) fn secure(certificates: Certificates, handshake_within: Dur) -> Secure {
    let within = handshake_within.to_std();
    Arc::new(move |stream| {
        let acceptor = certificates.0.read().clone();
        Box::pin(async move {
            let slow = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
            let stream = tokio::time::timeout(within, acceptor.accept(stream)).await.map_err(slow)??;
            Ok(Box::new(stream) as Conn)
        })
    })
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
        builder
            .with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
    } else {
        builder.with_no_client_auth()
    };
    let key_file = tls.key_file.as_deref().context("tls.key_file is needed")?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .with_context(|| format!("reading tls.key_file {}", key_file.display()))?;
    let mut config =
        builder.with_single_cert(certificates(tls.cert_file.as_deref(), "cert_file")?, key).context("tls.cert_file")?;
    // Exec sessions upgrade their connection, and clients know no way to do that in HTTP/2.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: Option<&Path>, key: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let file = file.with_context(|| format!("tls.{key} is needed"))?;
    let reading = || format!("reading tls.{key} {}", file.display());
    let found = CertificateDer::pem_file_iter(file)
        .with_context(reading)?
        .collect::<Result<Vec<_>, _>>()
        .with_context(reading)?;
    if found.is_empty() {
        anyhow::bail!("tls.{key}: there is no certificate in {}", file.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Answers every request in the same way.
    struct Greeter;

    impl songline_api::Answer for Greeter {
        fn answer(&self, _: axum::extract::Request) -> songline_api::Answering<'_> {
            Box::pin(async { axum::response::Response::new("hello".into()) })
        }
    }

    fn file(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("rpc/tests/tls").join(name)
    }

    fn settings() -> TlsConfig {
        TlsConfig {
            http: true,
            ca_file: Some(file("ca.pem")),
            cert_file: Some(file("server.pem")),
            key_file: Some(file("server.key.pem")),
            ..TlsConfig::default()
        }
    }

    fn certificates_of(tls: &TlsConfig) -> Option<Certificates> {
        Certificates::load(tls).expect("the files can be used")
    }

    /// Answers to a client that trusts our CA, over TLS and without.
    async fn heard(tls: &TlsConfig) -> (Option<String>, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("is bound");
        let (closing, secure) =
            (CancellationToken::new(), certificates_of(tls).map(|found| secure(found, Dur::from_secs(5))));
        let limits = songline_api::Limits::default();
        let serving =
            tokio::spawn(songline_api::serve_with(listener, Arc::new(Greeter), secure, limits, closing.clone()));
        let ca = std::fs::read_to_string(file("ca.pem")).expect("is there");
        // The certificate names a server of the region, independent of its address.
        let name = "server.global.nomad";
        let client =
            songline_client::tls::http_client_trusting(&[ca]).expect("is a certificate").resolve(name, address).build();
        let client = client.expect("is a client");
        let get = async |url: String| client.get(url).send().await.ok()?.text().await.ok();
        let both = (get(format!("https://{name}:{}/", address.port())).await, get(format!("http://{address}/")).await);
        closing.cancel();
        serving.await.expect("ends");
        both
    }

    #[tokio::test]
    async fn http_port_speaks_only_tls_or_only_plain_http() {
        assert_eq!(heard(&settings()).await, (Some("hello".into()), None));
        assert_eq!(heard(&TlsConfig { http: false, ..settings() }).await, (None, Some("hello".into())));
    }

    #[tokio::test]
    async fn callers_without_a_client_certificate_are_refused_where_required() {
        assert_eq!(heard(&TlsConfig { verify_https_client: true, ..settings() }).await, (None, None));
    }

    /// Whether a caller that trusts our CA is shown a certificate of this name.
    async fn is_shown(address: std::net::SocketAddr, name: &'static str) -> bool {
        let mut store = RootCertStore::empty();
        for root in certificates(Some(&file("ca.pem")), "ca_file").expect("is there") {
            store.add(root).expect("is a certificate");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(store).with_no_client_auth();
        let stream = tokio::net::TcpStream::connect(address).await.expect("connects");
        let name = name.try_into().expect("a name");
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
    }

    #[tokio::test]
    async fn reloaded_certificates_are_shown_to_new_callers_and_bad_ones_change_nothing() {
        let (server, client) = ("server.global.nomad", "client.global.nomad");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("is bound");
        let loaded = certificates_of(&settings()).expect("TLS is on");
        let (closing, secure) = (CancellationToken::new(), secure(loaded.clone(), Dur::from_secs(5)));
        let limits = songline_api::Limits::default();
        let (greeter, until) = (Arc::new(Greeter), closing.clone());
        let serving = tokio::spawn(songline_api::serve_with(listener, greeter, Some(secure), limits, until));
        assert!(is_shown(address, server).await);
        let other =
            TlsConfig { cert_file: Some(file("client.pem")), key_file: Some(file("client.key.pem")), ..settings() };
        loaded.reload(&other).expect("the files can be used");
        assert!(is_shown(address, client).await && !is_shown(address, server).await);
        let missing = TlsConfig { cert_file: Some(file("nobody.pem")), ..settings() };
        loaded.reload(&missing).expect_err("there is no such file");
        assert!(is_shown(address, client).await);
        closing.cancel();
        serving.await.expect("ends");
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let missing = TlsConfig { cert_file: Some(file("nobody.pem")), ..settings() };
        let Err(error) = Certificates::load(&missing) else { panic!("there is no such file") };
        assert!(format!("{error:#}").contains("nobody.pem"), "{error:#}");
        let empty = TlsConfig { cert_file: Some(file("server.key.pem")), ..settings() };
        let Err(error) = Certificates::load(&empty) else { panic!("a key is no certificate") };
        assert!(error.to_string().contains("there is no certificate in"), "{error:#}");
    }
}
