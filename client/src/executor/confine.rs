//! What an isolated task's process gives up, in the order in which it has to: the same for the task itself and for a command that a caller
//! runs beside it ([`super::session`]). Mounts and namespaces are not here: these are [`super::isolate`]'s.

use std::io;

use super::capabilities;
use super::place::Isolation;
use super::seccomp;
use super::user::User;

/// Makes the calling thread the task's user with the task's capabilities and filter. What it starts from then on is the task's.
pub(super) fn confine(isolation: &Isolation, user: &User) -> io::Result<()> {
    let failed =
        |what: &'static str| move |error: rustix::io::Errno| io::Error::new(error.kind(), format!("{what}: {}", io::Error::from(error)));
    // The bounding set first: limiting it is a power that goes with the user.
    capabilities::limit(isolation.capabilities.bounding).map_err(failed("limiting the bounding set"))?;
    user.assume().map_err(failed("taking the task's user"))?;
    capabilities::hold(&isolation.capabilities, user.is_root()).map_err(failed("setting capabilities"))?;
    capabilities::gain_no_more()?;
    // Last: everything above uses calls that the filter may refuse.
    if isolation.seccomp {
        seccomp::load(isolation.capabilities.bounding)?;
    }
    Ok(())
}
