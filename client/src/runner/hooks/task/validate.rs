//! Checks of a task before anything is made for it, and of what is known only later: its driver, the names of its
//! services, and the users that tasks of a driver must not run as.

use songline_model::{Errors, Str};

use super::{Stopped, TaskContext, TaskHook};
use crate::config::ClientConfig;
use crate::driver::Boxed;
use crate::executor::user::{self, User};
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;

const NAME: &str = "validate";

/// Checks before anything is made.
pub(super) struct Validate;

impl TaskHook for Validate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, _: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            context.driver()?;
            check_user(context, &context.task.user).await?;
            let env = context.environment_of_node();
            let services = context.task.services.iter().flatten();
            Ok(service_names(services.map(|service| env.replace(&service.name)))?)
        })
    }
}

/// Checks the user again once its name is interpolated, and hands it on.
pub(super) struct InterpolatedUser;

impl TaskHook for InterpolatedUser {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let user = made.env().replace(context.user_name()?);
            check_user(context, &user).await?;
            made.set_user(user);
            Ok(())
        })
    }
}

/// Refuses names of services that are invalid once they are interpolated: the registration of a job cannot know them.
fn service_names(names: impl Iterator<Item = String>) -> Result<(), String> {
    let mut errors = Errors::new();
    for name in names.filter(|name| !is_service_name(name)) {
        errors.push(format!(
            "service ({name}) failed validation: Service name must be valid per RFC 1123 and can contain only \
             alphanumeric characters or dashes and must be no longer than 63 characters: {name:?}"
        ));
    }
    match errors.list() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        _ => Err(errors.to_string()),
    }
}

/// The rule of a job's registration, but with no place for variables.
fn is_service_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Refuses a user that the task must not run as. The lookup of users runs on a thread that may block.
async fn check_user(context: &TaskContext, name: &str) -> Result<(), String> {
    let (config, driver, name) = (context.shared.config.clone(), context.task.driver.clone(), name.to_owned());
    blocking(move || user(&config, &driver, &name)).await
}

/// The option that lists the users that tasks must not run as, and its default.
pub(crate) const DENYLIST: (&str, &str) = ("user.denylist", "root,Administrator");
/// The option that lists the drivers whose tasks' users are checked, and its default.
pub(crate) const CHECKED_DRIVERS: (&str, &str) = ("user.checked_drivers", "exec,qemu,java");

/// Refuses a denied user for tasks of a checked driver, whether the user is given by one of its names or by number.
/// Blocks while users are looked up.
fn user(config: &ClientConfig, driver: &str, user: &str) -> Result<(), String> {
    if user.is_empty() || !option(config, CHECKED_DRIVERS).any(|checked| checked == driver) {
        return Ok(());
    }
    let denied = || option(config, DENYLIST);
    let is_denied = denied().any(|name| name == user)
        || number(user).is_some_and(|own| denied().any(|name| number(name) == Some(own)));
    if is_denied { Err(format!("running as user {user:?} is disallowed")) } else { Ok(()) }
}

fn number(name: &str) -> Option<u32> {
    user::lookup(name).ok().map(|User { uid, .. }| uid)
}

fn option<'a>(config: &'a ClientConfig, (key, otherwise): (&str, &'static str)) -> impl Iterator<Item = &'a str> {
    config.options.get(key).map_or(otherwise, Str::as_str).split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_names_have_only_letters_digits_and_inner_dashes_once_interpolated() {
        let refused = |names: &[&str]| service_names(names.iter().map(|name| (*name).to_owned())).err();
        assert_eq!(refused(&["web", "a-1", &"x".repeat(63)]), None);
        for name in ["", "-web", "web-", "a_b", "${NOMAD_META_none}", &"x".repeat(64)] {
            assert!(refused(&[name]).is_some(), "{name}");
        }
        let rule = "Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and \
                    must be no longer than 63 characters";
        let one = |name: &str| format!("service ({name}) failed validation: {rule}: {name:?}");
        assert_eq!(refused(&["web", "a b"]), Some(one("a b")));
        assert_eq!(
            refused(&["a b", "c!"]),
            Some(format!("2 errors occurred:\n\t* {}\n\t* {}\n\n", one("a b"), one("c!")))
        );
    }

    #[test]
    fn denied_users_are_refused_by_name_and_by_number_for_checked_drivers() {
        let mut config = ClientConfig::default();
        let refused =
            |config: &ClientConfig, driver: &str, name: &str| user(config, driver, name).err().unwrap_or_default();
        assert_eq!(refused(&config, "exec", "root"), "running as user \"root\" is disallowed");
        assert_eq!(refused(&config, "exec", "0"), "running as user \"0\" is disallowed");
        assert_eq!(refused(&config, "exec", "Administrator"), "running as user \"Administrator\" is disallowed");
        assert_eq!(refused(&config, "exec", "nobody"), "");
        assert_eq!(refused(&config, "raw_exec", "root"), "");
        config.options.insert("user.checked_drivers".into(), "raw_exec, exec".into());
        assert_eq!(refused(&config, "raw_exec", "root"), "running as user \"root\" is disallowed");
        config.options.insert("user.denylist".into(), "daemon".into());
        assert_eq!(refused(&config, "exec", "root"), "");
        assert_eq!(refused(&config, "exec", "daemon"), "running as user \"daemon\" is disallowed");
    }
}
