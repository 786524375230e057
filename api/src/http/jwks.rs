//! Public keys of workload identities, with which third parties verify identities without asking a server.

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use songline_model::RootKeyId;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::keyring::Keyring;
use crate::server::Reads;

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/jwks.json", "", Capability::Anyone, |call| Box::pin(keys(call)));
}

/// Key set of RFC 7517.
#[derive(Serialize)]
struct KeySet {
    keys: Vec<Key>,
}

/// Ed25519 key of RFC 8037.
#[derive(Serialize)]
struct Key {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: RootKeyId,
    crv: &'static str,
    alg: &'static str,
    x: String,
}

async fn keys<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let key = |(kid, public): (RootKeyId, [u8; 32])| {
        let x = URL_SAFE_NO_PAD.encode(public);
        Key { usage: "sig", kty: "OKP", kid, crv: "Ed25519", alg: "EdDSA", x }
    };
    // Retired keys are included: identities that they have signed remain valid.
    let ids: Vec<RootKeyId> = call.view().root_keys().map(|row| row.meta.key_id).collect();
    let keyring = call.server.keyring();
    let keys = ids.into_iter().map(|id| Ok(key((id, keyring.public_key(id)?)))).collect::<Result<_, ApiError>>()?;
    call.plain(&KeySet { keys })
}
