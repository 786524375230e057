//! Artifacts, and destinations that escape the directory of an allocation.

use crate::TaskArtifact;
use crate::job::errors::Errors;

impl TaskArtifact {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.getter_source.is_empty() {
            errors.push("source must be specified");
        }
        if !matches!(self.getter_mode.as_str(), "any" | "file" | "dir") {
            errors.push(format!("invalid artifact mode {:?}; must be one of: any, file, dir", self.getter_mode));
        }
        if escapes("task", &self.relative_dest) {
            errors.push("destination escapes allocation directory");
        }
        if let Some(checksum) = self.getter_options.as_ref().and_then(|options| options.get("checksum")) {
            errors.check(validate_checksum(checksum));
        }
        errors.into_result()
    }
}

/// Whether `path` below `prefix` escapes the allocation's directory. Symbolic links are not considered.
pub(super) fn escapes(prefix: &str, path: &str) -> bool {
    let mut inside: Vec<&str> = Vec::new();
    for part in prefix.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                if inside.pop().is_none() {
                    return true;
                }
            }
            name => inside.push(name),
        }
    }
    // The reference compares only the first two characters, so a name such as `..a` is refused too.
    inside.first().is_some_and(|name| name.starts_with(".."))
}

fn validate_checksum(checksum: &str) -> Result<(), String> {
    // The value of the variable is known only on the node.
    if checksum.contains("${") {
        return Ok(());
    }
    let checksum = checksum.trim();
    if checksum.is_empty() {
        return Err("checksum value cannot be empty".into());
    }
    let parts: Vec<&str> = checksum.split(':').collect();
    let [kind, value] = parts.as_slice() else {
        return Err(format!("checksum must be given as \"type:value\"; got {checksum:?}"));
    };
    let length = hex_length(value).map_err(|reason| format!("invalid checksum: {reason}"))?;
    let expected = match *kind {
        "md5" => 16,
        "sha1" => 20,
        "sha256" => 32,
        "sha512" => 64,
        other => return Err(format!("unsupported checksum type: {other}")),
    };
    if length == expected { Ok(()) } else { Err(format!("invalid {kind} checksum: {value}")) }
}

/// Number of bytes that a hexadecimal text encodes.
fn hex_length(text: &str) -> Result<usize, String> {
    if let Some(bad) = text.bytes().find(|byte| !byte.is_ascii_hexdigit()) {
        let shown = char::from(bad);
        let quoted = if bad < 0x80 && !bad.is_ascii_control() { format!(" '{shown}'") } else { String::new() };
        return Err(format!("encoding/hex: invalid byte: U+{bad:04X}{quoted}"));
    }
    if text.len() % 2 == 1 { Err("encoding/hex: odd length hex string".into()) } else { Ok(text.len() / 2) }
}
