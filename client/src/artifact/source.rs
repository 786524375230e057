//! Parsing of an artifact's source: its getter, address and the options of its retrieval. Pure; fetches nothing.

use std::collections::BTreeMap;

use reqwest::Url;
use songline_model::Str;

use super::checksum::Checksum;

/// A parsed source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The way to fetch it.
    pub getter: Getter,
    /// Address of the file, repository or object.
    pub url: Url,
    /// Directory of the archive or repository that is wanted; empty means all of it. Its parts may be patterns.
    pub subdir: String,
    /// Archive format of the file.
    pub archive: Archive,
    /// Expected checksum.
    pub checksum: Option<Checksum>,
    /// Name of the file when it is not unpacked.
    pub filename: String,
    /// Options of the getter, such as `ref` of git.
    pub options: BTreeMap<String, String>,
}

/// Ways to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Getter {
    Http,
    Git,
    Hg,
    S3,
    Gcs,
}

impl Getter {
    fn named(name: &str) -> Option<Self> {
        match name {
            "http" | "https" => Some(Self::Http),
            "git" => Some(Self::Git),
            "hg" => Some(Self::Hg),
            "s3" => Some(Self::S3),
            "gcs" => Some(Self::Gcs),
            _ => None,
        }
    }

    /// Whether it fetches by programs of this machine.
    fn runs_programs(self) -> bool {
        matches!(self, Self::Git | Self::Hg)
    }

    /// Schemes of addresses that it fetches from. Files of this machine are never a source.
    fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Http | Self::S3 | Self::Gcs => &["http", "https"],
            Self::Git => &["http", "https", "ssh", "git"],
            Self::Hg => &["http", "https", "ssh"],
        }
    }

    /// Options that it takes out of the address's query.
    fn takes(self, option: &str) -> bool {
        match self {
            Self::Http => false,
            Self::Git => matches!(option, "ref" | "sshkey" | "depth"),
            Self::Hg => option == "rev",
            Self::S3 | Self::Gcs => true,
        }
    }
}

/// Archive formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Archive {
    /// Not an archive.
    None,
    /// One compressed file.
    Single(Compression),
    /// A tape archive, perhaps compressed.
    Tar(Option<Compression>),
    /// A zip archive.
    Zip,
}

impl Archive {
    /// Whether it unpacks to a directory.
    pub fn is_tree(self) -> bool {
        matches!(self, Self::Tar(_) | Self::Zip)
    }
}

/// Compressions of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gz,
    Bz2,
    Xz,
    Zst,
}

/// Suffixes of files that are unpacked, the longer first.
const ENDINGS: [(&str, Archive); 14] = [
    ("tar.gz", Archive::Tar(Some(Compression::Gz))),
    ("tgz", Archive::Tar(Some(Compression::Gz))),
    ("tar.bz2", Archive::Tar(Some(Compression::Bz2))),
    ("tbz2", Archive::Tar(Some(Compression::Bz2))),
    ("tar.xz", Archive::Tar(Some(Compression::Xz))),
    ("txz", Archive::Tar(Some(Compression::Xz))),
    ("tar.zst", Archive::Tar(Some(Compression::Zst))),
    ("tzst", Archive::Tar(Some(Compression::Zst))),
    ("tar", Archive::Tar(None)),
    ("gz", Archive::Single(Compression::Gz)),
    ("bz2", Archive::Single(Compression::Bz2)),
    ("xz", Archive::Single(Compression::Xz)),
    ("zst", Archive::Single(Compression::Zst)),
    ("zip", Archive::Zip),
];

/// Finds the getter of a source: the one that it names (`git::ADDRESS`), or that of well-known addresses. Returns the
/// getter's name, which may be unknown, and the address.
fn detect(source: &str) -> Result<(&str, String), String> {
    if let Some((name, address)) = source.split_once("::").filter(|(name, _)| is_word(name)) {
        return Ok((
            name,
            if name == "git" { scp_like(address).unwrap_or_else(|| address.to_owned()) } else { address.to_owned() },
        ));
    }
    if let Some((scheme, _)) = source.split_once("://") {
        return Ok((scheme, source.to_owned()));
    }
    if let Some(address) = scp_like(source) {
        return Ok(("git", address));
    }
    let host = source.split('/').next().unwrap_or_default();
    match host {
        "github.com" | "gitlab.com" | "bitbucket.org" => Ok(("git", repository(source)?)),
        "www.googleapis.com" => Ok(("gcs", format!("https://{source}"))),
        _ if host.ends_with(".amazonaws.com") => Ok(("s3", format!("https://{source}"))),
        _ => Err(format!("invalid source string: {source}")),
    }
}

