//! Files that a command reads: a path, or `-` for standard input.

use std::io::Read;

use serde_json::Value;

use crate::exit::Failure;

/// A file's text; `-` is standard input.
///
/// # Errors
/// The file cannot be read.
pub fn read(file: &str) -> Result<String, Failure> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::of("Error reading standard input", error))?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(|error| Failure::of(&format!("Error reading {file}"), error))
}

/// A file's text, or why it cannot be opened, in the words of Nomad's command line: `open FILE: no such file or directory`.
///
/// # Errors
/// The file cannot be read.
pub fn open(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("open {file}: {}", words(&error)))
}

/// Words of Nomad's command line about an error of a file.
pub fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// A specification in HCL 1 as an object: blocks are lists of objects, as in the reference's decoder.
///
/// # Errors
/// The reason why the text cannot be parsed.
pub fn hcl(text: &str) -> Result<Value, String> {
    songline_lang::config::parse(text).map_err(|error| error.to_string())
}
