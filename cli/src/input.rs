//! Files that a command reads: a path, or `-` for standard input.

use std::io::Read;

use serde_json::Value;

use crate::exit::Failure;

/// A file's text; `-` is standard input.
///
/// # Errors
/// `Failed to read file: open FILE: ..`
pub fn read(file: &str) -> Result<String, Failure> {
    read_for("Failed to read file", file)
}

/// A file's text; `-` is standard input. `tried` is the beginning of the error about a file.
///
/// # Errors
/// `TRIED: open FILE: ..`
pub fn read_for(tried: &str, file: &str) -> Result<String, Failure> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::of("Error reading standard input", error))?;
        return Ok(text);
    }
    open(file).map_err(|reason| Failure::of(tried, reason))
}

/// A file's bytes; `-` is standard input. `tried` is the beginning of the error about a file.
///
/// # Errors
/// `TRIED: open FILE: ..`
pub fn bytes_for(tried: &str, file: &str) -> Result<Vec<u8>, Failure> {
    if file == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::of("Error reading standard input", error))?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|error| Failure::of(tried, format_args!("open {file}: {}", words(&error))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_named_with_what_was_tried() {
        let refused = read("none-such.hcl").expect_err("there is no such file");
        assert_eq!(refused.message(), "Failed to read file: open none-such.hcl: no such file or directory");
        let refused = read_for("Error reading input data", "none-such").expect_err("there is no such file");
        assert_eq!(refused.message(), "Error reading input data: open none-such: no such file or directory");
        let refused = bytes_for("Error reading input data", "none-such").expect_err("there is no such file");
        assert_eq!(refused.message(), "Error reading input data: open none-such: no such file or directory");
    }

    #[test]
    fn bytes_need_not_be_text() {
        let dir = tempfile::tempdir().expect("a directory is made");
        let file = dir.path().join("payload");
        std::fs::write(&file, b"\xff\0\x1b").expect("it is written");
        let bytes = bytes_for("Error reading input data", &file.display().to_string()).expect("it is read");
        assert_eq!(bytes, b"\xff\0\x1b");
    }
}
