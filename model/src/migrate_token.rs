//! Migration tokens: permit an allocation to fetch the data of its predecessor from another node. A token is a keyed
//! BLAKE2b hash of the predecessor's id under the secret of its node.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use blake2::Blake2bMac512;
use blake2::digest::{KeyInit, Mac};

use crate::{AllocId, Secret, Str};

/// The token for the data of `alloc` on the node with this secret. `None`: the secret can not be used as a key.
pub fn of(alloc: AllocId, secret: &Secret) -> Option<Str> {
    Some(URL_SAFE.encode(mac(alloc, secret)?.finalize().into_bytes()).into())
}

/// Whether `token` is the token for the data of `alloc`.
pub fn is_of(token: &str, alloc: AllocId, secret: &Secret) -> bool {
    let (Ok(token), Some(mac)) = (URL_SAFE.decode(token), mac(alloc, secret)) else { return false };
    // Compares in constant time.
    mac.verify_slice(&token).is_ok()
}

fn mac(alloc: AllocId, secret: &Secret) -> Option<Blake2bMac512> {
    let mut mac = <Blake2bMac512 as KeyInit>::new_from_slice(secret.reveal().as_bytes()).ok()?;
    mac.update(alloc.to_string().as_bytes());
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrate_token_is_the_alloc_id_keyed_with_the_node_secret() {
        let secret = Secret::new("01234567-89ab-cdef-0123-456789abcdef");
        let token = "4j03vGt_J6U7mus3gf76tK0BXukowvOvm6O8Oz5W1he71Pc4wC9QzbfQ7qMsJfQn4OdjnagO3pZFDWrdeqJB2Q==";
        let id: AllocId = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".parse().expect("an id");
        assert_eq!(of(id, &secret).as_deref(), Some(token));
        assert!(is_of(token, id, &secret));
        assert!(!is_of(token, AllocId::default(), &secret));
        assert!(!is_of(token, id, &Secret::new("fedcba98-89ab-cdef-0123-456789abcdef")));
        assert!(!is_of("", id, &secret) && !is_of("%", id, &secret));
    }
}
