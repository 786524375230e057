//! Artifacts of all archive formats, from small servers with the APIs of S3 and Google Cloud Storage, and from git.

use std::io::Cursor;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use expect_test::expect;
use zip::write::SimpleFileOptions;

use super::*;

/// A tar of `bin/tool` and `doc` as Python packs it, compressed by bzip2 and by xz.
const TAR_BZ2: &str = "QlpoOTFBWSZTWee8kDUAAIh7gMmAAAhAAP+AAEJ8JZ4ACCggAHUJSNQaAA9QGhoJKTQNGRoAAaS31sBo1gANnSQi1/REcF8YDxwhDAGLrEUEUcCDMogpCF2T3M148pICeDRJSip76TFR6SJHzpEBIPxdyRThQkOe8kDU";
const TAR_XZ: &str = "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Cf/AHBdADEaShsJwPdtd+vy0uKwgJnneB5wwV7fhtmgJvXGDOmCXaVt3flnqyhUiMFhHUcAxEmJhxvZJkFQD8uXqK1XI2o0yYXwghqoxmm+mCxGVpg/gH02aZlE5ss5uJ3AUh1oAADfj1LwtPxUgtCKHbPrsAAANzxwtGEzXh0AAYwBgFAAAEWxohaxxGf7AgAAAAAEWVo=";

/// A zip archive of these entries (path, content). Content `-> x` makes a link to x.
fn zipped(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in entries {
        let options = SimpleFileOptions::default().unix_permissions(0o755);
        match content.strip_prefix("-> ") {
            Some(to) => archive.add_symlink(*path, to, options).expect("packs"),
            None => {
                archive.start_file(*path, options).expect("packs");
                archive.write_all(content.as_bytes()).expect("packs");
            }
        }
    }
    archive.finish().expect("packs").into_inner()
}

/// Answers GET requests by their path, query included, and their headers. `None` is 404.
fn serve_by(answer: impl Fn(&str, &str) -> Option<Vec<u8>> + Send + 'static) -> String {
    serve_with("", answer)
}

/// As [`serve_by`], with further lines of the answers' heads, each with its line break.
fn serve_with(lines: &'static str, answer: impl Fn(&str, &str) -> Option<Vec<u8>> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let (mut request, mut byte) = (String::new(), [0]);
            while !request.ends_with("\r\n\r\n") && connection.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(char::from(byte[0]));
            }
            let body = answer(request.split(' ').nth(1).unwrap_or_default(), &request);
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head =
                format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body));
        }
    });
    format!("http://{address}")
}

/// Fetches sources, `SOURCE` or `SOURCE MODE`, each to a directory of its own name, and lists the result.
async fn check_from(base: &str, settings: &ArtifactSettings, env: &[(&str, &str)], steps: &[&str], expected: Expect) {
    let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let dir = tempfile::tempdir().expect("a directory");
    let dirs = Dirs { alloc: dir.path().join("alloc-id"), task: "web".into() };
    fs::create_dir_all(dirs.task()).expect("makes");
    let mut shown = String::new();
    for (at, step) in steps.iter().enumerate() {
        let (source, mode) = step.split_once(' ').unwrap_or((step, "any"));
        let artifact = TaskArtifact {
            getter_source: source.replace("BASE", base).into(),
            getter_options: None,
            getter_headers: None,
            getter_mode: mode.into(),
            relative_dest: format!("local/{at}").into(),
        };
        let fetched = fetch_with(&artifact, &dirs, settings, &env).await;
        shown +=
            &format!("{at} {step}: {}\n", fetched.map_or_else(|error| error.to_string(), |()| "fetched".to_owned()));
    }
    shown += &listing(&dirs.alloc);
    expected.assert_eq(&shown.replace(base, "BASE"));
}

