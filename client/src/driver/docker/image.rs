//! Names of images: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`.

/// Registry of images whose name has none, as files with credentials call it.
pub(super) const DEFAULT_REGISTRY: &str = "https://index.docker.io/v1/";

/// A parsed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageName {
    /// The name without tag and digest.
    pub repository: String,
    /// The tag, or the digest; `latest` if the name has neither.
    pub tag: String,
}

impl ImageName {
    /// Parses a name. A leading `https://` is ignored.
    pub fn parse(name: &str) -> Self {
        let name = name.strip_prefix("https://").unwrap_or(name);
        if let Some((repository, digest)) = name.split_once('@') {
            // A tag before a digest has no meaning.
            let repository = split_tag(repository).0;
            return Self { repository: repository.to_owned(), tag: digest.to_owned() };
        }
        let (repository, tag) = split_tag(name);
        Self { repository: repository.to_owned(), tag: tag.unwrap_or("latest").to_owned() }
    }

    /// The whole name: `REPOSITORY:TAG`, or `REPOSITORY@DIGEST`.
    pub fn reference(&self) -> String {
        let between = if self.is_digest() { '@' } else { ':' };
        format!("{}{between}{}", self.repository, self.tag)
    }

    /// Whether the registry may have another image of this name than this machine.
    pub fn may_change(&self) -> bool {
        self.tag == "latest"
    }

    /// Registry of the image, as files with credentials call it.
    pub fn registry(&self) -> &str {
        match self.repository.split_once('/') {
            Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
            Some(_) | None => DEFAULT_REGISTRY,
        }
    }

    fn is_digest(&self) -> bool {
        self.tag.contains(':')
    }
}

/// Splits a tag off. A colon before the last slash belongs to the registry's port.
fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        Some(_) | None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_name_has_registry_repository_and_tag() {
        let names = [
            "redis",
            "redis:7",
            "library/redis:7",
            "127.0.0.1:1/busybox",
            "127.0.0.1:1/busybox:1",
            "localhost/a/b",
            "ghcr.io/a/b:1.2@sha256:00ff",
            "https://quay.io/a/b",
        ];
        let story = names.map(|name| {
            let parsed = ImageName::parse(name);
            format!("{name}: {} of {}, may change: {}", parsed.reference(), parsed.registry(), parsed.may_change())
        });
        expect_test::expect![[r#"
            redis: redis:latest of https://index.docker.io/v1/, may change: true
            redis:7: redis:7 of https://index.docker.io/v1/, may change: false
            library/redis:7: library/redis:7 of https://index.docker.io/v1/, may change: false
            127.0.0.1:1/busybox: 127.0.0.1:1/busybox:latest of 127.0.0.1:1, may change: true
            127.0.0.1:1/busybox:1: 127.0.0.1:1/busybox:1 of 127.0.0.1:1, may change: false
            localhost/a/b: localhost/a/b:latest of localhost, may change: true
            ghcr.io/a/b:1.2@sha256:00ff: ghcr.io/a/b@sha256:00ff of ghcr.io, may change: false
            https://quay.io/a/b: quay.io/a/b:latest of quay.io, may change: true"#]]
        .assert_eq(&story.join("\n"));
    }
}
