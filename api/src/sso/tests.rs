//! Logins under way, and URLs.

use songline_model::{Dur, Secret, Str, Time};

use super::form::{encode, same_but_port, scheme};
use super::requests::{OpenError, Requests};

fn open(requests: &Requests, nonce: &str, now: Time) -> Result<(), OpenError> {
    requests.open(&Str::new("corp"), nonce, now, (Secret::new("state"), "http://here".to_owned(), None))
}

#[test]
fn pending_login_is_taken_once_and_before_it_expires() {
    let (requests, start) = (Requests::default(), Time::from_secs(1000));
    let (method, late) = (Str::new("corp"), start.plus(Dur::from_secs(361)));
    assert_eq!(open(&requests, "n", start), Ok(()));
    assert_eq!(open(&requests, "n", start), Err(OpenError::Reused));
    assert!(requests.take(&Str::new("other"), "n", start).is_none());
    assert!(requests.take(&method, "n", start).is_some_and(|open| open.state.reveal() == "state"));
    assert!(requests.take(&method, "n", start).is_none());
    assert_eq!(open(&requests, "n", start), Ok(()));
    assert!(requests.take(&method, "n", late).is_none(), "it is too late");
    assert_eq!((open(&requests, "n", start), open(&requests, "n", late)), (Ok(()), Ok(())), "the late one made room");
}

#[test]
fn pending_logins_are_bounded_and_expired_ones_make_room() {
    let (requests, start) = (Requests::default(), Time::from_secs(1000));
    let refused = (0..5000).filter(|nth| open(&requests, &format!("n{nth}"), start) == Err(OpenError::Full)).count();
    assert_eq!((refused, requests.len()), (5000 - 4096, 4096));
    assert_eq!(open(&requests, "later", start.plus(Dur::from_secs(361))), Ok(()));
    assert_eq!(requests.len(), 1);
}

#[test]
fn redirect_uris_ignore_the_port_only_on_loopback_hosts() {
    let allowed = "http://localhost:4649/oidc/callback";
    assert!(same_but_port(allowed, "http://localhost:1/oidc/callback"));
    assert!(same_but_port(allowed, "http://localhost/oidc/callback"));
    assert!(same_but_port("http://[::1]:1/x", "http://[::1]:2/x"));
    for other in [
        "https://localhost:4649/oidc/callback",
        "http://localhost:4649/oidc/callback2",
        "http://localhost:4649/oidc/callback?x=1",
        "http://127.0.0.1:4649/oidc/callback",
        "http://localhost:4649@evil.test/oidc/callback",
        "http://localhost:port/oidc/callback",
        "http://evil.test:4649/oidc/callback",
        "http://localhost.evil.test:4649/oidc/callback",
        "localhost:4649/oidc/callback",
    ] {
        assert!(!same_but_port(allowed, other), "{other}");
    }
    assert!(!same_but_port("http://songline.test:1/x", "http://songline.test:2/x"));
    assert_eq!(
        ["https://a", "LDAP://a", "a/b:c", "", "::", "?a:b"].map(scheme),
        [Some("https"), Some("LDAP"), Some(""), Some(""), None, Some("")]
    );
    assert_eq!(encode(&[("a b", "c&d=é"), ("x", "-_.~")]), "a+b=c%26d%3D%C3%A9&x=-_.~");
}
