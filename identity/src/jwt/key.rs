//! Public keys from PEM files and key sets, and signature verification. A key verifies only algorithms of its own
//! kind, so a public key is never used as a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p521::ecdsa::signature::Verifier as _;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::algorithm::Algorithm;
use super::der::{Der, OBJECT_ID, SEQUENCE, VERSION};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A text without a usable public key. The reference's text does not name Ed25519, which it cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse public key for JWT auth: data does not contain any valid RSA or ECDSA public keys")]
pub struct KeyError;

/// A public key with its declared use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Id of the key in a key set.
    pub kid: Option<String>,
    /// The only algorithm that the key may be used with, if declared.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// Reads the first key of a PEM text: a public key, or a certificate that contains one.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = pem_block(text).ok_or(KeyError)?;
        let material = of_key_info(Der(&der)).or_else(|| of_certificate(&der)).or_else(|| of_rsa(Der(&der)));
        material.map(|material| Self { kid: None, algorithm: None, material }).ok_or(KeyError)
    }

    /// Reads a key of a key set. `None`: the kind is not supported, or the key is not for signatures.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: without_zeros(bytes("n")?), e: without_zeros(bytes("e")?) },
            ("EC", Some("P-256")) => Material::P256(point(&bytes("x")?, &bytes("y")?, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(&bytes("x")?, &bytes("y")?, 48)?),
            ("EC", Some("P-521")) => Material::P521(point(&bytes("x")?, &bytes("y")?, 66)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            (_, _) => return None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), material })
    }

    /// Whether this key made the signature of `message` by this algorithm.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|only| only != algorithm.as_str()) {
            return false;
        }
        let plain = |with: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(with, key).verify(message, signature).is_ok()
        };
        let rsa = |with: &'static signature::RsaParameters, n: &[u8], e: &[u8]| {
            RsaPublicKeyComponents { n, e }.verify(with, message, signature).is_ok()
        };
        match (algorithm, &self.material) {
            (Algorithm::Rs256, Material::Rsa { n, e }) => rsa(&signature::RSA_PKCS1_2048_8192_SHA256, n, e),
            (Algorithm::Rs384, Material::Rsa { n, e }) => rsa(&signature::RSA_PKCS1_2048_8192_SHA384, n, e),
            (Algorithm::Rs512, Material::Rsa { n, e }) => rsa(&signature::RSA_PKCS1_2048_8192_SHA512, n, e),
            (Algorithm::Ps256, Material::Rsa { n, e }) => rsa(&signature::RSA_PSS_2048_8192_SHA256, n, e),
            (Algorithm::Ps384, Material::Rsa { n, e }) => rsa(&signature::RSA_PSS_2048_8192_SHA384, n, e),
            (Algorithm::Ps512, Material::Rsa { n, e }) => rsa(&signature::RSA_PSS_2048_8192_SHA512, n, e),
            (Algorithm::Es256, Material::P256(point)) => plain(&signature::ECDSA_P256_SHA256_FIXED, point),
            (Algorithm::Es384, Material::P384(point)) => plain(&signature::ECDSA_P384_SHA384_FIXED, point),
            (Algorithm::Es512, Material::P521(point)) => p521_verifies(point, message, signature),
            (Algorithm::EdDsa, Material::Ed25519(key)) => plain(&signature::ED25519, key),
            (
                _,
                Material::Rsa { .. } | Material::P256(_) | Material::P384(_) | Material::P521(_) | Material::Ed25519(_),
            ) => false,
        }
    }
}

/// Whether the first block of a PEM text is labelled as a certificate and contains a DER sequence.
pub fn is_certificate(text: &str) -> bool {
    let is_called_so = text.find("-----BEGIN ").is_some_and(|at| text[at..].starts_with("-----BEGIN CERTIFICATE-----"));
    is_called_so && pem_block(text).is_some_and(|der| Der(&der).take(SEQUENCE).is_some())
}

/// The bytes of the first PEM block, whatever its label.
fn pem_block(text: &str) -> Option<Vec<u8>> {
    let (_, after) = text.split_once("-----BEGIN ")?;
    let (_, body) = after.split_once("-----")?;
    let (body, _) = body.split_once("-----END ")?;
    let plain: String = body.chars().filter(|letter| !letter.is_whitespace()).collect();
    STANDARD.decode(plain).ok()
}

/// Reads a `SubjectPublicKeyInfo`.
fn of_key_info(mut der: Der<'_>) -> Option<Material> {
    let mut info = der.take(SEQUENCE)?;
    let mut algorithm = info.take(SEQUENCE)?;
    let kind = algorithm.take(OBJECT_ID)?.0;
    let key = info.bits()?;
    if kind == RSA {
        return of_rsa(Der(key));
    }
    if kind == ED25519 {
        return (key.len() == 32).then(|| Material::Ed25519(key.to_vec()));
    }
    if kind != EC || key.first() != Some(&4) {
        return None;
    }
    match algorithm.take(OBJECT_ID)?.0 {
        P256 if key.len() == 65 => Some(Material::P256(key.to_vec())),
        P384 if key.len() == 97 => Some(Material::P384(key.to_vec())),
        P521 if key.len() == 133 => Some(Material::P521(key.to_vec())),
        _ => None,
    }
}

fn of_rsa(mut der: Der<'_>) -> Option<Material> {
    let mut key = der.take(SEQUENCE)?;
    let (n, e) = (key.unsigned()?.to_vec(), key.unsigned()?.to_vec());
    key.is_empty().then_some(Material::Rsa { n, e })
}

/// Reads the key of a certificate, which follows version, serial number, algorithm, issuer, validity and subject.
fn of_certificate(der: &[u8]) -> Option<Material> {
    let mut body = Der(der).take(SEQUENCE)?.take(SEQUENCE)?;
    if body.peek() == Some(VERSION) {
        body.take(VERSION)?;
    }
    body.take(super::der::INTEGER)?;
    for _ in 0..4 {
        body.take(SEQUENCE)?;
    }
    of_key_info(body)
}

/// P-521 in a library of its own: the library of the other algorithms does not support it.
fn p521_verifies(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(point);
    let signature = p521::ecdsa::Signature::from_slice(signature);
    key.is_ok_and(|key| signature.is_ok_and(|signature| key.verify(message, &signature).is_ok()))
}

fn without_zeros(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}

/// A point in uncompressed form. Coordinates may lack leading zeros.
fn point(x: &[u8], y: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = vec![4];
    for coordinate in [x, y] {
        let missing = size.checked_sub(coordinate.len())?;
        out.resize(out.len() + missing, 0);
        out.extend_from_slice(coordinate);
    }
    Some(out)
}
