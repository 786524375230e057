//! The index of a capture, and the archive.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::capture::Capture;
use super::flags::Plan;
use super::targets::Targets;
use crate::{Context, format};

/// Writes `index.json` and `index.html`: the files, and what could not be captured.
pub(super) fn write_index(capture: &Capture, context: &Context, targets: &Targets, plan: &Plan) -> io::Result<()> {
    let files = capture.files();
    let bytes = |name: &str| std::fs::metadata(capture.dir().join(name)).map_or(0, |found| found.len());
    let listed: Vec<_> = files
        .iter()
        .map(|file| json!({ "Name": file.name, "Bytes": bytes(&file.name), "Error": file.error }))
        .collect();
    let index = json!({
        "Command": format!("{} {}", context.program, context.path),
        "Version": env!("CARGO_PKG_VERSION"),
        "Region": targets.region,
        "Servers": targets.servers,
        "Clients": targets.nodes,
        "Duration": songline_lang::duration::format(nanos(plan.duration)),
        "Interval": songline_lang::duration::format(nanos(plan.interval)),
        "Files": listed,
    });
    std::fs::write(capture.dir().join("index.json"), format::json(&index))?;
    let mut page = String::from(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Debug capture</title></head><body>\n\
         <h1>Debug capture</h1>\n<ul>\n",
    );
    for file in &files {
        let (name, error) = (escaped(&file.name), file.error.as_deref().map(escaped));
        let note = error.map_or(String::new(), |error| format!(" <em>{error}</em>"));
        // Writing to a text cannot fail.
        let _ = writeln!(page, "<li><a href=\"{name}\">{name}</a>{note}</li>");
    }
    page.push_str("</ul>\n</body></html>\n");
    std::fs::write(capture.dir().join("index.html"), page)
}

fn nanos(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Packs a directory under a name. The file must not exist; a failed one is removed.
pub(super) fn archive(dir: &Path, name: &str, file: &Path) -> io::Result<()> {
    let out = File::create_new(file)?;
    let packed = || -> io::Result<()> {
        let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::default()));
        tar.append_dir_all(name, dir)?;
        tar.into_inner()?.finish()?.sync_all()
    };
    packed().inspect_err(|_| {
        // What is left is no archive; a file that cannot be removed stays.
        let _ = std::fs::remove_file(file);
    })
}
