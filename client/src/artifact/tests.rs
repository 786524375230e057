//! Artifacts from source to file: parsing, fetching from a small server, unpacking, and refusals.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use expect_test::{Expect, expect};
use flate2::write::GzEncoder;
use songline_model::Str;

use super::checksum::Checksum;
use super::child::Place;
use super::source::Source;
use super::*;

mod remote;

fn check_source(sources: &[&str], expected: Expect) {
    let shown = sources.iter().map(|source| match Source::parse(source, []) {
        Ok(read) => {
            let sum = match &read.checksum {
                None => String::new(),
                Some(Checksum::Sum(sum)) => format!(", {:?} {}", sum.kind, &sum.value[..4]),
                Some(Checksum::File(address)) => format!(", sums in {address}"),
            };
            let options = if read.options.is_empty() { String::new() } else { format!(" {:?}", read.options) };
            let Source { getter, url, subdir, archive, filename, .. } = read;
            format!("{getter:?} {url} dir {subdir:?} {archive:?} as {filename:?}{sum}{options}\n")
        }
        Err(error) => format!("{error}\n"),
    });
    expected.assert_eq(&shown.collect::<String>());
}

#[test]
fn artifact_source_url_gives_location_directory_archive_and_checksum() {
    check_source(
        &[
            "http://h/a/b.tar.gz//in/side?x=1&archive=tar",
            "http::http://h/b.tgz",
            "http://h/b.tgz?archive=false&checksum=md5:d41d8cd98f00b204e9800998ecf8427e",
            "http://h/get?filename=tool",
            "http://h/tool.gz",
            "https://h/x.zip?checksum=file:https://h/sums",
            "https://h/x.tar.zst?checksum=sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "git::https://h/repo.git//dir?ref=v1&depth=1",
            "git::git@h:owner/repo.git",
            "git@h:owner/repo.git//dir",
            "github.com/owner/repo/dir?ref=v1",
            "hg::https://h/repo?rev=1",
            "s3::https://s3.amazonaws.com/b/k.zip?region=r",
            "b.s3.amazonaws.com/k",
            "www.googleapis.com/storage/v1/b/k",
        ],
        expect![[r#"
            Http http://h/a/b.tar.gz?x=1 dir "in/side" Tar(None) as "b.tar.gz"
            Http http://h/b.tgz dir "" Tar(Some(Gz)) as "b.tgz"
            Http http://h/b.tgz dir "" None as "b.tgz", Md5 d41d
            Http http://h/get dir "" None as "tool"
            Http http://h/tool.gz dir "" Single(Gz) as "tool.gz"
            Http https://h/x.zip dir "" Zip as "x.zip", sums in https://h/sums
            Http https://h/x.tar.zst dir "" Tar(Some(Zst)) as "x.tar.zst", Sha1 da39
            Git https://h/repo.git dir "dir" None as "repo.git" {"depth": "1", "ref": "v1"}
            Git ssh://git@h/owner/repo.git dir "" None as "repo.git"
            Git ssh://git@h/owner/repo.git dir "dir" None as "repo.git"
            Git https://github.com/owner/repo.git dir "dir" None as "repo.git" {"ref": "v1"}
            Hg https://h/repo dir "" None as "repo" {"rev": "1"}
            S3 https://s3.amazonaws.com/b/k.zip dir "" Zip as "k.zip" {"region": "r"}
            S3 https://b.s3.amazonaws.com/k dir "" None as "k"
            Gcs https://www.googleapis.com/storage/v1/b/k dir "" None as "k"
        "#]],
    );
}

#[test]
fn unsupported_artifact_source_is_refused_with_the_reason() {
    check_source(
        &[
            "file:///etc/passwd",
            "git::file:///etc",
            "git::/etc",
            "hg::../x",
            "odd://h/x",
            "s3::file:///etc/passwd",
            "/etc/passwd",
            "github.com/owner",
            "http://h/x?archive=rar",
            "http://h/x?filename=../y",
            "http://h/x//in",
            "http://h/x?checksum=sha256:12",
            "http://h/x?checksum=odd:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ],
        expect![[r#"
            download not supported for scheme 'file'
            download not supported for scheme 'file'
            invalid source string: relative URL without a base
            invalid source string: relative URL without a base
            download not supported for scheme 'odd'
            download not supported for scheme 'file'
            invalid source string: /etc/passwd
            invalid source string: github.com/owner: a repository is HOST/OWNER/NAME
            unknown archive type: rar
            invalid file name: "../y"
            a file has no directory "in"
            invalid checksum: sha256:12
            unsupported checksum type: odd
        "#]],
    );
}

/// Answers requests with these bodies by path, otherwise with 404. Paths `/secret` require a header.
fn serve(files: BTreeMap<&'static str, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let (mut request, mut byte) = (String::new(), [0]);
            while !request.ends_with("\r\n\r\n") && connection.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(char::from(byte[0]));
            }
            let path = request.split(' ').nth(1).unwrap_or_default();
            let allowed = path != "/secret" || request.to_lowercase().contains("x-key: open");
            let body = files.get(path).filter(|_| allowed);
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.map(Vec::as_slice).unwrap_or_default();
            let _ =
                write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = connection.write_all(body);
        }
    });
    format!("http://{address}")
}

/// A gzipped tar of these entries (path, content). Content `-> x` makes a link to x.
fn tar_gz(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        // Written without checks: paths that no honest program would write are under test.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        if let Some(to) = content.strip_prefix("-> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name(to).expect("short");
            header.set_size(0);
            header.set_cksum();
            archive.append(&header, io::empty()).expect("packs");
        } else {
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).expect("packs");
        }
    }
    archive.into_inner().and_then(GzEncoder::finish).expect("packs")
}