#[tokio::test]
async fn every_archive_format_is_unpacked() {
    let unbased = |text: &str| STANDARD.decode(text).expect("base64");
    let zst = ruzstd::encoding::compress_to_vec(&b"of zst"[..], ruzstd::encoding::CompressionLevel::Fastest);
    let bz2 = {
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packed.write_all(b"of ").expect("packs");
        let mut all = packed.finish().expect("packs");
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packed.write_all(b"two streams").expect("packs");
        all.extend(packed.finish().expect("packs"));
        all
    };
    let zip = zipped(&[("bin/tool", "tool"), ("doc", "doc"), ("in", "-> doc"), ("out", "-> ../../../etc/passwd")]);
    let (tar_bz2, tar_xz) = (unbased(TAR_BZ2), unbased(TAR_XZ));
    let evil = zipped(&[("../evil", "evil")]);
    let base = serve_by(move |path, _| match path {
        "/t.tar.bz2" => Some(tar_bz2.clone()),
        "/t.tar.xz" => Some(tar_xz.clone()),
        "/t.zip" | "/download" => Some(zip.clone()),
        "/one.zst" => Some(zst.clone()),
        "/one.bz2" => Some(bz2.clone()),
        "/evil.zip" => Some(evil.clone()),
        "/cut.zip" => Some(zip[..40].to_vec()),
        _ => None,
    });
    check_from(
        &base,
        &ArtifactSettings::default(),
        &[],
        &[
            "BASE/t.tar.bz2",
            "BASE/t.tar.xz//b*",
            "BASE/t.zip dir",
            "BASE/download?archive=zip",
            "BASE/one.zst file",
            "BASE/one.bz2 file",
            "BASE/one.bz2",
            "BASE/evil.zip",
            "BASE/cut.zip",
            "BASE/t.zip//none",
        ],
        expect![[r#"
            0 BASE/t.tar.bz2: fetched
            1 BASE/t.tar.xz//b*: fetched
            2 BASE/t.zip dir: fetched
            3 BASE/download?archive=zip: fetched
            4 BASE/one.zst file: fetched
            5 BASE/one.bz2 file: fetched
            6 BASE/one.bz2: a compressed file is unpacked in mode "file" only: its destination is the file
            7 BASE/evil.zip: the archive has a path that leads out of it
            8 BASE/cut.zip: unpacking: invalid Zip archive: Could not find EOCD
            9 BASE/t.zip//none: the archive has no directory "none"
              web/local/0/bin/tool: tool
              web/local/0/doc: doc
              web/local/1/tool: tool
              web/local/2/bin/tool: tool
              web/local/2/doc: doc
              web/local/2/in -> doc
              web/local/2/out: 
              web/local/3/bin/tool: tool
              web/local/3/doc: doc
              web/local/3/in -> doc
              web/local/3/out: 
              web/local/4: of zst
              web/local/5: of two streams
              web/private/artifact-0/staged/in -> doc
        "#]],
    )
    .await;
}

#[tokio::test]
async fn answer_that_is_compressed_on_its_way_is_unpacked_and_then_counted() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"plain text").expect("packs");
    let packed = packed.finish().expect("packs");
    let base = serve_with("Content-Encoding: gzip\r\n", move |path, request| {
        assert!(request.contains("Accept-Encoding: gzip\r\n"), "{request}");
        Some(if path == "/cut" { packed[..12].to_vec() } else { packed.clone() })
    });
    let steps = ["BASE/plain", "BASE/plain?checksum=md5:31bc5c2b8fd4f20cd747347b7504a385", "BASE/cut"];
    check_from(
        &base,
        &ArtifactSettings::default(),
        &[],
        &steps,
        expect![[r#"
        0 BASE/plain: fetched
        1 BASE/plain?checksum=md5:31bc5c2b8fd4f20cd747347b7504a385: fetched
        2 BASE/cut: unpacking the answer: incomplete deflate stream
          web/local/0/plain: plain text
          web/local/1/plain: plain text
    "#]],
    )
    .await;
    let few = ArtifactSettings { http_bytes_max: 9, ..ArtifactSettings::default() };
    check_from(
        &base,
        &few,
        &[],
        &steps[..1],
        expect![[r#"
        0 BASE/plain: its size in bytes is more than 9
    "#]],
    )
    .await;
}

#[tokio::test]
async fn archive_that_unpacks_to_more_than_allowed_is_refused() {
    let zeros = " ".repeat(2000);
    let (zip, tar) = (zipped(&[("a", &zeros), ("b", &zeros)]), tar_gz(&[("a", &zeros), ("b", &zeros)]));
    let base = serve_by(move |path, _| match path {
        "/t.zip" => Some(zip.clone()),
        "/t.tgz" | "/t.gz" => Some(tar.clone()),
        _ => None,
    });
    let steps = ["BASE/t.zip", "BASE/t.tgz", "BASE/t.gz file"];
    let bytes = ArtifactSettings { unpacked_bytes_max: 3000, ..ArtifactSettings::default() };
    check_from(
        &base,
        &bytes,
        &[],
        &steps,
        expect![[r#"
        0 BASE/t.zip: its unpacked size in bytes is more than 3000
        1 BASE/t.tgz: its unpacked size in bytes is more than 3000
        2 BASE/t.gz file: its unpacked size in bytes is more than 3000
    "#]],
    )
    .await;
    let files = ArtifactSettings { unpacked_files_max: 1, ..ArtifactSettings::default() };
    check_from(
        &base,
        &files,
        &[],
        &steps[..2],
        expect![[r#"
        0 BASE/t.zip: its number of files is more than 1
        1 BASE/t.tgz: its number of files is more than 1
    "#]],
    )
    .await;
    let download = ArtifactSettings { http_bytes_max: 10, ..ArtifactSettings::default() };
    check_from(
        &base,
        &download,
        &[],
        &steps[..1],
        expect![[r#"
        0 BASE/t.zip: its size in bytes is more than 10
    "#]],
    )
    .await;
}

#[tokio::test]
async fn checksum_is_looked_up_in_a_file_of_sums() {
    let base = serve_by(|path, _| match path {
        "/tool" => Some(b"plain".to_vec()),
        "/sums" => Some(b"a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475  tool\n".to_vec()),
        "/other" => Some(b"d41d8cd98f00b204e9800998ecf8427e  tool\n".to_vec()),
        _ => None,
    });
    check_from(
        &base,
        &ArtifactSettings::default(),
        &[],
        &[
            "BASE/tool?checksum=file:BASE/sums",
            "BASE/tool?checksum=file:sums",
            "BASE/tool?checksum=file:other",
            "BASE/tool?checksum=file:none",
            "BASE/tool?checksum=file:/tool",
            "BASE/tool?checksum=file:file:///etc/passwd",
        ],
        expect![[r#"
            0 BASE/tool?checksum=file:BASE/sums: fetched
            1 BASE/tool?checksum=file:sums: fetched
            2 BASE/tool?checksum=file:other: Checksums did not match. Expected: d41d8cd98f00b204e9800998ecf8427e Got: ac7938d40cfc2307e2bf325d28e7884e
            3 BASE/tool?checksum=file:none: bad response code: 404
            4 BASE/tool?checksum=file:/tool: invalid checksum file: it has no checksum of "tool"
            5 BASE/tool?checksum=file:file:///etc/passwd: invalid checksum file: download not supported for scheme 'file'
              web/local/0/tool: plain
              web/local/1/tool: plain
        "#]],
    )
    .await;
}

/// Answers as S3 does, to callers that sign for the key `id`; the object `public` to everyone.
fn s3(path: &str, request: &str) -> Option<Vec<u8>> {
    let signed =
        request.contains("Authorization: AWS4-HMAC-SHA256 Credential=id/") && request.contains("/r/s3/aws4_request");
    let listing = |keys: &[&str], next: &str| {
        let keys: String = keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
        Some(format!("<ListBucketResult>{next}{keys}</ListBucketResult>").into_bytes())
    };
    match path {
        "/bucket/public" => Some(b"for all".to_vec()),
        _ if !signed => None,
        "/bucket/a%20b/one.txt" => Some(b"one".to_vec()),
        "/bucket/a%20b/deep/two.txt" => Some(b"two".to_vec()),
        "/bucket/?list-type=2&prefix=a%20b%2F" => {
            listing(&["a b/", "a b/one.txt"], "<NextContinuationToken>t+</NextContinuationToken>")
        }
        "/bucket/?continuation-token=t%2B&list-type=2&prefix=a%20b%2F" => listing(&["a b/deep/two.txt"], ""),
        "/bucket/?list-type=2&prefix=none%2F" => listing(&[], ""),
        "/bucket/?list-type=2&prefix=evil%2F" => listing(&["evil/../../x"], ""),
        "/bucket/old?versionId=7" => Some(b"version 7".to_vec()),
        _ => None,
    }
}

#[tokio::test]
async fn objects_and_directories_come_from_s3() {
    let base = serve_by(s3);
    let keys = "region=r&aws_access_key_id=id&aws_access_key_secret=s";
    let steps = [
        "s3::BASE/bucket/public file".to_owned(),
        format!("s3::BASE/bucket/a%20b/one.txt?{keys}"),
        format!("s3::BASE/bucket/a%20b?{keys} dir"),
        format!("s3::BASE/bucket/a%20b/?{keys}&checksum=md5:d41d8cd98f00b204e9800998ecf8427e"),
        format!("s3::BASE/bucket/a%20b?{keys}"),
        format!("s3::BASE/bucket/none?{keys}"),
        format!("s3::BASE/bucket/evil?{keys} dir"),
        format!("s3::BASE/bucket/old?{keys}&version=7 file"),
        "s3::BASE/bucket/a%20b".to_owned(),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    check_from(&base, &ArtifactSettings::default(), &[], &steps, expect![[r#"
        0 s3::BASE/bucket/public file: fetched
        1 s3::BASE/bucket/a%20b/one.txt?region=r&aws_access_key_id=id&aws_access_key_secret=s: fetched
        2 s3::BASE/bucket/a%20b?region=r&aws_access_key_id=id&aws_access_key_secret=s dir: fetched
        3 s3::BASE/bucket/a%20b/?region=r&aws_access_key_id=id&aws_access_key_secret=s&checksum=md5:d41d8cd98f00b204e9800998ecf8427e: bad response code: 404
        4 s3::BASE/bucket/a%20b?region=r&aws_access_key_id=id&aws_access_key_secret=s: fetched
        5 s3::BASE/bucket/none?region=r&aws_access_key_id=id&aws_access_key_secret=s: bad response code: 404
        6 s3::BASE/bucket/evil?region=r&aws_access_key_id=id&aws_access_key_secret=s dir: the archive has a path that leads out of it
        7 s3::BASE/bucket/old?region=r&aws_access_key_id=id&aws_access_key_secret=s&version=7 file: fetched
        8 s3::BASE/bucket/a%20b: bad response code: 404
          web/local/0: for all
          web/local/1/one.txt: one
          web/local/2/deep/two.txt: two
          web/local/2/one.txt: one
          web/local/4/deep/two.txt: two
          web/local/4/one.txt: one
          web/local/7: version 7
    "#]]).await;
    let env = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "r")];
    let steps = ["s3::BASE/bucket/a%20b/one.txt"];
    check_from(
        &base,
        &ArtifactSettings::default(),
        &env,
        &steps,
        expect![[r#"
            0 s3::BASE/bucket/a%20b/one.txt: fetched
              web/local/0/one.txt: one
        "#]],
    )
    .await;
}

#[tokio::test]
async fn objects_and_directories_come_from_google_cloud_storage() {
    let base = serve_by(|path, request| match path {
        _ if !request.contains("Authorization: Bearer token") => None,
        "/storage/v1/b/bucket/o/dir%2Fone?alt=media" => Some(b"one".to_vec()),
        "/storage/v1/b/bucket/o/dir%2Fone?alt=media&generation=3" => Some(b"third".to_vec()),
        "/storage/v1/b/bucket/o?prefix=dir%2F" => {
            Some(br#"{"items": [{"name": "dir/one"}], "nextPageToken": "n"}"#.to_vec())
        }
        "/storage/v1/b/bucket/o?prefix=dir%2F&pageToken=n" => Some(b"{}".to_vec()),
        _ => None,
    });
    let address = base.trim_start_matches("http://").to_owned();
    let env = [("STORAGE_EMULATOR_HOST", address.as_str()), ("GOOGLE_OAUTH_ACCESS_TOKEN", "token")];
    let steps = [
        "gcs::https://www.googleapis.com/storage/v1/bucket/dir/one file",
        "www.googleapis.com/storage/v1/bucket/dir",
        "gcs::https://www.googleapis.com/storage/v1/bucket/dir/one#3",
        "gcs::https://www.googleapis.com/other",
    ];
    check_from(
        &base,
        &ArtifactSettings::default(),
        &env,
        &steps,
        expect![[r#"
            0 gcs::https://www.googleapis.com/storage/v1/bucket/dir/one file: fetched
            1 www.googleapis.com/storage/v1/bucket/dir: fetched
            2 gcs::https://www.googleapis.com/storage/v1/bucket/dir/one#3: fetched
            3 gcs::https://www.googleapis.com/other: URL is not a valid GCS URL
              web/local/0: one
              web/local/1/one: one
              web/local/2/one: third
        "#]],
    )
    .await;
}

/// The first commit of the repository: its name follows from its content and its time.
const FIRST: &str = "2e7408d539ea0edc52a5182883aa63c38169aa67";

/// A server of git repositories, until it is dropped.
struct GitServer {
    process: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn git(dir: &Path, args: &str) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(args.split(' ')).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "test").env(format!("GIT_{role}_EMAIL"), "test@example.com");
        command.env(format!("GIT_{role}_DATE"), "2000-01-01T00:00:00Z");
    }
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "git {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl GitServer {
    /// Serves a repository `repo` with a tag `v1` at its first commit, [`FIRST`], and a link that leads out of it.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let repo = dir.path().join("repo");
        fs::create_dir_all(repo.join("sub")).expect("makes");
        git(&repo, "init --quiet --initial-branch=main");
        fs::write(repo.join("sub/file"), "first").expect("writes");
        git(&repo, "add .");
        git(&repo, "commit --quiet -m first");
        assert_eq!(git(&repo, "rev-parse HEAD"), FIRST);
        git(&repo, "tag v1");
        fs::write(repo.join("sub/file"), "second").expect("writes");
        std::os::unix::fs::symlink("/etc/passwd", repo.join("out")).expect("links");
        git(&repo, "add .");
        git(&repo, "commit --quiet -m second");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|found| found.local_addr()).expect("a port").port();
        let program = PathBuf::from(git(dir.path(), "--exec-path")).join("git-daemon");
        let process = Command::new(program)
            .args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", dir.path().display()))
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .stderr(Stdio::null())
            .spawn()
            .expect("git-daemon starts");
        let address = format!("127.0.0.1:{port}");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while TcpStream::connect(&address).is_err() {
            assert!(std::time::Instant::now() < deadline, "git-daemon does not answer");
            std::thread::yield_now();
        }
        Self { process, address: format!("git://{address}"), _dir: dir }
    }
}

#[tokio::test]
async fn git_repository_is_cloned_at_a_revision() {
    let server = GitServer::start();
    let by_commit = format!("git::BASE/repo//sub?ref={FIRST}");
    let steps = [
        "git::BASE/repo",
        "git::BASE/repo//sub?ref=v1",
        &by_commit,
        "git::BASE/repo//sub?ref=main&depth=1",
        "git::BASE/repo//s*",
        "git::BASE/repo?ref=none",
        "git::BASE/none",
        "git::BASE/repo?ref=--upload-pack=x",
        "git::BASE/repo file",
    ];
    check_from(
        &server.address,
        &ArtifactSettings::default(),
        &[],
        &steps,
        expect![[r#"
            0 git::BASE/repo: fetched
            1 git::BASE/repo//sub?ref=v1: fetched
            2 git::BASE/repo//sub?ref=2e7408d539ea0edc52a5182883aa63c38169aa67: fetched
            3 git::BASE/repo//sub?ref=main&depth=1: fetched
            4 git::BASE/repo//s*: fetched
            5 git::BASE/repo?ref=none: git exited with exit status: 128: fatal: invalid reference: none
            6 git::BASE/none: git exited with exit status: 128: fatal: remote error: access denied or repository not exported: /none
            7 git::BASE/repo?ref=--upload-pack=x: invalid revision: "--upload-pack=x"
            8 git::BASE/repo file: source is a directory, and a file is wanted
              web/local/0/out: 
              web/local/0/sub/file: second
              web/local/1/file: first
              web/local/2/file: first
              web/local/3/file: second
              web/local/4/file: second
        "#]],
    )
    .await;
}
