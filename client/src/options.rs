//! Names of the options of the `client` block, and warnings about options that this agent does not know.

use crate::config::ClientConfig;
use crate::env::host;
use crate::runner::validate;

/// The options that have an effect.
const KNOWN: &[&str] =
    &["driver.allowlist", "driver.denylist", host::DENYLIST, validate::CHECKED_DRIVERS.0, validate::DENYLIST.0];

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
