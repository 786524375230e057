//! Attributes that clouds tell their machines: each cloud has a metadata service at an address that only the machine
//! reaches. Elsewhere nothing answers there, so requests have a short timeout, and the agent does not wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use songline_model::Str;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest answer that is used, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Life of a token of AWS, in seconds.
const TOKEN_SECONDS: &str = "300";

/// Attributes that a cloud tells, and a link to the machine in the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub attributes: BTreeMap<Str, Str>,
    pub link: Option<(Str, Str)>,
}

impl Found {
    fn put(&mut self, name: &str, value: &str) {
        let value = value.trim();
        if !value.is_empty() {
            self.attributes.insert(name.into(), value.into());
        }
    }
}

/// A cloud: its fingerprint's name, and the environment variable that names another metadata service, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cloud {
    Aws,
    Azure,
    DigitalOcean,
    Gce,
}

impl Cloud {
    pub const ALL: [Self; 4] = [Self::Aws, Self::Azure, Self::DigitalOcean, Self::Gce];

    /// Name of the fingerprint in allow and deny lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "env_aws",
            Self::Azure => "env_azure",
            Self::DigitalOcean => "env_digitalocean",
            Self::Gce => "env_gce",
        }
    }

    /// Variable of the environment with the address of another metadata service.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Aws => "AWS_ENV_URL",
            Self::Azure => "AZURE_ENV_URL",
            Self::DigitalOcean => "DO_ENV_URL",
            Self::Gce => "GCE_ENV_URL",
        }
    }

    fn address(self) -> &'static str {
        match self {
            Self::Aws => "http://169.254.169.254/latest/meta-data/",
            Self::Azure => "http://169.254.169.254/metadata/instance/",
            Self::DigitalOcean => "http://169.254.169.254/metadata/v1/",
            Self::Gce => "http://169.254.169.254/computeMetadata/v1/instance/",
        }
    }

    /// Asks the metadata service at `address`, or at the cloud's own. `None` if this machine is not in the cloud.
    pub async fn look(self, address: Option<String>) -> Option<Found> {
        let base = address.unwrap_or_else(|| self.address().to_owned());
        let base = format!("{}/", base.trim_end_matches('/'));
        // The services are reached directly, never through a proxy of the environment.
        let http = crate::tls::http_client().no_proxy().timeout(TIMEOUT).build().ok()?;
        let service = Service { http, base };
        match self {
            Self::Aws => service.aws().await,
            Self::Azure => service.azure().await,
            Self::DigitalOcean => service.digitalocean().await,
            Self::Gce => service.gce().await,
        }
    }
}

struct Service {
    http: Client,
    base: String,
}

/// The body of a successful answer.
async fn body(request: RequestBuilder) -> Option<String> {
    let answer = request.send().await.ok()?.error_for_status().ok()?;
    let body = answer.bytes().await.ok().filter(|body| body.len() <= ANSWER_BYTES_MAX)?;
    String::from_utf8(body.to_vec()).ok()
}

