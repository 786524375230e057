//! The authorization code flow: the URL to which the user is sent, and the exchange of the code with which the user
//! returns.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngExt;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use songline_identity::jwt::{
    Algorithm, Claims, Compact, IdTokenError, IdTokenExpected, Leeways, check_access_token, check_id_token,
    is_certificate,
};
use songline_identity::login::overlay;
use songline_model::{AclAuthMethod, AclAuthMethodConfig, Secret, Str, Time};

use super::Sso;
use super::fetch::{Credentials, Form, Outgoing, body_of};
use super::form;
use super::provider::{Document, KeysError, Provider, discovery_ca};
use super::requests::{Open, OpenError};

/// Largest response with tokens, in bytes.
const TOKENS_BYTES_MAX: usize = 1024 * 1024;
/// Largest response with a user's claims, in bytes.
const USER_BYTES_MAX: usize = 512 * 1024;
/// Longest nonce or redirect URI of a caller, in bytes: both are kept while the user logs in.
const KEPT_BYTES_MAX: usize = 2048;

/// Parameters of a request for the authorization URL.
#[derive(Debug, Clone, Copy)]
pub struct AuthUrl<'a> {
    /// URL to which the provider sends the user back.
    pub redirect_uri: &'a str,
    /// The caller's nonce, which only the provider gets.
    pub nonce: &'a str,
}

/// Parameters of a request that completes a login.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a> {
    /// Redirect URI of the login's start.
    pub redirect_uri: &'a str,
    /// Nonce of the login's start.
    pub nonce: &'a str,
    /// State that the provider has returned.
    pub state: &'a str,
    /// Authorization code of the provider.
    pub code: &'a str,
}

/// Defect of a method's provider configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The client id is missing.
    #[error("client ID is empty: invalid parameter")]
    NoClientId,
    /// The issuer is missing.
    #[error("issuer is empty: invalid parameter")]
    NoIssuer,
    /// The issuer is no URL.
    #[error("issuer {0} is invalid (parse {0:?}: missing protocol scheme): invalid issuer")]
    Issuer(String),
    /// The issuer has another scheme than `http` or `https`.
    #[error("issuer {0} schema is not http or https: invalid issuer")]
    Scheme(String),
    /// Unknown algorithm.
    #[error("unsupported algorithm {0}: invalid parameter")]
    Algorithm(String),
    /// A CA certificate is malformed.
    #[error("invalid CA certificate")]
    Certificate,
}

/// Failure of a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The method's configuration is invalid.
    #[error("failed to generate OIDC provider: NewConfig: invalid provider config: Config.Validate: {0}")]
    Config(#[from] ConfigError),
    /// The provider's document could not be fetched.
    #[error("failed to generate OIDC provider: NewProvider: unable to create provider: {0}")]
    Provider(String),
    /// The method does not allow this redirect URI.
    #[error(
        "failed to generate auth URL: Provider.AuthURL: Provider.validRedirect: redirect URI {0}: unauthorized redirect_uri"
    )]
    Redirect(String),
    /// A nonce or redirect URI exceeds the bound in bytes.
    #[error("{0} is longer than {KEPT_BYTES_MAX} bytes")]
    TooLong(&'static str),
    /// The login could not be registered as under way.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No login with this nonce is under way: it was never started, is completed, or has expired.
    #[error("no OIDC request found for client nonce")]
    NoRequest,
    /// The exchange of the code failed.
    #[error("failed to exchange token with provider: Provider.Exchange: {0}")]
    Exchange(#[from] ExchangeError),
    /// The provider did not return the claims of the user.
    #[error("failed to retrieve the user info claims: {0}")]
    User(String),
}

/// Failure of the exchange of a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The returned state is not that of the login.
    #[error("authentication request state and authorization state are not equal: invalid response state")]
    State,
    /// The redirect URI is not that of the login's start.
    #[error("Provider.validRedirect: redirect URI {0}: unauthorized redirect_uri")]
    Redirect(String),
    /// The provider refused the code.
    #[error("unable to exchange auth code with provider: {0}")]
    Code(String),
    /// The provider returned no id token.
    #[error("id_token is missing from auth code exchange: id_token is missing")]
    NoIdToken,
    /// The id token is invalid.
    #[error("id_token failed verification: Provider.VerifyIDToken: {0}")]
    IdToken(#[from] IdTokenError),
    /// The provider's keys could not be fetched.
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
    /// Starts a login and returns the authorization URL.
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

    /// Completes a login and returns the user's claims.
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
        let token = Compact::parse(&tokens.id_token)
            .map_err(|refusal| ExchangeError::from(IdTokenError::Malformed(refusal)))?;
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

    async fn exchange(
        &self,
        config: &AclAuthMethodConfig,
        document: &Document,
        open: &Open,
        code: &str,
    ) -> Result<Tokens, ExchangeError> {
        let (id, secret) = (config.oidc_client_id.as_str(), config.oidc_client_secret.reveal());
        let mut pairs =
            vec![("code", code), ("grant_type", "authorization_code"), ("redirect_uri", &open.redirect_uri)];
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
        let tokens: Tokens = serde_json::from_slice(&body)
            .map_err(|error| ExchangeError::Code(format!("oauth2: cannot parse json: {error}")))?;
        if tokens.id_token.is_empty() { Err(ExchangeError::NoIdToken) } else { Ok(tokens) }
    }

    /// Fetches the provider's claims about a user. Their subject must be that of the id token.
    async fn user(
        &self,
        config: &AclAuthMethodConfig,
        document: &Document,
        subject: &str,
        token: &str,
    ) -> Result<Claims, String> {
        let outgoing = Outgoing {
            credentials: Credentials::Bearer(Secret::new(token)),
            ..Outgoing::get(&document.userinfo_endpoint, &discovery_ca(config), USER_BYTES_MAX)
        };
        let body = body_of(&*self.fetch, outgoing).await?;
        let user: Claims = serde_json::from_slice(&body)
            .map_err(|error| format!("Provider.UserInfo: failed to parse claims: {error}"))?;
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

/// Whether a method allows this redirect URI. A method without a list allows all and leaves the check to the
/// provider.
fn is_allowed(config: &AclAuthMethodConfig, redirect_uri: &str) -> bool {
    let allowed = config.allowed_redirect_uris.as_deref().unwrap_or_default();
    allowed.is_empty()
        || allowed.iter().any(|allowed| allowed == redirect_uri || form::same_but_port(allowed, redirect_uri))
}

fn scopes(config: &AclAuthMethodConfig) -> String {
    let more = config.oidc_scopes.iter().flatten().map(Str::as_str).filter(|scope| *scope != "openid");
    ["openid"].into_iter().chain(more).collect::<Vec<_>>().join(" ")
}

/// Unpredictable letters and digits.
fn random_text(letters: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    (0..letters).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
}

/// Comparison in constant time: its duration does not reveal the position of a difference.
fn same_secret(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
