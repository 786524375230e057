//! An OpenID provider on a port of this machine, over TLS: one thread for each connection, one request on each. It
//! signs with ES256.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use sha2::Digest as _;

/// CA certificate of the provider.
pub const AUTHORITY: &str = include_str!("authority.pem");
/// The name and the secret of the only client.
pub const CLIENT: (&str, &str) = ("songline", "s&cret");
/// Timeout of a silent connection.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A running provider. It ends with the test's process.
pub struct Provider {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    issuer: String,
    key: EcdsaKeyPair,
    tls: Arc<ServerConfig>,
    /// Parameters sent to the login page, by the code that was issued for them.
    codes: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
}

impl Provider {
    pub fn start() -> Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let made = made.map_err(|_| anyhow::anyhow!("no key was made"))?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        let chain = vec![CertificateDer::from_pem_slice(include_bytes!("server.pem"))?];
        let tls_key = PrivateKeyDer::from_pem_slice(include_bytes!("server.key"))?;
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(crypto).with_safe_default_protocol_versions()?;
        let state = Arc::new(State {
            issuer: format!("https://{address}"),
            key: key.map_err(|error| anyhow::anyhow!("the key: {error}"))?,
            tls: Arc::new(tls.with_no_client_auth().with_single_cert(chain, tls_key)?),
            codes: Mutex::default(),
        });
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&served);
                // Clients that do not trust the certificate, or have read enough, disconnect early.
                thread::spawn(move || state.serve(stream).is_ok());
            }
        });
        Ok(Provider { address, state })
    }

    /// Address of a path on the provider.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Simulates a user who follows an address and logs in. Returns the state and the code that the browser is
    /// redirected with.
    pub fn visit(&self, auth_url: &str) -> Result<(String, String)> {
        let query =
            auth_url.strip_prefix(&self.url("/authorize?")).with_context(|| format!("{auth_url} is elsewhere"))?;
        let sent = pairs(query);
        let state = sent.get("state").cloned().context("a state")?;
        let mut codes = self.state.codes.lock();
        let code = format!("code {}", codes.len());
        codes.insert(code.clone(), sent);
        Ok((state, code))
    }

    /// A token of this provider that is valid for ten minutes, with these additional claims.
    pub fn token(&self, more: &Value) -> Result<String> {
        self.state.token(more)
    }
}

impl State {
    fn serve(&self, tcp: TcpStream) -> Result<()> {
        tcp.set_read_timeout(Some(SILENCE_MAX))?;
        tcp.set_write_timeout(Some(SILENCE_MAX))?;
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&self.tls))?, tcp);
        let (head, body) = read_request(&mut stream)?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path == "/endless" {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"keys\": [")?;
            loop {
                stream.write_all(&[b' '; 4096])?;
            }
        }
        let (status, location, answer) = match path {
            "/.well-known/openid-configuration" => (200, "", self.document()),
            "/keys" => (200, "", json!({"keys": [self.jwk()]})),
            "/token" => match self.exchange(&head, &body)? {
                Some(tokens) => (200, "", tokens),
                None => (400, "", json!({"error": "invalid_grant"})),
            },
            "/user" if head.contains("authorization: Bearer access") => {
                (200, "", json!({"sub": "ann", "groups": ["ops", "dev"]}))
            }
            "/moved" => (302, "/keys", json!({})),
            _ => (404, "", json!({})),
        };
        let body = answer.to_string();
        let size = body.len();
        let location = if location.is_empty() { String::new() } else { format!("location: {location}\r\n") };
        write!(stream, "HTTP/1.1 {status} X\r\n{location}content-length: {size}\r\nconnection: close\r\n\r\n{body}")?;
        stream.conn.send_close_notify();
        stream.flush()?;
        Ok(())
    }

    fn document(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"), "jwks_uri": at("/keys"),
            "userinfo_endpoint": at("/user"), "code_challenge_methods_supported": ["plain", "S256"],
        })
    }

    fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "only", "x": x, "y": y})
    }

    /// Exchanges a code for tokens: once, and only for the client that began the login.
    fn exchange(&self, head: &str, body: &str) -> Result<Option<Value>> {
        let form = pairs(body);
        let given = |name: &str| form.get(name).cloned().unwrap_or_default();
        let Some(began) = self.codes.lock().remove(&given("code")) else {
            return Ok(None);
        };
        let began = |name: &str| began.get(name).cloned().unwrap_or_default();
        let basic = STANDARD.encode(format!("{}:{}", CLIENT.0, CLIENT.1.replace('&', "%26")));
        let challenge = URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(given("code_verifier")));
        let is_right = head.contains(&format!("authorization: Basic {basic}"))
            && given("grant_type") == "authorization_code"
            && given("redirect_uri") == began("redirect_uri")
            && began("code_challenge") == challenge;
        if !is_right {
            return Ok(None);
        }
        let id_token = self.token(&json!({"aud": CLIENT.0, "nonce": began("nonce")}))?;
        Ok(Some(json!({"id_token": id_token, "access_token": "access", "token_type": "Bearer", "expires_in": 600})))
    }

    fn token(&self, more: &Value) -> Result<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let mut claims = json!({"iss": self.issuer, "sub": "ann", "iat": now, "exp": now + 600});
        for (name, value) in more.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "kid": "only"});
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        match self.key.sign(&SystemRandom::new(), signed.as_bytes()) {
            Ok(signature) => Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))),
            Err(_) => bail!("nothing was signed"),
        }
    }
}

/// Reads the head and the body of a request. Header names are in lower case.
fn read_request(stream: &mut impl Read) -> Result<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let size = stream.read(&mut piece)?;
        if size == 0 {
            bail!("the request ended in its middle");
        }
        bytes.extend_from_slice(&piece[..size]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(Ok(0), str::parse::<usize>)?;
        if body.len() >= length {
            return Ok((head.to_owned(), body.to_owned()));
        }
    }
}

/// The pairs of a query or a form, decoded.
fn pairs(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    let mut parts = spaced.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => out.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
