//! Entries that [`Dir`] reaches and refuses. No entry outside is changed. Tests of other users' directories need
//! root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{CWD, mkfifoat};
use tempfile::TempDir;

use super::*;

/// `in/` is held open; `out/file` must stay as it is.
struct Scene {
    parent: TempDir,
    dir: Dir,
}

fn scene() -> Scene {
    let parent = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(parent.path().join("out")).expect("makes");
    std::fs::write(parent.path().join("out/file"), "outside").expect("writes");
    let dir = Dir::make(&parent.path().join("in"), 0o755).expect("makes");
    Scene { parent, dir }
}

impl Scene {
    fn at(&self, path: &str) -> PathBuf {
        self.parent.path().join("in").join(path)
    }

    fn out(&self) -> PathBuf {
        self.parent.path().join("out")
    }

    fn assert_untouched(&self) {
        assert_eq!(std::fs::read_to_string(self.out().join("file")).expect("is there"), "outside");
        assert_eq!(std::fs::read_dir(self.out()).expect("lists").count(), 1);
        assert_eq!(std::fs::metadata(self.out()).expect("is there").mode() & 0o777, 0o755);
    }
}

fn text(mut file: File) -> String {
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text).expect("reads");
    text
}

#[test]
fn links_below_the_directory_are_followed_and_links_out_of_it_refused() {
    let scene = scene();
    std::fs::create_dir_all(scene.at("a/b")).expect("makes");
    std::fs::write(scene.at("a/file"), "inside").expect("writes");
    let links = [
        ("file", "a/file"),
        ("dir", "a/b"),
        ("a/b/up", "../file"),
        ("a/b/round", "../../dir/up"),
        ("out", "../out"),
        ("absolute", "/etc"),
        ("root", "/proc/self/root"),
        ("loop", "loop"),
        ("a/b/far", "../../../out/file"),
    ];
    for (at, to) in links {
        symlink(to, scene.at(at)).expect("links");
    }
    let found = |path: &str| match scene.dir.find(path) {
        Ok(found) if found.kind() == FileType::RegularFile => {
            format!("{} {}", found.path().display(), text(found.read().expect("opens")))
        }
        Ok(found) => format!("{} {:?}", found.path().display(), found.kind()),
        Err(NotFound::Escapes) => "escapes".to_owned(),
        Err(NotFound::Io(error)) => error.kind().to_string(),
    };
    for path in ["file", "a/b/up", "dir/up", "a/b/round", "dir/../file"] {
        assert_eq!(found(path), "a/file inside", "{path}");
    }
    assert_eq!((found("dir"), found("")), ("a/b Directory".to_owned(), " Directory".to_owned()));
    for path in [
        "out",
        "out/file",
        "absolute",
        "absolute/passwd",
        "root/etc",
        "a/b/far",
        "..",
        "../out/file",
        "a/../../out",
        "/etc",
    ] {
        assert_eq!(found(path), "escapes", "{path}");
    }
    assert_eq!((found("nope"), found("file/x")), ("entity not found".to_owned(), "not a directory".to_owned()));
    assert!(scene.dir.find("loop").is_err());
}

#[test]
fn agents_own_file_operations_follow_no_link() {
    let scene = scene();
    std::fs::create_dir(scene.at("real")).expect("makes");
    std::fs::write(scene.at("real/file"), "inside").expect("writes");
    symlink("real", scene.at("link")).expect("links");
    symlink("../out", scene.at("out")).expect("links");
    for path in ["link", "link/..", "out", "..", "/etc", "real/../.."] {
        assert!(scene.dir.dir(path).is_err(), "{path}");
    }
    assert!(scene.dir.make_dirs("link/new", 0o755).is_err() && scene.dir.make_dirs("out/new", 0o755).is_err());
    assert!(scene.dir.create("out/new", 0o644).is_err() && scene.dir.read("link/file").is_err());
    for name in ["", ".", "..", "real/file", "real/", "/"] {
        assert!(
            scene.dir.make_dir(name, 0o755).is_err() && scene.dir.write(name, b"x", 0o644, None).is_err(),
            "{name:?}"
        );
        assert!(scene.dir.remove_all(name).is_err() && scene.dir.append(name, 0o644).is_err(), "{name:?}");
    }
    assert_eq!(text(scene.dir.read("real/file").expect("opens")), "inside");
    scene.assert_untouched();
}

#[test]
fn link_or_pipe_in_the_way_of_a_new_file_is_replaced_not_followed() {
    let scene = scene();
    symlink(scene.out(), scene.at("dir")).expect("links");
    let made = scene.dir.make_dir("dir", 0o1777).expect("makes");
    assert_eq!(std::fs::symlink_metadata(scene.at("dir")).expect("is there").mode() & 0o7777, 0o1777);
    symlink(scene.out().join("file"), scene.at("dir/file")).expect("links");
    mkfifoat(CWD, scene.at("dir/pipe"), Mode::RWXU).expect("makes");
    std::fs::create_dir_all(scene.at("dir/full/of")).expect("makes");
    for name in ["file", "pipe", "full", "new"] {
        made.write(name, b"written", 0o640, None).expect("writes");
        let meta = std::fs::symlink_metadata(scene.at("dir").join(name)).expect("is there");
        assert_eq!((meta.is_file(), meta.mode() & 0o777), (true, 0o640), "{name}");
    }
    scene.assert_untouched();
}

