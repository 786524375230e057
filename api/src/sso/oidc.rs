//! The authorisation code flow: the address that a user is sent to, and what is made of the code that they come back with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngExt;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use songline_lang::jwt::{
    Algorithm, Claims, Compact, IdTokenError, IdTokenExpected, Leeways, check_access_token, check_id_token, is_certificate,
};
use songline_lang::login::overlay;
use songline_model::{AclAuthMethod, AclAuthMethodConfig, Secret, Str, Time};

use super::Sso;
use super::fetch::{Credentials, Form, Outgoing, body_of};
use super::form;
use super::provider::{Document, KeysError, Provider, discovery_ca};
use super::requests::{Open, OpenError};

/// Longest answer with tokens, in bytes.
const TOKENS_BYTES_MAX: usize = 1024 * 1024;
/// Longest answer about a user, in bytes.
const USER_BYTES_MAX: usize = 512 * 1024;
/// Longest nonce or address of a caller, in bytes: they are kept while a user logs in.
const KEPT_BYTES_MAX: usize = 2048;

/// What a caller asks to be sent to.
#[derive(Debug, Clone, Copy)]
pub struct AuthUrl<'a> {
    /// Where the provider sends the user back to.
    pub redirect_uri: &'a str,
    /// The caller's own, told to nobody else but the provider.
    pub nonce: &'a str,
}

/// What a caller comes back with.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a> {
    /// Of the address that it began with.
    pub redirect_uri: &'a str,
    /// The same as at its begin.
    pub nonce: &'a str,
    /// What the provider has given back.
    pub state: &'a str,
    /// What the provider has given for us.
    pub code: &'a str,
}

/// Why a method's configuration makes no provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No name for us.
    #[error("client ID is empty: invalid parameter")]
    NoClientId,
    /// No provider.
    #[error("issuer is empty: invalid parameter")]
    NoIssuer,
    /// No address.
    #[error("issuer {0} is invalid (parse {0:?}: missing protocol scheme): invalid issuer")]
    Issuer(String),
    /// An address of another kind.
    #[error("issuer {0} schema is not http or https: invalid issuer")]
    Scheme(String),
    /// An algorithm that does not exist.
    #[error("unsupported algorithm {0}: invalid parameter")]
    Algorithm(String),
    /// A certificate that is none.
    #[error("invalid CA certificate")]
    Certificate,
}

