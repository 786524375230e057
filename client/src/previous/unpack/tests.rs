//! Data of other nodes: what is unpacked, and what is refused.

use expect_test::{Expect, expect};

use super::*;

const PREVIOUS: AllocId = AllocId::from_bytes([7; 16]);

/// Packs entries (`PATH/` a directory, `PATH>TARGET` a link, `PATH=TEXT` a file), and unpacks them.
fn check(entries: &[&str], expected: Expect) {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o4755);
        let (path, text) = match (entry.split_once('='), entry.split_once('>')) {
            (Some((path, text)), _) => (path, text),
            (None, Some((path, target))) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_link_name(target).expect("a target");
                (path, "")
            }
            (None, None) => {
                header.set_entry_type(EntryType::Directory);
                (*entry, "")
            }
        };
        header.set_size(text.len() as u64);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        // The library refuses to write some of these paths.
        let bytes = &mut header.as_old_mut().name;
        bytes[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).expect("packs");
    }
    let bytes = archive.into_inner().expect("packs");
    let place = tempfile::tempdir().expect("a directory");
    let dir = Dir::open(place.path()).expect("opens");
    let done = unpack(bytes.as_slice(), &dir, PREVIOUS, &["web"]);
    let mut told: Vec<String> = Vec::new();
    list(&dir, Path::new(""), &mut told);
    told.push(done.map_or_else(|error| format!("error: {error}"), |()| "unpacked".to_owned()));
    expected.assert_eq(&told.join("\n"));
}

fn list(dir: &Dir, path: &Path, told: &mut Vec<String>) {
    for name in dir.names().expect("lists") {
        let entry = dir.entry(&name).expect("is there");
        let below = path.join(&name);
        told.push(format!("{} {:?} {:o}", below.display(), entry.kind(), entry.stat().st_mode & 0o7777));
        if entry.kind() == rustix::fs::FileType::Directory {
            list(&entry.into_dir().expect("opens"), &below, told);
        }
    }
}

#[test]
fn data_and_local_directories_are_unpacked_without_setuid() {
    check(
        &["alloc/data/", "alloc/data/a=1", "web/local/", "web/local/deep/", "web/local/deep/b=2", "web/local/l>deep/b"],
        expect![[r#"
            alloc Directory 755
            alloc/data Directory 755
            alloc/data/a RegularFile 755
            web Directory 755
            web/local Directory 755
            web/local/deep Directory 755
            web/local/deep/b RegularFile 755
            web/local/l Symlink 777
            unpacked"#]],
    );
}

#[test]
fn attack_entry_beside_the_data_is_refused() {
    check(&["web/secrets/token=x"], expect!["error: web/secrets/token is neither shared data nor of a task"]);
    check(&["other/local/x=x"], expect!["error: other/local/x is neither shared data nor of a task"]);
    check(&["alloc/logs/x=x"], expect!["error: alloc/logs/x is neither shared data nor of a task"]);
    check(&["alloc/data/../../x=x"], expect!["error: alloc/data/../../x is neither shared data nor of a task"]);
    check(&["/x=x"], expect!["error: /x is neither shared data nor of a task"]);
}

#[test]
fn attack_entry_behind_a_link_does_not_follow_it() {
    check(
        &["alloc/data/", "alloc/data/out>/etc", "alloc/data/in>../..", "alloc/data/in/x=x"],
        expect![[r#"
            alloc Directory 755
            alloc/data Directory 755
            alloc/data/in Symlink 777
            error: Not a directory (os error 20)"#]],
    );
}

#[test]
fn error_of_the_other_node_ends_the_unpacking() {
    let entry = format!("NOMAD-{PREVIOUS}-ERROR.log=too deep");
    check(
        &["alloc/data/a=1", &entry],
        expect![[r#"
            alloc Directory 777
            alloc/data Directory 777
            alloc/data/a RegularFile 755
            error: the other node could not read all of it: too deep"#]],
    );
}