impl Service {
    fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    async fn aws(&self) -> Option<Found> {
        const SHARED: [(&str, &str); 3] = [
            ("instance-type", "instance-type"),
            ("placement/availability-zone", "placement.availability-zone"),
            ("instance-life-cycle", "instance-life-cycle"),
        ];
        const UNIQUE: [&str; 8] = [
            "ami-id",
            "hostname",
            "instance-id",
            "local-hostname",
            "local-ipv4",
            "mac",
            "public-hostname",
            "public-ipv4",
        ];
        // The token's path is beside that of the data. Machines with the older service have none.
        let token_url = self.base.replace("/meta-data/", "/api/token");
        let token =
            self.http.request(Method::PUT, token_url).header("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS);
        let token = body(token).await.unwrap_or_default();
        // Other clouds answer at the same address.
        self.of_aws(&token, "ami-id").await?;
        let mut found = Found::default();
        for (path, name) in SHARED {
            found.put(&format!("platform.aws.{name}"), &self.of_aws(&token, path).await.unwrap_or_default());
        }
        for name in UNIQUE {
            found.put(&format!("unique.platform.aws.{name}"), &self.of_aws(&token, name).await.unwrap_or_default());
        }
        let told = |name: &str| found.attributes.get(name).map(Str::as_str).unwrap_or_default();
        let (zone, id) = (told("platform.aws.placement.availability-zone"), told("unique.platform.aws.instance-id"));
        found.link = Some(("aws.ec2".into(), format!("{zone}.{id}").into()));
        Some(found)
    }

    async fn azure(&self) -> Option<Found> {
        const SHARED: [(&str, &str); 5] = [
            ("location", "location"),
            ("resourceGroupName", "resource-group"),
            ("vmScaleSetName", "scale-set"),
            ("vmSize", "vm-size"),
            ("zone", "zone"),
        ];
        let request = self.get("compute?api-version=2019-06-04&format=json").header("Metadata", "true");
        let told: Value = serde_json::from_str(&body(request).await?).ok()?;
        told.get("azEnvironment")?;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut found = Found::default();
        for (key, name) in SHARED {
            found.put(&format!("platform.azure.{name}"), &text(&told, key));
        }
        for tag in text(&told, "tags").split(';') {
            if let Some((name, value)) = tag.split_once(':') {
                found.put(&format!("platform.azure.tag.{name}"), value);
            }
        }
        found.put("unique.platform.azure.id", &text(&told, "vmId"));
        found.put("unique.platform.azure.name", &text(&told, "name"));
        let request = self.get("network/interface/0?api-version=2019-06-04&format=json").header("Metadata", "true");
        let network: Value = serde_json::from_str(&body(request).await.unwrap_or_default()).unwrap_or_default();
        let address = &network["ipv4"]["ipAddress"][0];
        found.put("unique.platform.azure.local-ipv4", &text(address, "privateIpAddress"));
        found.put("unique.platform.azure.public-ipv4", &text(address, "publicIpAddress"));
        found.put("unique.platform.azure.mac", &text(&network, "macAddress"));
        found.link = Some(("azure".into(), text(&told, "vmId").into()));
        Some(found)
    }

    async fn digitalocean(&self) -> Option<Found> {
        const UNIQUE: [(&str, &str); 7] = [
            ("hostname", "hostname"),
            ("id", "id"),
            ("interfaces/private/0/ipv4/address", "private-ipv4"),
            ("interfaces/public/0/ipv4/address", "public-ipv4"),
            ("interfaces/private/0/ipv6/address", "private-ipv6"),
            ("interfaces/public/0/ipv6/address", "public-ipv6"),
            ("interfaces/public/0/mac", "mac"),
        ];
        let region = body(self.get("region")).await?;
        let mut found = Found::default();
        found.put("platform.digitalocean.region", &region);
        for (path, name) in UNIQUE {
            found.put(&format!("unique.platform.digitalocean.{name}"), &body(self.get(path)).await.unwrap_or_default());
        }
        let id = found.attributes.get("unique.platform.digitalocean.id").cloned().unwrap_or_default();
        found.link = Some(("digitalocean".into(), id));
        Some(found)
    }

    /// A value of AWS. An older service has no tokens.
    async fn of_aws(&self, token: &str, path: &str) -> Option<String> {
        let request = self.get(path);
        let token = token.trim();
        body(if token.is_empty() { request } else { request.header("X-aws-ec2-metadata-token", token) }).await
    }

    /// A value of Google.
    async fn of_gce(&self, path: &str) -> Option<String> {
        body(self.get(path).header("Metadata-Flavor", "Google")).await
    }

    async fn gce(&self) -> Option<Found> {
        let machine = self.of_gce("machine-type").await?;
        // `projects/1/zones/ZONE`: the last part is the name.
        let last = |path: &str| path.trim().rsplit('/').next().unwrap_or_default().to_owned();
        let mut found = Found::default();
        found.put("platform.gce.machine-type", &last(&machine));
        found.put("platform.gce.zone", &last(&self.of_gce("zone").await.unwrap_or_default()));
        for name in ["automatic-restart", "on-host-maintenance"] {
            let value = self.of_gce(&format!("scheduling/{name}")).await.unwrap_or_default();
            found.put(&format!("platform.gce.scheduling.{name}"), &value);
        }
        for name in ["hostname", "id"] {
            found.put(&format!("unique.platform.gce.{name}"), &self.of_gce(name).await.unwrap_or_default());
        }
        let tags: Vec<String> =
            serde_json::from_str(&self.of_gce("tags").await.unwrap_or_default()).unwrap_or_default();
        for tag in tags {
            found.put(&format!("platform.gce.tag.{tag}"), "true");
        }
        let id = found.attributes.get("unique.platform.gce.id").cloned().unwrap_or_default();
        found.link = Some(("gce".into(), id));
        Some(found)
    }
}

#[cfg(test)]
mod tests;
