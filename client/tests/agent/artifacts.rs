//! Attacks through artifacts, on a whole agent: archives that reach out of their destination, a destination that
//! changes under way, and the privileges of the fetching process. Each test serves its artifact itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use flate2::write::GzEncoder;
use songline_model::{AllocClientStatus, AllocId, JobType, Task, TaskArtifact};

use crate::escapes::may_run;
use crate::fake::{Stage, alloc, shell, until, web};

/// One member of an archive.
enum Member<'a> {
    File(&'a str, &'a str),
    Symlink(&'a str, &'a str),
    HardLink(&'a str, &'a str),
    Fifo(&'a str),
}

/// Packs members with exactly these paths, because honest programs refuse to write the paths of interest.
fn tar_gz(members: &[Member<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for member in members {
        let (path, kind, link, content) = match member {
            Member::File(path, content) => (path, tar::EntryType::Regular, "", *content),
            Member::Symlink(path, to) => (path, tar::EntryType::Symlink, *to, ""),
            Member::HardLink(path, to) => (path, tar::EntryType::Link, *to, ""),
            Member::Fifo(path) => (path, tar::EntryType::Fifo, "", ""),
        };
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o6755);
        header.set_entry_type(kind);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, content.as_bytes()).expect("packs");
    }
    archive.into_inner().and_then(GzEncoder::finish).expect("packs")
}

/// Answers every request with `body`, after `before` has run.
pub fn serve(body: Vec<u8>, mut before: impl FnMut() + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            if read_request(&mut connection) {
                before();
                let _ = write!(
                    connection,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = connection.write_all(&body);
            }
        }
    });
    format!("http://{address}")
}

fn read_request(connection: &mut TcpStream) -> bool {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        if !connection.read(&mut byte).is_ok_and(|n| n > 0) {
            return false;
        }
        request.push(byte[0]);
    }
    true
}

pub fn wants(source: String, destination: &str, task: Task) -> Task {
    let artifact = TaskArtifact {
        getter_source: source.into(),
        getter_mode: "any".into(),
        relative_dest: destination.into(),
        getter_options: None,
        getter_headers: None,
    };
    Task { artifacts: Some(vec![artifact]), ..task }
}