#[test]
fn private_directory_owned_by_another_user_is_recreated() {
    if !crate::executor::tests::is_root("only root makes directories of others") {
        return;
    }
    let scene = scene();
    std::fs::create_dir(scene.at("secrets")).expect("makes");
    std::fs::write(scene.at("secrets/planted"), "").expect("writes");
    let own = |user: u32| std::os::unix::fs::chown(scene.at("secrets"), Some(user), Some(user)).expect("gives away");
    own(1234);
    scene.dir.make_private("secrets", 0o700, Some((1234, 1234))).expect("is taken");
    assert!(scene.at("secrets/planted").exists(), "the user's own directory is kept");
    scene.dir.make_private("secrets", 0o700, Some((4321, 4321))).expect("is made anew");
    let meta = std::fs::metadata(scene.at("secrets")).expect("is there");
    assert_eq!((meta.uid(), meta.mode() & 0o7777, scene.at("secrets/planted").exists()), (4321, 0o700, false));
}

#[test]
fn pipes_are_neither_opened_nor_waited_for() {
    let scene = scene();
    mkfifoat(CWD, scene.at("pipe"), Mode::RWXU).expect("makes");
    let refused = "not a regular file";
    assert_eq!(scene.dir.read("pipe").expect_err("is refused").to_string(), refused);
    assert_eq!(scene.dir.append("pipe", 0o644).expect_err("is refused").to_string(), refused);
    assert_eq!(scene.dir.find("pipe").expect("is there").read().expect_err("is refused").to_string(), refused);
}

#[test]
fn trees_deeper_than_descriptors_are_removed_and_links_in_them_are_not_followed() {
    let scene = scene();
    let mut deepest = scene.dir.make_dir("tree", 0o755).expect("makes");
    std::fs::create_dir(scene.at("tree/.removed-1-1")).expect("makes");
    for _ in 0..1500 {
        symlink(scene.out(), held(&deepest.fd).join("link")).expect("links");
        std::fs::write(held(&deepest.fd).join("file"), "").expect("writes");
        deepest = deepest.make_dir("d", 0o755).expect("makes");
    }
    scene.dir.remove_all("tree").expect("removes");
    assert!(scene.dir.kind("tree").expect("looks").is_none());
    scene.dir.remove_all("tree").expect("is gone already");
    scene.assert_untouched();
}

#[test]
fn link_is_created_only_to_a_target_below_the_directory() {
    let scene = scene();
    scene.dir.make_dirs("a/b", 0o755).expect("makes");
    for (at, to) in
        [("one", "a/b"), ("a/b/two", "../../x/y"), ("a/b/three", "../c"), ("four", "./nope"), ("a/five", "..")]
    {
        scene.dir.symlink(at, Path::new(to)).unwrap_or_else(|error| panic!("{at}: {error}"));
    }
    for (at, to) in [
        ("x", ".."),
        ("x", "/etc/passwd"),
        ("a/x", "../../out"),
        ("x", "a/../.."),
        ("x", "one/.."),
        ("../x", "a"),
        ("one/x", "a"),
    ] {
        assert!(scene.dir.symlink(at, Path::new(to)).is_err(), "{at} -> {to}");
    }
}

#[test]
fn move_replaces_the_target_and_keeps_links_as_links() {
    let scene = scene();
    let (from, to) =
        (scene.dir.make_dir("from", 0o755).expect("makes"), scene.dir.make_dir("to", 0o755).expect("makes"));
    std::fs::create_dir_all(scene.at("to/x/full")).expect("makes");
    from.write("x", b"x", 0o644, None).expect("writes");
    assert!(from.rename("x", &to, "x").is_err() && scene.at("to/x/full").is_dir());
    from.replace("x", &to, "x").expect("moves");
    symlink(scene.out(), scene.at("from/link")).expect("links");
    from.rename("link", &to, "moved").expect("moves");
    assert!(
        std::fs::symlink_metadata(scene.at("to/moved")).expect("is there").is_symlink() && scene.at("to/x").is_file()
    );
    to.write("log", b"log", 0o644, None).expect("writes");
    std::fs::set_permissions(scene.at("to/log"), std::fs::Permissions::from_mode(0o600)).expect("closes");
    symlink(scene.out().join("file"), scene.at("from/log")).expect("links");
    to.link("log", &from).expect("links");
    assert_eq!(std::fs::symlink_metadata(scene.at("from/log")).expect("is there").nlink(), 2);
    scene.assert_untouched();
}

#[test]
fn only_an_empty_directory_is_removed_as_such() {
    let scene = scene();
    scene.dir.make_dirs("full/inner", 0o755).expect("makes");
    let error = scene.dir.remove_empty_dir("full").expect_err("it is not empty");
    assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
    scene.dir.dir("full").expect("opens").remove_empty_dir("inner").expect("removes");
    scene.dir.remove_empty_dir("full").expect("removes");
    scene.dir.remove_empty_dir("full").expect("nothing is there");
    symlink(scene.out(), scene.at("link")).expect("links");
    assert!(scene.dir.remove_empty_dir("link").is_err() && scene.dir.remove_empty_dir("../x").is_err());
    scene.assert_untouched();
}

#[test]
fn a_mount_point_is_known_from_other_directories() {
    let root = Dir::open(Path::new("/")).expect("opens");
    assert!(root.is_mount_point("proc").expect("examines"));
    assert!(!root.is_mount_point("proc/self").unwrap_or(false) && !root.is_mount_point("not/there").expect("examines"));
}
