//! Times: how long tokens and secrets are good, and when something has to be done about them. Pure.

use std::time::Duration;

use serde_json::Value;
use songline_model::Time;

use super::api::Secrets;

/// Interval at which secrets without a lease are read again.
const WITHOUT_LEASE: Duration = Duration::from_secs(5 * 60);
/// Interval at which a token without an end is looked at.
const WITHOUT_END: Duration = Duration::from_secs(60 * 60);
/// Shortest delay before anything is done again. Half of the shortest lease, which is one second.
const LEAST: Duration = Duration::from_millis(500);

/// The time that a token still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Zero has no end.
    ttl: Duration,
    renewable: bool,
}

/// The next step for a token or a secret, after a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Renew it.
    Renew(Duration),
    /// Get another token, or read the secret again.
    Replace(Duration),
}

impl Lease {
    /// A lease of so many seconds.
    pub fn new(seconds: u64, renewable: bool) -> Self {
        Self { ttl: Duration::from_secs(seconds), renewable }
    }

    /// The longer one of two.
    pub fn longer(self, other: Self) -> Self {
        if other.ttl > self.ttl { other } else { self }
    }

    /// The next step for a token with this lease whose longest one was `longest`. A token is renewed at half of
    /// its time. Renewals cannot exceed a token's greatest age, so that one which gives less than a tenth of the longest
    /// time was the last.
    pub fn next(self, longest: Self) -> Next {
        match (self.ttl.is_zero(), self.renewable) {
            (true, _) => Next::Renew(WITHOUT_END),
            (false, true) if self.ttl < longest.ttl / 10 => Next::Replace(Duration::ZERO),
            (false, true) => Next::Renew((self.ttl / 2).max(LEAST)),
            (false, false) => Next::Replace(nine_tenths(self.ttl)),
        }
    }
}

/// The next step for a secret that was read at `now`. One with a lease is renewed at half of its time, or read
/// again before the lease ends; a certificate is replaced before it expires; a password that Vault rotates is read after
/// that; all others, as those of the engine `kv`, are read every five minutes.
pub(crate) fn next(secret: &Secrets, now: Time) -> Next {
    let lease = Duration::from_secs(secret.lease_duration);
    if !secret.lease_id.is_empty() && !lease.is_zero() {
        return if secret.renewable { Next::Renew((lease / 2).max(LEAST)) } else { Next::Replace(nine_tenths(lease)) };
    }
    let number = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).and_then(Value::as_u64);
    if let (Some(end), true) =
        (number("expiration"), secret.data.as_ref().is_some_and(|data| data.contains_key("certificate")))
    {
        let now = u64::try_from(now.nanos() / 1_000_000_000).unwrap_or_default();
        return Next::Replace(nine_tenths(Duration::from_secs(end.saturating_sub(now))));
    }
    if let (Some(ttl), Some(_)) = (number("ttl"), number("rotation_period")) {
        return Next::Replace(Duration::from_secs(ttl + 1));
    }
    let short = (!lease.is_zero()).then_some(lease / 2);
    Next::Replace(short.map_or(WITHOUT_LEASE, |short| short.clamp(LEAST, WITHOUT_LEASE)))
}

fn nine_tenths(time: Duration) -> Duration {
    (time * 9 / 10).max(LEAST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn token_is_renewed_at_half_of_its_time_until_renewals_give_little() {
        let hour = Lease::new(3600, true);
        assert_eq!(hour.next(hour), Next::Renew(Duration::from_secs(1800)));
        assert_eq!(Lease::new(400, true).next(hour), Next::Renew(Duration::from_secs(200)));
        assert_eq!(Lease::new(300, true).next(hour), Next::Replace(Duration::ZERO));
        assert_eq!(Lease::new(1, true).next(Lease::new(1, true)), Next::Renew(LEAST));
        assert_eq!(Lease::new(3600, false).next(hour), Next::Replace(Duration::from_secs(3240)));
        assert_eq!(Lease::new(0, false).next(hour), Next::Renew(WITHOUT_END));
    }

    #[test]
    fn secret_is_read_again_when_its_kind_asks_for_it() {
        let of = |secret: Value| next(&serde_json::from_value(secret).expect("a secret"), Time::from_secs(1_000));
        let replace = |seconds: u64| Next::Replace(Duration::from_secs(seconds));
        let leased = |renewable: bool| of(json!({ "lease_id": "a/b", "lease_duration": 600, "renewable": renewable }));
        assert_eq!(leased(true), Next::Renew(Duration::from_secs(300)));
        assert_eq!(leased(false), replace(540));
        assert_eq!(of(json!({ "data": { "data": { "k": "v" } } })), replace(300));
        // Version 1 of the engine `kv` tells the time of its mount, or that of a key `ttl`.
        assert_eq!(of(json!({ "lease_duration": 2_764_800, "data": { "k": "v" } })), replace(300));
        assert_eq!(of(json!({ "lease_duration": 30, "data": { "k": "v", "ttl": "30s" } })), replace(15));
        assert_eq!(of(json!({ "data": { "certificate": "..", "expiration": 2_000 } })), replace(900));
        assert_eq!(of(json!({ "data": { "ttl": 60, "rotation_period": 3600, "password": "p" } })), replace(61));
    }
}