/// Why nobody has logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The configuration is wrong.
    #[error("failed to generate OIDC provider: NewConfig: invalid provider config: Config.Validate: {0}")]
    Config(#[from] ConfigError),
    /// The provider cannot be had.
    #[error("failed to generate OIDC provider: NewProvider: unable to create provider: {0}")]
    Provider(String),
    /// The method does not allow this address.
    #[error("failed to generate auth URL: Provider.AuthURL: Provider.validRedirect: redirect URI {0}: unauthorized redirect_uri")]
    Redirect(String),
    /// A nonce or address that is too long to be kept.
    #[error("{0} is longer than {KEPT_BYTES_MAX} bytes")]
    TooLong(&'static str),
    /// No more logins begin.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nobody has begun with this nonce, or they are back already, or too late.
    #[error("no OIDC request found for client nonce")]
    NoRequest,
    /// What came back does not hold.
    #[error("failed to exchange token with provider: Provider.Exchange: {0}")]
    Exchange(#[from] ExchangeError),
    /// The provider does not say who the user is.
    #[error("failed to retrieve the user info claims: {0}")]
    User(String),
}

/// Why a code was not exchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The answer is to another question.
    #[error("authentication request state and authorization state are not equal: invalid response state")]
    State,
    /// It comes back elsewhere than it was told to.
    #[error("Provider.validRedirect: redirect URI {0}: unauthorized redirect_uri")]
    Redirect(String),
    /// The provider does not take the code.
    #[error("unable to exchange auth code with provider: {0}")]
    Code(String),
    /// It gives no id token.
    #[error("id_token is missing from auth code exchange: id_token is missing")]
    NoIdToken,
    /// It gives one that does not hold.
    #[error("id_token failed verification: Provider.VerifyIDToken: {0}")]
    IdToken(#[from] IdTokenError),
    /// Its keys cannot be had.
    #[error("id_token failed verification: Provider.VerifyIDToken: fetching keys {0}")]
    Keys(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    id_token: String,
    access_token: String,
}

impl Sso {
    /// Begins a login: the address that the user is to be sent to.
    pub async fn auth_url(
        &self,
        method: &AclAuthMethod,
        config: &AclAuthMethodConfig,
        asked: AuthUrl<'_>,
        now: Time,
    ) -> Result<String, OidcError> {
        let (_, document) = self.discover(method, config).await?;
        if !is_allowed(config, asked.redirect_uri) {
            return Err(OidcError::Redirect(asked.redirect_uri.to_owned()));
        }
        for (name, text) in [("client nonce", asked.nonce), ("redirect URI", asked.redirect_uri)] {
            if text.len() > KEPT_BYTES_MAX {
                return Err(OidcError::TooLong(name));
            }
        }
        let state = format!("st_{}", random_text(20));
        let proves = document.code_challenge_methods_supported.iter().any(|name| name == "S256");
        let verifier = proves.then(|| random_text(64));
        let challenge = verifier.as_ref().map(|verifier| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)));
        let scopes = scopes(config);
        let mut pairs = vec![("client_id", config.oidc_client_id.as_str())];
        if let Some(challenge) = &challenge {
            pairs.push(("code_challenge", challenge));
            pairs.push(("code_challenge_method", "S256"));
        }
        pairs.extend([
            ("nonce", asked.nonce),
            ("redirect_uri", asked.redirect_uri),
            ("response_type", "code"),
            ("scope", &scopes),
            ("state", &state),
        ]);
        let joint = if document.authorization_endpoint.contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}{}", document.authorization_endpoint, form::encode(&pairs));
        let kept = (Secret::new(&state), asked.redirect_uri.to_owned(), verifier.map(Secret::new));
        self.requests.open(&method.name, asked.nonce, now, kept)?;
        Ok(url)
    }

    /// Ends a login: the claims of the user who comes back.
    pub async fn complete(
        &self,
        method: &AclAuthMethod,
        config: &AclAuthMethodConfig,
        back: Callback<'_>,
        now: Time,
    ) -> Result<Claims, OidcError> {
        let (provider, document) = self.discover(method, config).await?;
        let open = self.requests.take(&method.name, back.nonce, now).ok_or(OidcError::NoRequest)?;
        if !same_secret(open.state.reveal(), back.state) {
            return Err(ExchangeError::State.into());
        }
        if open.redirect_uri != back.redirect_uri || !is_allowed(config, back.redirect_uri) {
            return Err(ExchangeError::Redirect(back.redirect_uri.to_owned()).into());
        }
        let tokens = self.exchange(config, &document, &open, back.code).await?;
        let token = Compact::parse(&tokens.id_token).map_err(|refusal| ExchangeError::from(IdTokenError::Malformed(refusal)))?;
        let mut claims = provider.claims(&*self.fetch, config, &token).await.map_err(|error| match error {
            KeysError::Fetch(text) => ExchangeError::Keys(text),
            KeysError::Unsigned => IdTokenError::Signature.into(),
        })?;
        let expected = IdTokenExpected {
            issuer: &document.issuer,
            client_id: &config.oidc_client_id,
            audiences: config.bound_audiences.as_deref().unwrap_or_default(),
            algorithms: config.signing_algs.as_deref().unwrap_or_default(),
            nonce: back.nonce,
            clock_skew: Leeways::of(config).clock_skew,
        };
        let subject = check_id_token(&token, &claims, &expected, now).map_err(ExchangeError::from)?.to_owned();
        check_access_token(&token, &claims, &tokens.access_token).map_err(ExchangeError::from)?;
        if !document.userinfo_endpoint.is_empty() && !tokens.access_token.is_empty() {
            let user = self.user(config, &document, &subject, &tokens.access_token).await.map_err(OidcError::User)?;
            overlay(&mut claims, user);
        }
        Ok(claims)
    }

    async fn discover(
        &self,
        method: &AclAuthMethod,
        config: &AclAuthMethodConfig,
    ) -> Result<(std::sync::Arc<Provider>, Document), OidcError> {
        check_config(config)?;
        let provider = self.provider(method);
        let document = provider.document(&*self.fetch, config).await.map_err(OidcError::Provider)?;
        Ok((provider, document))
    }

    async fn exchange(&self, config: &AclAuthMethodConfig, document: &Document, open: &Open, code: &str) -> Result<Tokens, ExchangeError> {
        let (id, secret) = (config.oidc_client_id.as_str(), config.oidc_client_secret.reveal());
        let mut pairs = vec![("code", code), ("grant_type", "authorization_code"), ("redirect_uri", &open.redirect_uri)];
        if let Some(verifier) = &open.verifier {
            pairs.push(("code_verifier", verifier.reveal()));
        }
        let offered = &document.token_endpoint_auth_methods_supported;
        let by_form = !offered.is_empty() && !offered.iter().any(|name| name == "client_secret_basic");
        let credentials = if secret.is_empty() || by_form {
            pairs.push(("client_id", id));
            if !secret.is_empty() {
                pairs.push(("client_secret", secret));
            }
            Credentials::None
        } else {
            Credentials::Basic(form::escape(id), Secret::new(form::escape(secret)))
        };
        let outgoing = Outgoing {
            url: document.token_endpoint.clone(),
            form: Some(Form(form::encode(&pairs))),
            credentials,
            ca_pem: discovery_ca(config),
            bytes_max: TOKENS_BYTES_MAX,
        };
        let body = body_of(&*self.fetch, outgoing).await.map_err(ExchangeError::Code)?;
        let tokens: Tokens =
            serde_json::from_slice(&body).map_err(|error| ExchangeError::Code(format!("oauth2: cannot parse json: {error}")))?;
        if tokens.id_token.is_empty() { Err(ExchangeError::NoIdToken) } else { Ok(tokens) }
    }

    /// What the provider says of a user. It must be the user of the id token.
    async fn user(&self, config: &AclAuthMethodConfig, document: &Document, subject: &str, token: &str) -> Result<Claims, String> {
        let outgoing = Outgoing {
            credentials: Credentials::Bearer(Secret::new(token)),
            ..Outgoing::get(&document.userinfo_endpoint, &discovery_ca(config), USER_BYTES_MAX)
        };
        let body = body_of(&*self.fetch, outgoing).await?;
        let user: Claims = serde_json::from_slice(&body).map_err(|error| format!("Provider.UserInfo: failed to parse claims: {error}"))?;
        if user.get("sub").and_then(serde_json::Value::as_str) == Some(subject) {
            Ok(user)
        } else {
            Err("Provider.UserInfo: sub of the user info is not that of the id_token: invalid subject".to_owned())
        }
    }
}

