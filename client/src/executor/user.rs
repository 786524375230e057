//! Users by name, from the machine's own list.

use std::fs;
use std::io;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its main group's number.
    pub gid: u32,
    /// Where it is at home.
    pub home: String,
}

/// Looks a user up by name or number.
pub fn lookup(name: &str) -> io::Result<User> {
    let list = fs::read_to_string("/etc/passwd")?;
    find(&list, name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("user: unknown user {name}")))
}

fn find(list: &str, name: &str) -> Option<User> {
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [known, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
        (*known == name || *uid == name).then_some(())?;
        Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: (*home).to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let list = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533::/:/sbin/nologin\n";
        assert_eq!(find(list, "nobody").map(|user| (user.uid, user.gid)), Some((65534, 65533)));
        assert_eq!(find(list, "0").map(|user| user.home), Some("/root".to_owned()));
        assert_eq!(find(list, "somebody"), None);
    }
}
