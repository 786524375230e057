//! Checksums of artifacts: given in the job, or found in a file of sums.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::{ArtifactError, hex};

/// Largest size of a file of sums, in bytes.
pub(super) const SUMS_BYTES_MAX: u64 = 1 << 20;

/// Expected checksum of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checksum {
    /// The checksum itself.
    Sum(Sum),
    /// Address of a file that has it.
    File(String),
}

/// Hash function and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    /// Hash function.
    pub kind: Kind,
    /// Lower-case hexadecimal digits.
    pub value: String,
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "md5" => Some(Self::Md5),
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The function whose digests have this many hexadecimal digits.
    fn of_length(digits: usize) -> Option<Self> {
        [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512].into_iter().find(|kind| kind.digits() == digits)
    }

    fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl Sum {
    fn new(kind: Option<Kind>, value: &str) -> Option<Self> {
        let kind = kind.or_else(|| Kind::of_length(value.len()))?;
        let fits = value.len() == kind.digits() && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| Self { kind, value: value.to_ascii_lowercase() })
    }

    /// Compares with the digest of what was downloaded.
    pub fn check(&self, got: String) -> Result<(), ArtifactError> {
        if got == self.value { Ok(()) } else { Err(ArtifactError::Checksum { expected: self.value.clone(), got }) }
    }

    /// Finds the checksum of a file in a file of sums: lines of `sha256sum` or of BSD, or one checksum alone.
    pub fn find(sums: &str, filename: &str) -> Option<Self> {
        let mut lines = sums.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        if let Some(sum) = lines.clone().find_map(|line| of_line(line, filename)) {
            return Some(sum);
        }
        let (only, none) = (lines.next()?, lines.next());
        if none.is_some() { None } else { Self::new(None, only) }
    }
}

/// `DIGEST  NAME`, `DIGEST *NAME` or `KIND (NAME) = DIGEST` of this file.
fn of_line(line: &str, filename: &str) -> Option<Sum> {
    let is_named = |name: &str| name.rsplit('/').next() == Some(filename);
    if let Some((head, value)) = line.split_once(" = ") {
        let (kind, name) = head.split_once(" (")?;
        let name = name.strip_suffix(')')?;
        return is_named(name).then(|| Sum::new(Some(Kind::named(kind)?), value.trim())).flatten();
    }
    let (value, name) = line.split_once(char::is_whitespace)?;
    is_named(name.trim().trim_start_matches('*')).then(|| Sum::new(None, value)).flatten()
}

impl Checksum {
    /// Parses `KIND:DIGEST`, a digest alone, or `file:ADDRESS`. An empty text is no checksum.
    pub fn parse(told: &str) -> Result<Option<Self>, String> {
        if told.is_empty() {
            return Ok(None);
        }
        let (kind, value) = match told.split_once(':') {
            Some(("file", address)) => return Ok(Some(Self::File(address.to_owned()))),
            Some((kind, value)) => {
                (Some(Kind::named(kind).ok_or_else(|| format!("unsupported checksum type: {kind}"))?), value)
            }
            None => (None, told),
        };
        let sum = Sum::new(kind, value).ok_or_else(|| format!("invalid checksum: {told}"))?;
        Ok(Some(Self::Sum(sum)))
    }
}

/// A digest under way.
pub(super) enum Hasher {
    None,
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub fn new(kind: Option<Kind>) -> Self {
        match kind {
            None => Self::None,
            Some(Kind::Md5) => Self::Md5(Md5::new()),
            Some(Kind::Sha1) => Self::Sha1(Sha1::new()),
            Some(Kind::Sha256) => Self::Sha256(Sha256::new()),
            Some(Kind::Sha512) => Self::Sha512(Box::new(Sha512::new())),
        }
    }

    pub fn update(&mut self, part: &[u8]) {
        match self {
            Self::None => {}
            Self::Md5(hash) => hash.update(part),
            Self::Sha1(hash) => hash.update(part),
            Self::Sha256(hash) => hash.update(part),
            Self::Sha512(hash) => hash.update(part),
        }
    }

    /// Returns the digest in hexadecimal digits; empty when no checksum is wanted.
    pub fn finish(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Md5(hash) => hex(&hash.finalize()),
            Self::Sha1(hash) => hex(&hash.finalize()),
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::Sha512(hash) => hex(&hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn checksum_of_a_file_is_found_in_a_file_of_sums() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let sha1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
        let files = [
            format!("{sha1}  other\n{md5}  ./tool\n"),
            format!("# sums\n{sha1} *tool\n"),
            format!("MD5 (tool) = {md5}\n"),
            format!("{}\n", sha1.to_uppercase()),
            format!("{md5}  other\n"),
            format!("SHA1 (tool) = {md5}\n"),
        ];
        let found = files.map(|sums| match Sum::find(&sums, "tool") {
            Some(Sum { kind, value }) => format!("{kind:?} {value}\n"),
            None => "none\n".to_owned(),
        });
        expect![[r#"
            Md5 d41d8cd98f00b204e9800998ecf8427e
            Sha1 da39a3ee5e6b4b0d3255bfef95601890afd80709
            Md5 d41d8cd98f00b204e9800998ecf8427e
            Sha1 da39a3ee5e6b4b0d3255bfef95601890afd80709
            none
            none
        "#]]
        .assert_eq(&found.concat());
    }
}
