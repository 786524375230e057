//! Users by name, as the machine resolves them (name service switch: files, LDAP, systemd), with all their groups;
//! and switching to one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Gid, Uid};
use uzers::os::unix::UserExt;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Number of the user.
    pub uid: u32,
    /// Number of the user's main group.
    pub gid: u32,
    /// Numbers of all groups of the user, the main group among them.
    pub groups: Vec<u32>,
    /// Home directory of the user.
    pub home: String,
}

/// Looks a user up by name or number. The lookup may ask other machines, and blocks meanwhile.
pub fn lookup(name: &str) -> io::Result<User> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("user: unknown user {name}"));
    let by_number = || name.parse().ok().and_then(uzers::get_user_by_uid);
    let found = uzers::get_user_by_name(name).or_else(by_number).ok_or_else(unknown)?;
    let groups = uzers::get_user_groups(found.name(), found.primary_group_id()).unwrap_or_default();
    let mut groups: Vec<u32> = groups.iter().map(uzers::Group::gid).collect();
    // A group that has a number but no name is not in the list.
    if !groups.contains(&found.primary_group_id()) {
        groups.push(found.primary_group_id());
    }
    Ok(User {
        uid: found.uid(),
        gid: found.primary_group_id(),
        groups,
        home: found.home_dir().to_string_lossy().into_owned(),
        name: found.name().to_string_lossy().into_owned(),
    })
}

/// `UID[:GID]` as numbers, `None` for any other text. Without a group it is root's, as in a container.
pub fn numbers(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(':').unwrap_or((text, "0"));
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        // The largest number means `no change` to the system.
        digits.parse::<u32>().ok().filter(|number| is_number && *number != u32::MAX)
    };
    Some((number(user)?, number(group)?))
}

impl User {
    /// Whether the user is root (uid 0), under any name.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Gives the calling thread this user, with its groups and no others, for good.
    pub(super) fn assume(&self) -> rustix::io::Result<()> {
        assume(self.uid, self.gid, &self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect::<Vec<_>>())
    }

    /// Makes a command's process run as this user from its beginning.
    pub(super) fn assume_first(&self, command: &mut Command) {
        let (uid, gid) = (self.uid, self.gid);
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        #[allow(unsafe_code)]
        // SAFETY: between fork and exec this only makes system calls on values that exist already: it neither
        // allocates nor locks.
        unsafe {
            command.pre_exec(move || Ok(assume(uid, gid, &groups)?))
        };
    }
}

fn assume(uid: u32, gid: u32, groups: &[Gid]) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_thread_groups(groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number_with_their_groups() {
        let root = lookup("root").expect("every machine has one");
        assert_eq!((root.uid, root.gid, root.is_root()), (0, 0, true));
        assert!(root.groups.contains(&0), "{:?}", root.groups);
        assert_eq!(lookup("0").expect("is root"), root);
        assert_eq!(lookup("no-such-user").expect_err("is none").to_string(), "user: unknown user no-such-user");
    }

    #[test]
    fn user_of_numbers_alone_is_read_and_a_name_is_not() {
        let users = ["1234", "1234:5678", "0:0", "user", "user:5678", "1234:staff", "+1", "", "4294967295", "1:2:3"];
        let read = users.map(|user| match numbers(user) {
            Some((user, group)) => format!("{user} {group}"),
            None => "-".to_owned(),
        });
        assert_eq!(read, ["1234 0", "1234 5678", "0 0", "-", "-", "-", "-", "-", "-", "-"]);
    }
}
