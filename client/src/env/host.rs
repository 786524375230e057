//! Variables of the agent's own environment that a task gets. With most drivers a task gets none; with `raw_exec` it
//! gets those that the operator does not deny and whose name does not look like a secret's.

use std::collections::BTreeMap;

use songline_model::Str;

/// Drivers whose tasks run on the host without isolation, and get the agent's environment.
const INHERITING: &[&str] = &["raw_exec"];

/// The option that lists the variables that tasks do not get, in place of [`DENIED`].
pub(crate) const DENYLIST: &str = "env.denylist";

/// Variables that tasks do not get unless the option says otherwise.
const DENIED: &str = "CONSUL_TOKEN,CONSUL_HTTP_TOKEN,VAULT_TOKEN,NOMAD_LICENSE,NOMAD_TOKEN,AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,\
                      AWS_SESSION_TOKEN,GOOGLE_APPLICATION_CREDENTIALS";

/// Word endings that mark a variable's value as a secret, regardless of the option. Underscores separate the words of
/// a name.
const SECRET_WORDS: &[&str] =
    &["TOKEN", "TOKENS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"];
/// Parts of a name, underscores included, that mark a variable's value as a secret.
const SECRET_PARTS: &[&str] =
    &["SECRET", "ACCESS_KEY", "API_KEY", "PRIVATE_KEY", "ACCOUNT_KEY", "SAS_KEY", "ENCRYPTION_KEY", "ENCRYPT_KEY"];

/// Variables of the agent's environment that a task of this driver gets.
pub(crate) fn inherited(driver: &str, options: &BTreeMap<Str, Str>) -> BTreeMap<String, String> {
    if !INHERITING.contains(&driver) {
        return BTreeMap::new();
    }
    let own = std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    own.filter(|(key, _)| is_for_tasks(key, options)).collect()
}

fn is_for_tasks(key: &str, options: &BTreeMap<Str, Str>) -> bool {
    let denied = options.get(DENYLIST).map_or(DENIED, Str::as_str);
    !denied.split(',').any(|denied| denied.trim() == key) && !is_secret(key)
}

/// Whether the name says that the value is a secret: a token, a password, a key of a cloud.
fn is_secret(key: &str) -> bool {
    let key = key.to_uppercase();
    SECRET_PARTS.iter().any(|part| key.contains(part))
        || key.split('_').any(|word| SECRET_WORDS.iter().any(|end| word.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_secrets_are_kept_from_tasks_under_any_denylist_option() {
        let secrets = [
            "NOMAD_TOKEN",
            "SONGLINE_TOKEN",
            "GITHUB_TOKEN",
            "TOKEN",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "ARM_CLIENT_SECRET",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "my_secret_thing",
            "PGPASSWORD",
            "DB_PASSWORD",
            "DD_API_KEY",
            "ALICLOUD_ACCESS_KEY",
        ];
        let open = BTreeMap::from([(Str::new(DENYLIST), Str::new("HOME"))]);
        for secret in secrets {
            assert!(!is_for_tasks(secret, &open) && !is_for_tasks(secret, &BTreeMap::new()), "{secret}");
        }
        assert!(is_for_tasks("PATH", &open) && !is_for_tasks("HOME", &open) && is_for_tasks("NOMAD_LICENSE", &open));
        assert!(
            is_for_tasks("HOME", &BTreeMap::new()) && is_for_tasks("COMPASS", &open) && is_for_tasks("KEYBOARD", &open)
        );
        assert!(!is_for_tasks("NOMAD_LICENSE", &BTreeMap::new()));
    }

    #[test]
    fn only_raw_exec_tasks_inherit_the_environment_of_the_agent() {
        assert!(inherited("raw_exec", &BTreeMap::new()).contains_key("PATH"));
        for driver in ["exec", "mock_driver", "docker"] {
            assert_eq!(inherited(driver, &BTreeMap::new()), BTreeMap::new(), "{driver}");
        }
    }
}
