//! Parsing of an artifact's source: its address and the options of its retrieval. Pure; fetches nothing.

use reqwest::Url;
use songline_model::Str;

/// A parsed source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// Address of the file.
    pub url: Url,
    /// Directory of the archive that is wanted; empty means all of it.
    pub subdir: String,
    /// Archive format of the file.
    pub archive: Archive,
    /// Expected checksum.
    pub checksum: Option<Checksum>,
    /// Name of the file when it is not unpacked.
    pub filename: String,
}

/// Archive formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Archive {
    /// Not an archive.
    None,
    /// `.tar`
    Tar,
    /// `.tar.gz`, `.tgz`
    TarGz,
    /// One compressed file, `.gz`
    Gz,
}

/// Expected checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum {
    /// Hash function.
    pub kind: Kind,
    /// Lower-case hexadecimal digits.
    pub value: String,
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Md5,
    Sha256,
    Sha512,
}

/// Suffixes of files that are unpacked, the longer first. `None` is an unsupported format.
const ENDINGS: [(&str, Option<Archive>); 13] = [
    ("tar.gz", Some(Archive::TarGz)),
    ("tgz", Some(Archive::TarGz)),
    ("tar.bz2", None),
    ("tbz2", None),
    ("tar.xz", None),
    ("txz", None),
    ("tar.zst", None),
    ("tar", Some(Archive::Tar)),
    ("gz", Some(Archive::Gz)),
    ("bz2", None),
    ("xz", None),
    ("zst", None),
    ("zip", None),
];

impl Source {
    /// Parses a source with its options. Options and the address's own query mean the same; options take precedence.
    pub fn parse<'a>(source: &str, options: impl IntoIterator<Item = (&'a Str, &'a Str)>) -> Result<Self, String> {
        let plain = source.strip_prefix("http::").unwrap_or(source);
        let scheme = plain.split_once("::").or_else(|| plain.split_once("://")).map(|(scheme, _)| scheme);
        match scheme {
            Some("http" | "https") => {}
            Some(other) => return Err(format!("download not supported for scheme '{other}'")),
            None => return Err(format!("invalid source string: {source}")),
        }
        let (address, subdir) = split_subdir(plain);
        let mut url = Url::parse(&address).map_err(|error| format!("invalid source string: {error}"))?;
        let (mut archive, mut checksum, mut filename, mut others) =
            (String::new(), String::new(), String::new(), Vec::new());
        let own: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let told = options.into_iter().map(|(key, value)| (key.to_string(), value.to_string()));
        for (key, value) in own.into_iter().chain(told) {
            match key.as_str() {
                "archive" => archive = value,
                "checksum" => checksum = value,
                "filename" => filename = value,
                _ => others.push((key, value)),
            }
        }
        if others.is_empty() {
            url.set_query(None);
        } else {
            url.query_pairs_mut().clear().extend_pairs(others);
        }
        let last = url.path().rsplit('/').next().unwrap_or_default().to_owned();
        let filename = if filename.is_empty() { last.clone() } else { filename };
        if filename.contains('/') || matches!(filename.as_str(), "." | "..") {
            return Err(format!("invalid file name: {filename:?}"));
        }
        let archive = read_archive(&archive, &last)?;
        if !subdir.is_empty() && matches!(archive, Archive::None | Archive::Gz) {
            return Err(format!("a file has no directory {subdir:?}"));
        }
        Ok(Self { url, subdir, archive, checksum: read_checksum(&checksum)?, filename })
    }
}

/// Splits `//dir` off an address.
fn split_subdir(source: &str) -> (String, String) {
    let (path, query) = source.split_once('?').map_or((source, ""), |(path, query)| (path, query));
    let begin = path.find("://").map_or(0, |at| at + 3);
    let Some(at) = path[begin..].find("//").map(|at| begin + at) else { return (source.to_owned(), String::new()) };
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    (format!("{}{query}", &path[..at]), path[at + 2..].trim_matches('/').to_owned())
}

fn read_archive(told: &str, file: &str) -> Result<Archive, String> {
    if matches!(told, "false" | "0") {
        return Ok(Archive::None);
    }
    let named = |ending: &str| if told.is_empty() { file.ends_with(&format!(".{ending}")) } else { told == ending };
    match ENDINGS.iter().find(|(ending, _)| named(ending)) {
        Some((_, Some(archive))) => Ok(*archive),
        Some((ending, None)) => Err(format!("archives of type {ending} are not supported by this agent")),
        None if told.is_empty() => Ok(Archive::None),
        None => Err(format!("unknown archive type: {told}")),
    }
}

fn read_checksum(told: &str) -> Result<Option<Checksum>, String> {
    if told.is_empty() {
        return Ok(None);
    }
    let (kind, value) = told.split_once(':').unwrap_or(match told.len() {
        32 => ("md5", told),
        40 => ("sha1", told),
        128 => ("sha512", told),
        _ => ("sha256", told),
    });
    let (kind, digits) = match kind {
        "md5" => (Kind::Md5, 32),
        "sha256" => (Kind::Sha256, 64),
        "sha512" => (Kind::Sha512, 128),
        other => return Err(format!("checksums of type {other} are not supported by this agent")),
    };
    if value.len() != digits || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("invalid checksum: {told}"));
    }
    Ok(Some(Checksum { kind, value: value.to_ascii_lowercase() }))
}
