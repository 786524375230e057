//! Privileges that the process of an isolated task gives up, in the necessary order. They are the same for the task
//! itself and for a command that a caller runs beside it ([`super::session`]). Mounts and namespaces are not here, but
//! in [`super::isolate`].

use std::io;

use super::capabilities;
use super::mounts::failed;
use super::place::Isolation;
use super::seccomp;
use super::user::User;

/// Gives the calling thread the task's user, capabilities and filter of system calls. Programs that the thread starts
/// afterwards have them too.
pub(super) fn confine(isolation: &Isolation, user: &User) -> io::Result<()> {
    // The bounding set comes first: the right to limit it is lost when the user changes.
    capabilities::limit(isolation.capabilities.bounding).map_err(failed("limiting the bounding set"))?;
    user.assume().map_err(failed("taking the task's user"))?;
    capabilities::hold(&isolation.capabilities, user.is_root()).map_err(failed("setting capabilities"))?;
    capabilities::gain_no_more()?;
    // The filter comes last: everything above uses calls that it may refuse.
    if isolation.seccomp {
        seccomp::load(isolation.capabilities.bounding)?;
    }
    Ok(())
}