/// Whether a source is fetched by programs of this machine. Looks at the text alone: the agent asks before the fetching
/// process parses it.
pub(super) fn runs_programs(source: &str) -> bool {
    detect(source).is_ok_and(|(name, _)| Getter::named(name).is_some_and(Getter::runs_programs))
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `USER@HOST:PATH` as an address.
fn scp_like(source: &str) -> Option<String> {
    let (user, rest) = source.split_once('@').filter(|(user, _)| is_word(user))?;
    let (host, path) = rest.split_once(':').filter(|(host, _)| !host.contains('/'))?;
    Some(format!("ssh://{user}@{host}/{}", path.trim_start_matches('/')))
}

/// `HOST/OWNER/NAME` with an optional path below as the address of a repository.
fn repository(source: &str) -> Result<String, String> {
    let (path, query) =
        source.split_once('?').map_or((source, String::new()), |(path, query)| (path, format!("?{query}")));
    let mut parts = path.splitn(4, '/');
    let (Some(host), Some(owner), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("invalid source string: {source}: a repository is HOST/OWNER/NAME"));
    };
    let below = parts.next().map(|below| format!("//{}", below.trim_start_matches('/'))).unwrap_or_default();
    Ok(format!("https://{host}/{owner}/{}.git{below}{query}", name.trim_end_matches(".git")))
}

impl Source {
    /// Parses a source with its options. Options and the address's own query mean the same; options take precedence.
    pub fn parse<'a>(source: &str, told: impl IntoIterator<Item = (&'a Str, &'a Str)>) -> Result<Self, String> {
        let (name, address) = detect(source)?;
        let getter = Getter::named(name).ok_or_else(|| format!("download not supported for scheme '{name}'"))?;
        let (address, subdir) = split_subdir(&address);
        let mut url = Url::parse(&address).map_err(|error| format!("invalid source string: {error}"))?;
        if !getter.schemes().contains(&url.scheme()) {
            return Err(format!("download not supported for scheme '{}'", url.scheme()));
        }
        let (mut archive, mut checksum, mut filename) = (String::new(), String::new(), String::new());
        let (mut options, mut others) = (BTreeMap::new(), Vec::new());
        let own: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let told = told.into_iter().map(|(key, value)| (key.to_string(), value.to_string()));
        for (key, value) in own.into_iter().chain(told) {
            match key.as_str() {
                "archive" => archive = value,
                "checksum" => checksum = value,
                "filename" => filename = value,
                key if getter.takes(key) => drop(options.insert(key.to_owned(), value)),
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
        let archive = if getter.runs_programs() { Archive::None } else { read_archive(&archive, &last)? };
        if getter == Getter::Http && !subdir.is_empty() && !archive.is_tree() {
            return Err(format!("a file has no directory {subdir:?}"));
        }
        if subdir.split('/').any(|part| part == "..") {
            return Err(format!("the directory {subdir:?} leads out of the source"));
        }
        Ok(Self { getter, url, subdir, archive, checksum: Checksum::parse(&checksum)?, filename, options })
    }

    /// An option of the getter; empty when it is not given.
    pub fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// Refuses an artifact that could not be placed, before it is downloaded.
    pub fn accept(&self, mode: &str) -> Result<(), String> {
        let wanted = |what: &str, wanted: &str| Err(format!("source is a {what}, and a {wanted} is wanted"));
        match (self.getter, self.archive, mode) {
            (Getter::Git | Getter::Hg, _, "file") => wanted("directory", "file"),
            (Getter::Http, Archive::None, "dir") => wanted("file", "directory"),
            // The reference's rule (recorded): one file is unpacked to the path of a file only, never into a directory.
            (_, Archive::Single(_), mode) if mode != "file" => {
                Err("a compressed file is unpacked in mode \"file\" only: its destination is the file".to_owned())
            }
            (Getter::Http, Archive::None, mode) if mode != "file" && self.filename.is_empty() => {
                Err("the source has no file name".to_owned())
            }
            _ => Ok(()),
        }
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
        Some((_, archive)) => Ok(*archive),
        None if told.is_empty() => Ok(Archive::None),
        None => Err(format!("unknown archive type: {told}")),
    }
}
