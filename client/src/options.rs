//! Options of the `client` block: their names, lists of what is allowed, and warnings about options that this agent does
//! not know.

use songline_model::Str;

use crate::config::ClientConfig;
use crate::env::host;
use crate::runner::validate;

/// Drivers, in allow and deny lists.
pub(crate) const DRIVER: &str = "driver";
/// Fingerprints, in allow and deny lists.
pub(crate) const FINGERPRINT: &str = "fingerprint";
/// The option that keeps tasks from getting an address that is valid on one link only.
pub(crate) const NO_LINK_LOCAL: &str = "fingerprint.network.disallow_link_local";

/// The options that have an effect.
const KNOWN: &[&str] = &[
    "driver.allowlist",
    "driver.denylist",
    "fingerprint.allowlist",
    "fingerprint.denylist",
    NO_LINK_LOCAL,
    host::DENYLIST,
    validate::CHECKED_DRIVERS.0,
    validate::DENYLIST.0,
];

/// Whether the lists `KIND.allowlist` and `KIND.denylist` let something of this name be used. An empty list allows
/// everything, or denies nothing.
pub(crate) fn is_wanted(config: &ClientConfig, kind: &str, name: &str) -> bool {
    let listed = |list: &str| {
        let told = config.options.get(format!("{kind}.{list}").as_str()).map(Str::as_str).unwrap_or_default();
        let mut names = told.split(',').map(str::trim).filter(|item| !item.is_empty()).peekable();
        names.peek().is_some().then(|| names.any(|item| item == name))
    };
    listed("allowlist").unwrap_or(true) && !listed("denylist").unwrap_or(false)
}

/// Whether an option is `true`.
pub(crate) fn is_set(config: &ClientConfig, option: &str) -> bool {
    config.options.get(option).is_some_and(|told| matches!(told.as_str(), "true" | "1"))
}

/// Warns of every option that has no effect, because operators may rely on it.
pub(crate) fn warn_of_unknown(config: &ClientConfig) {
    for option in unknown(config) {
        tracing::warn!(option, "client.options: this agent does not know the option; it has no effect");
    }
}

fn unknown(config: &ClientConfig) -> impl Iterator<Item = &str> {
    config.options.keys().map(|option| option.as_str()).filter(|option| !KNOWN.contains(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_client_options_are_listed() {
        let mut config = ClientConfig::default();
        for option in
            ["driver.allowlist", "user.denylist", "user.blacklist", "docker.privileged.enabled", "env.denylist"]
        {
            config.options.insert(option.into(), "x".into());
        }
        assert_eq!(unknown(&config).collect::<Vec<_>>(), ["docker.privileged.enabled", "user.blacklist"]);
    }
}