/// Runs a task with this archive as its artifact. Returns `fetched`, or the refusal.
async fn fetch(stage: &Stage, members: &[Member<'_>]) -> (AllocId, String) {
    let source = format!("{}/a.tgz", serve(tar_gz(members), || {}));
    let id = stage.run(wants(source.clone(), "local/out", shell("true")));
    let ended = stage.until("its end", id, |update| update.client_status.is_terminal()).await;
    let mut details =
        web(&ended).events.iter().flatten().filter_map(|event| event.details.as_ref()?.get("download_error"));
    let refusal = details.next_back().map(|error| error.trim_start_matches("failed to download artifact ").to_owned());
    (id, refusal.map_or_else(|| "fetched".to_owned(), |refusal| refusal.replace(&source, "SOURCE")))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_never_reaches_out_of_its_destination() {
    let stage = Stage::new().await;
    let host = tempfile::tempdir().expect("a directory");
    let secret = host.path().join("secret");
    std::fs::write(&secret, "of the host").expect("writes");
    let (outside, secret_path) = (host.path().display().to_string(), secret.display().to_string());
    let absolute = format!("{outside}/absolute");
    let attacks: [(&str, Vec<Member<'_>>, &str); 10] = [
        ("member with ..", vec![Member::File("../../../evil", "evil")], "path that leads out"),
        ("absolute member", vec![Member::File(&absolute, "evil")], "fetched"),
        (
            "member through an absolute link",
            vec![Member::Symlink("l", &outside), Member::File("l/evil", "evil")],
            "Not a directory",
        ),
        (
            "member through a relative link",
            vec![Member::Symlink("l", "../.."), Member::File("l/evil", "evil")],
            "Not a directory",
        ),
        ("absolute link", vec![Member::Symlink("passwd", &secret_path)], "fetched"),
        ("link with ..", vec![Member::Symlink("a/up", "../../x")], "fetched"),
        ("link through a link", vec![Member::Symlink("a/up", ".."), Member::Symlink("out", "a/up/../..")], "fetched"),
        ("absolute hard link", vec![Member::HardLink("hard", &secret_path)], "No such file"),
        ("hard link with ..", vec![Member::HardLink("hard", "../../../../state/client-id")], "path that leads out"),
        ("FIFO", vec![Member::Fifo("pipe")], "no file, directory or link"),
    ];
    for (name, members, expected) in attacks {
        let (id, how) = fetch(&stage, &members).await;
        assert!(how.contains(expected), "{name}: {how}");
        // The fetched files are below the destination, and links that lead out of it are empty files.
        let out = stage.alloc_dir(id).join("web/local/out");
        let below = std::fs::canonicalize(&out).unwrap_or_default();
        for path in listing(&out).iter().map(|path| out.join(path)) {
            let leads_to = std::fs::canonicalize(&path).expect("leads somewhere");
            assert!(leads_to.starts_with(&below), "{name}: {} leads to {}", path.display(), leads_to.display());
            assert_ne!(std::fs::read_to_string(&path).unwrap_or_default(), "of the host", "{name}");
        }
    }
    assert_eq!(listing(host.path()), ["secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_stay_beneath_the_destination_are_made() {
    let stage = Stage::new().await;
    let members = [
        Member::File("bin/tool-1.2", "tool"),
        Member::Symlink("bin/tool", "tool-1.2"),
        Member::Symlink("lib/current", "../bin/tool"),
        Member::HardLink("bin/same", "bin/tool-1.2"),
    ];
    let (id, how) = fetch(&stage, &members).await;
    assert_eq!(how, "fetched");
    let out = stage.alloc_dir(id).join("web/local/out");
    for path in ["bin/tool-1.2", "bin/tool", "lib/current", "bin/same"] {
        assert_eq!(std::fs::read_to_string(out.join(path)).expect(path), "tool");
    }
    let tool = std::fs::metadata(out.join("bin/tool-1.2")).expect("is there");
    assert_eq!(tool.mode() & 0o7777, 0o755, "setuid and setgid bits are not kept");
    assert_eq!(
        tool.uid(),
        rustix::process::geteuid().as_raw(),
        "an artifact is the agent's, not the fetching process's"
    );
}

fn listing(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                _ => found.push(entry.path().strip_prefix(dir).expect("below").display().to_string()),
            }
        }
    }
    found.sort();
    found
}

/// A sibling task may change the content of the group's shared directory while an artifact of another task is being
/// fetched into it.
#[tokio::test(flavor = "multi_thread")]
async fn artifact_is_not_written_through_a_destination_swapped_for_a_link() {
    let stage = Stage::new().await;
    let host = tempfile::tempdir().expect("a directory");
    let (asked, swapped) = (mpsc::channel(), mpsc::channel::<()>());
    let source = serve(tar_gz(&[Member::File("deep/evil", "evil")]), move || {
        // The archive is sent after the destination was swapped: later than every check of it before the download.
        asked.0.send(()).expect("the test waits");
        swapped.1.recv().expect("the test swaps");
    });
    let id = stage.run(wants(format!("{source}/a.tgz"), "../alloc/data/out", shell("true")));
    tokio::task::block_in_place(|| asked.1.recv()).expect("asks");
    let out = stage.alloc_dir(id).join("alloc/data/out");
    let _ = std::fs::remove_dir_all(&out);
    symlink(host.path(), &out).expect("links");
    swapped.0.send(()).expect("the server waits");
    stage.until("its end", id, |update| update.client_status.is_terminal()).await;
    assert_eq!(listing(host.path()), Vec::<String>::new());
}

/// The same race many times, with a real sibling task that never stops swapping.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_destination_swaps_never_redirect_an_artifact() {
    let stage = Stage::new().await;
    let host = tempfile::tempdir().expect("a directory");
    let members: Vec<String> = (0..200).map(|n| format!("deep/{n}")).collect();
    let members: Vec<Member<'_>> = members.iter().map(|path| Member::File(path, "evil")).collect();
    let source = format!("{}/a.tgz", serve(tar_gz(&members), || {}));
    let swapping = format!(
        "cd ../alloc/data 2>/dev/null || cd $NOMAD_ALLOC_DIR/data; while :; do mkdir -p out/deep; rm -rf out; ln -sT {0} out; ln -sT {0} out/deep; rm -f out; done 2>/dev/null",
        host.path().display()
    );
    let mut sibling = shell(&swapping);
    sibling.name = "sibling".into();
    let victim = wants(source, "../alloc/data/out", shell("true"));
    for round in 0..10 {
        let id = stage.servers.place(alloc(JobType::Batch, vec![sibling.clone(), victim.clone()]));
        stage
            .until("the fetch's end", id, |update| update.task("web").is_some_and(|web| web.finished_at.is_some()))
            .await;
        stage.servers.stop(id);
        stage.until("its end", id, |update| update.client_status.is_terminal()).await;
        // The sibling itself may have put its link `deep` there.
        let written: Vec<String> = listing(host.path()).into_iter().filter(|name| name != "deep").collect();
        assert_eq!(written, Vec::<String>::new(), "round {round}");
    }
}

/// Status file of the process whose working directory is below `dir`.
fn status_of_process_in(dir: &Path) -> Option<BTreeMap<String, String>> {
    let own = std::fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let found: PathBuf = own
        .into_iter()
        .find(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir)))?;
    let status = std::fs::read_to_string(found.join("status")).ok()?;
    Some(
        status
            .lines()
            .filter_map(|line| line.split_once(":\t"))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_fetches_has_no_privileges() {
    if !may_run("root, which has privileges to give up", rustix::process::geteuid().is_root()) {
        return;
    }
    let stage = Stage::new().await;
    let (asked, go_on) = (mpsc::channel(), mpsc::channel::<()>());
    let source = serve(b"content".to_vec(), move || {
        asked.0.send(()).expect("the test waits");
        go_on.1.recv().expect("the test goes on");
    });
    let id = stage.run(wants(format!("{source}/file"), "local", shell("cat local/file")));
    tokio::task::block_in_place(|| asked.1.recv()).expect("asks");
    let dir = stage.alloc_dir(id);
    let status = until("the fetching process", || status_of_process_in(&dir)).await;
    let shown = |key: &str| status.get(key).cloned().unwrap_or_default();
    assert_eq!(shown("Uid"), "65533\t65533\t65533\t65533");
    assert_eq!(shown("Gid"), "65533\t65533\t65533\t65533");
    assert_eq!(shown("Groups").trim(), "");
    assert_eq!(shown("NoNewPrivs"), "1");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(shown(set), "0000000000000000", "{set}");
    }
    go_on.0.send(()).expect("the server waits");
    stage.until_status(id, AllocClientStatus::Complete).await;
}