/// All files below a directory with their content, except those that git keeps for itself.
fn listing(dir: &Path) -> String {
    let mut lines = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for path in fs::read_dir(at).expect("readable").map(|entry| entry.expect("readable").path()) {
            let name = path.strip_prefix(dir).expect("below").display().to_string();
            if path.is_symlink() {
                lines.push(format!("  {name} -> {}\n", fs::read_link(&path).expect("a link").display()));
            } else if path.is_dir() {
                todo.extend(Some(path).filter(|path| !path.ends_with(".git")));
            } else if !name.contains(PRIVATE) {
                lines.push(format!("  {name}: {}\n", String::from_utf8_lossy(&fs::read(&path).expect("readable"))));
            }
        }
    }
    lines.sort();
    lines.concat()
}

/// As [`fetch`], without a process and its fence.
async fn fetch_with(
    artifact: &TaskArtifact,
    dirs: &Dirs,
    settings: &ArtifactSettings,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), ArtifactError> {
    let to = place::destination(dirs, &artifact.relative_dest)?;
    let (private, staging) = staging(dirs, "artifact-0")?;
    let home = dirs.task().join(PRIVATE).join("artifact-0");
    let place = Place { staging: &staging, home: &home, env };
    let staged = child::fetch(artifact, settings, &place).await?;
    place::put(&Dir::open(&dirs.alloc).expect("opens"), &staging, &staged, &artifact.getter_mode, &to)?;
    private.remove_all("artifact-0").map_err(doing("clearing up"))
}

/// Fetches artifacts, `source -> destination` with an optional mode, one after the other into one allocation, and
/// lists the result.
async fn check(steps: &[&str], expected: Expect) {
    let files = BTreeMap::from([
        ("/plain", b"plain".to_vec()),
        ("/secret", b"secret".to_vec()),
        ("/tree.tgz", tar_gz(&[("bin/tool", "tool"), ("share/doc", "doc")])),
        ("/one.tgz", tar_gz(&[("bin/tool", "tool")])),
        ("/out.tgz", tar_gz(&[("../../evil", "evil")])),
        ("/link.tgz", tar_gz(&[("l", "-> /"), ("l/evil", "evil")])),
        (
            "/links.tgz",
            tar_gz(&[
                ("dir/file", "x"),
                ("in", "-> dir/file"),
                ("dir/up", "-> ../in"),
                ("out", "-> ../../../../etc/passwd"),
                ("whole", "-> /etc/passwd"),
                ("dir/through", "-> up/../../.."),
            ]),
        ),
        ("/cut.tgz", tar_gz(&[("whole", "whole")])[..30].to_vec()),
    ]);
    let base = serve(files);
    let dir = tempfile::tempdir().expect("a directory");
    let dirs = Dirs { alloc: dir.path().join("alloc-id"), task: "web".into() };
    fs::create_dir_all(dirs.task().join("local")).expect("makes");
    std::os::unix::fs::symlink("/", dirs.task().join("local/trap")).expect("links");
    let mut shown = String::new();
    for step in steps {
        let words: Vec<&str> = step.split(' ').collect();
        let headers = BTreeMap::from([("X-Key".into(), "open".into())]);
        let artifact = TaskArtifact {
            getter_source: Str::from(format!("{base}{}", words[0])),
            getter_options: None,
            getter_headers: Some(headers),
            getter_mode: words.get(2).copied().unwrap_or("any").into(),
            relative_dest: words[1].into(),
        };
        let missing = missing([Wanted { named: words[0].to_owned(), artifact }].into_iter(), &dirs);
        let how = match missing.first() {
            None => "known".to_owned(),
            Some((key, wanted)) => {
                match fetch_with(&wanted.artifact, &dirs, &ArtifactSettings::default(), &|_| None)
                    .await
                    .and_then(|()| remember(&dirs, key))
                {
                    Ok(()) => "fetched".to_owned(),
                    Err(error) => error.to_string(),
                }
            }
        };
        shown += &format!("{step}: {how}\n");
    }
    shown += &listing(&dirs.alloc);
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1, "something is outside");
    expected.assert_eq(&shown.replace(&dir.path().display().to_string(), "DIR"));
}

