//! Signature algorithms of tokens. Algorithms with a shared secret, and `none`, are not supported.

use std::fmt;

/// A signature algorithm with a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA, PKCS 1 v1.5, SHA-256.
    Rs256,
    /// RSA, PKCS 1 v1.5, SHA-384.
    Rs384,
    /// RSA, PKCS 1 v1.5, SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// RSA, PSS, SHA-384.
    Ps384,
    /// RSA, PSS, SHA-512.
    Ps512,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All supported algorithms.
    pub const ALL: [Algorithm; 10] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Es512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::EdDsa,
    ];

    /// The algorithm with this name in a token's header; `None` if it is not supported.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    /// The algorithm's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::EdDsa => "EdDSA",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