fn check_config(config: &AclAuthMethodConfig) -> Result<(), ConfigError> {
    let issuer = config.oidc_discovery_url.as_str();
    if config.oidc_client_id.is_empty() {
        return Err(ConfigError::NoClientId);
    }
    if issuer.is_empty() {
        return Err(ConfigError::NoIssuer);
    }
    match form::scheme(issuer) {
        Some("http" | "https") => {}
        Some(_) => return Err(ConfigError::Scheme(issuer.to_owned())),
        None => return Err(ConfigError::Issuer(issuer.to_owned())),
    }
    if let Some(unknown) = config.signing_algs.iter().flatten().find(|name| Algorithm::parse(name).is_none()) {
        return Err(ConfigError::Algorithm(unknown.to_string()));
    }
    let certificates = config.discovery_ca_pem.iter().flatten().filter(|pem| !pem.is_empty());
    if certificates.map(Str::as_str).all(is_certificate) { Ok(()) } else { Err(ConfigError::Certificate) }
}

/// Whether a method lets a provider send users there. A method that names no addresses leaves that to the provider.
fn is_allowed(config: &AclAuthMethodConfig, redirect_uri: &str) -> bool {
    let allowed = config.allowed_redirect_uris.as_deref().unwrap_or_default();
    allowed.is_empty() || allowed.iter().any(|allowed| allowed == redirect_uri || form::same_but_port(allowed, redirect_uri))
}

fn scopes(config: &AclAuthMethodConfig) -> String {
    let more = config.oidc_scopes.iter().flatten().map(Str::as_str).filter(|scope| *scope != "openid");
    ["openid"].into_iter().chain(more).collect::<Vec<_>>().join(" ")
}

/// Letters and digits that nobody can guess.
fn random_text(letters: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    (0..letters).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
}

/// Equality whose time does not tell where two texts differ.
fn same_secret(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