#[tokio::test]
async fn artifact_is_fetched_to_its_destination_once() {
    check(
        &[
            "/plain local",
            "/plain local",
            "/secret local/key file",
            "/plain?checksum=sha256:a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475 local/summed file",
            "/tree.tgz local",
            "/tree.tgz//bin ../alloc/tools dir",
            "/one.tgz local/one file",
            "/tree.tgz//share local/part file",
        ],
        expect![[r#"
            /plain local: fetched
            /plain local: known
            /secret local/key file: fetched
            /plain?checksum=sha256:a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475 local/summed file: fetched
            /tree.tgz local: fetched
            /tree.tgz//bin ../alloc/tools dir: fetched
            /one.tgz local/one file: fetched
            /tree.tgz//share local/part file: fetched
              alloc/tools/tool: tool
              web/local/bin/tool: tool
              web/local/key: secret
              web/local/one: tool
              web/local/part: doc
              web/local/plain: plain
              web/local/share/doc: doc
              web/local/summed: plain
              web/local/trap -> /
        "#]],
    )
    .await;
}

#[tokio::test]
async fn artifact_path_out_of_the_alloc_directory_is_refused() {
    check(
        &["/plain ../../x", "/plain local/trap/tmp", "/plain ..", "/out.tgz local", "/link.tgz local"],
        expect![[r#"
            /plain ../../x: artifact destination path escapes alloc directory
            /plain local/trap/tmp: artifact destination has something in its way that is no directory
            /plain ..: artifact destination path escapes alloc directory
            /out.tgz local: the archive has a path that leads out of it
            /link.tgz local: unpacking a directory: Not a directory (os error 20)
              web/local/trap -> /
        "#]],
    )
    .await;
}

#[tokio::test]
async fn link_of_an_archive_is_made_only_when_it_stays_below_the_destination() {
    check(
        &["/links.tgz local/all", "/links.tgz//dir local/part"],
        expect![[r#"
            /links.tgz local/all: fetched
            /links.tgz//dir local/part: fetched
              web/local/all/dir/file: x
              web/local/all/dir/through: 
              web/local/all/dir/up -> ../in
              web/local/all/in -> dir/file
              web/local/all/out: 
              web/local/all/whole: 
              web/local/part/file: x
              web/local/part/through: 
              web/local/part/up: 
              web/local/trap -> /
        "#]],
    )
    .await;
}

#[tokio::test]
async fn artifact_that_does_not_match_its_request_is_refused() {
    check(
        &[
            "/none local",
            "/plain?checksum=md5:d41d8cd98f00b204e9800998ecf8427e local",
            "/plain local dir",
            "/tree.tgz local/x file",
            "/tree.tgz//none local",
            "/cut.tgz local",
        ],
        expect![[r#"
            /none local: bad response code: 404
            /plain?checksum=md5:d41d8cd98f00b204e9800998ecf8427e local: Checksums did not match. Expected: d41d8cd98f00b204e9800998ecf8427e Got: ac7938d40cfc2307e2bf325d28e7884e
            /plain local dir: source is a file, and a directory is wanted
            /tree.tgz local/x file: source is a directory, and a file is wanted
            /tree.tgz//none local: the archive has no directory "none"
            /cut.tgz local: unpacking: incomplete deflate stream
              web/local/trap -> /
        "#]],
    )
    .await;
}
