//! Stories of the page's files: all are embedded, small, revalidated, and answered with the policy.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// Bound of all files, compressed as the API compresses them.
const COMPRESSED_BYTES_MAX: usize = 300 << 10;

fn collect(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder of the page") {
        let entry = entry.expect("an entry of the folder");
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found);
        } else if [".html", ".css", ".js", ".svg"].iter().any(|suffix| name.ends_with(suffix)) {
            found.insert(name);
        }
    }
}

#[test]
fn every_file_of_the_page_is_embedded_in_order() {
    let mut files = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("ui"), "", &mut files);
    let embedded: Vec<&str> = ASSETS.iter().map(|asset| asset.path).collect();
    assert_eq!(embedded, files.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn all_files_together_are_small() {
    let compressed = |asset: &Asset| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(asset.bytes).expect("writing to memory");
        encoder.finish().expect("writing to memory").len()
    };
    let bytes: usize = ASSETS.iter().map(compressed).sum();
    println!("the page has {bytes} bytes in {} files, compressed", ASSETS.len());
    assert!(bytes <= COMPRESSED_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn no_file_has_inline_code_or_markup_from_text() {
    for asset in ASSETS.iter().filter(|asset| !asset.path.starts_with("vendor/")) {
        let text = std::str::from_utf8(asset.bytes).expect("files of the page are text");
        let words =
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySet", "document.write", "eval(", "onclick="];
        let found: Vec<_> = words.iter().filter(|word| text.contains(**word)).collect();
        assert!(found.is_empty(), "{}: {found:?}", asset.path);
    }
}

/// The answer to a request without headers, of a page with these settings.
fn plain(path: &str, settings: &UiSettings) -> Response {
    show(path, &HeaderMap::new(), settings).expect("an answer")
}

#[test]
fn a_known_file_is_not_sent_again() {
    let settings = UiSettings::default();
    let fresh = plain("style.css", &settings);
    assert_eq!(fresh.status(), StatusCode::OK);
    assert_eq!(fresh.headers()[header::CONTENT_TYPE], "text/css; charset=utf-8");
    assert_eq!(fresh.headers()[header::CONTENT_SECURITY_POLICY], settings.content_security_policy().as_str());
    let mut headers = HeaderMap::new();
    headers.insert(header::IF_NONE_MATCH, fresh.headers()[header::ETAG].clone());
    assert_eq!(show("style.css", &headers, &settings).expect("a file").status(), StatusCode::NOT_MODIFIED);
}

#[test]
fn a_path_of_the_page_answers_with_the_index() {
    let tag = |path| plain(path, &UiSettings::default()).headers()[header::ETAG].clone();
    for path in ["", "jobs", "jobs/web@default", "../Cargo.toml", "js/none.js"] {
        assert_eq!(tag(path), tag(INDEX), "{path}");
    }
}

#[test]
fn settings_of_the_page_are_json_and_a_page_that_is_switched_off_has_no_files() {
    let settings = plain(SETTINGS, &UiSettings::default());
    assert_eq!(settings.headers()[header::CONTENT_TYPE], "application/json");
    let off = UiSettings { enabled: false, ..UiSettings::default() };
    for path in ["", "js/app.js", SETTINGS] {
        let answer = plain(path, &off);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        assert!(!answer.headers().contains_key(header::ETAG), "{path}");
    }
}
