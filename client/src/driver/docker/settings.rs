//! Settings of the driver: the agent's `plugin "docker" { config { .. } }`. Not here: the engine itself, and options of
//! tasks.

use std::time::Duration;

use songline_model::Dur;

use crate::config::ClientConfig;
use crate::driver::block::{self, Block};
use crate::driver::rights;
use crate::executor::capabilities::Set;

/// Socket of the engine, unless the settings or `DOCKER_HOST` name another.
const DEFAULT_ENDPOINT: &str = "unix:///var/run/docker.sock";
/// Image of the container that holds the network of an allocation.
const DEFAULT_INFRA_IMAGE: &str = "registry.k8s.io/pause-amd64:3.3";
/// Options of `plugin "docker"`.
const OPTIONS: &[&str] = &[
    "allow_caps",
    "allow_privileged",
    "allow_runtimes",
    "auth",
    "disable_log_collection",
    "endpoint",
    "extra_labels",
    "gc",
    "infra_image",
    "infra_image_pull_timeout",
    "logging",
    "pids_limit",
    "pull_activity_timeout",
    "volumes",
];

/// Settings of the driver.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// `unix://PATH`, `tcp://HOST:PORT` or `http://HOST:PORT`.
    pub endpoint: String,
    /// File in the form of `~/.docker/config.json` with credentials of registries; empty is none.
    pub auth_file: String,
    /// Name of a program `docker-credential-NAME`; empty is none.
    pub auth_helper: String,
    /// Patterns of the names of labels that containers get beside the allocation's id.
    pub extra_labels: Vec<String>,
    /// Whether images without a user are removed.
    pub image_gc: bool,
    /// Time for which an image without a user is kept.
    pub image_delay: Duration,
    /// Whether containers of ended runs are removed.
    pub container_gc: bool,
    /// Removal of containers that belong to no run.
    pub dangling: Dangling,
    /// Whether tasks may mount directories of the host.
    pub volumes_enabled: bool,
    /// SELinux label of mounts: `z`, `Z`, or empty.
    pub selinux_label: String,
    /// Whether privileged containers are allowed.
    pub allow_privileged: bool,
    /// Capabilities that tasks may hold; an error if the configuration names an unknown one.
    pub allowed_caps: Result<Set, String>,
    /// Container runtimes that tasks may name.
    pub allow_runtimes: Vec<String>,
    /// Image of the container that holds the network of an allocation.
    pub infra_image: String,
    /// Timeout of pulling that image.
    pub infra_image_pull_timeout: Duration,
    /// Longest silence of the engine during a pull.
    pub pull_activity_timeout: Duration,
    /// Upper bound of the number of processes of a task; 0 is none.
    pub pids_limit: i64,
    /// Whether the output of containers is left to the engine.
    pub disable_log_collection: bool,
    /// The engine's log driver for tasks that do not name one, and its options.
    pub logging: Option<Block>,
}

/// Removal of containers that belong to no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dangling {
    pub enabled: bool,
    /// Whether such containers are only named in the agent's log.
    pub dry_run: bool,
    pub period: Duration,
    /// Age up to which a container is left alone: its run may be starting.
    pub creation_grace: Duration,
}

impl Settings {
    /// Reads the settings. What cannot be used is named in the agent's log and has its default.
    pub fn new(config: &ClientConfig) -> Self {
        let none = Block::new();
        let options = config.plugins.get("docker").unwrap_or(&none);
        for unknown in options.keys().filter(|option| !OPTIONS.contains(&option.as_str())) {
            tracing::warn!(
                option = unknown.as_str(),
                "plugin \"docker\": this agent does not know the option; it has no effect"
            );
        }
        let sub = |key: &str| block::block(options, key).unwrap_or_default();
        let (auth, gc, volumes) = (sub("auth"), sub("gc"), sub("volumes"));
        let dangling = block::block(&gc, "dangling_containers").unwrap_or_default();
        let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
        Self {
            endpoint: or(block::text(options, "endpoint"), &default_endpoint()),
            auth_file: block::text(&auth, "config"),
            auth_helper: block::text(&auth, "helper"),
            extra_labels: block::texts(options, "extra_labels"),
            image_gc: block::flag(&gc, "image").unwrap_or(true),
            image_delay: span(&gc, "image_delay", Dur::from_mins(3)),
            container_gc: block::flag(&gc, "container").unwrap_or(true),
            dangling: Dangling {
                enabled: block::flag(&dangling, "enabled").unwrap_or(true),
                dry_run: block::flag(&dangling, "dry_run").unwrap_or(false),
                period: span(&dangling, "period", Dur::from_mins(5)),
                creation_grace: span(&dangling, "creation_grace", Dur::from_mins(5)),
            },
            volumes_enabled: block::flag(&volumes, "enabled").unwrap_or(false),
            selinux_label: block::text(&volumes, "selinuxlabel"),
            allow_privileged: block::flag(options, "allow_privileged").unwrap_or(false),
            allowed_caps: rights::allowed(config, "docker"),
            allow_runtimes: match options.get("allow_runtimes") {
                Some(_) => block::texts(options, "allow_runtimes"),
                None => vec!["runc".to_owned(), "nvidia".to_owned()],
            },
            infra_image: or(block::text(options, "infra_image"), DEFAULT_INFRA_IMAGE),
            infra_image_pull_timeout: span(options, "infra_image_pull_timeout", Dur::from_mins(5)),
            pull_activity_timeout: span(options, "pull_activity_timeout", Dur::from_mins(2)),
            pids_limit: block::number(options, "pids_limit"),
            disable_log_collection: block::flag(options, "disable_log_collection").unwrap_or(false),
            logging: block::block(options, "logging"),
        }
    }
}

/// The endpoint that other clients of the engine would use.
fn default_endpoint() -> String {
    std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty()).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned())
}

fn span(options: &Block, key: &str, otherwise: Dur) -> Duration {
    let read = block::span(options, key, otherwise);
    let read = read.inspect_err(|error| tracing::warn!(error, "plugin \"docker\": the default is used"));
    read.unwrap_or(otherwise).to_std()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_from_blocks_of_either_syntax() {
        let check = |options: serde_json::Value| {
            let mut config = ClientConfig::default();
            config.plugins.insert("docker".into(), options.as_object().cloned().unwrap_or_default());
            let settings = Settings::new(&config);
            format!(
                "volumes {}, images {} after {:?}, dangling {} each {:?}, runtimes {:?}, infra {}, label {:?}",
                settings.volumes_enabled,
                settings.image_gc,
                settings.image_delay,
                settings.dangling.enabled,
                settings.dangling.period,
                settings.allow_runtimes,
                settings.infra_image,
                settings.selinux_label,
            )
        };
        let story = [
            check(json!({})),
            check(json!({
                "volumes": [{"enabled": true, "selinuxlabel": "z"}],
                "gc": [{"image": false, "image_delay": "10m", "dangling_containers": [{"enabled": false, "period": "1h"}]}],
                "infra_image": "local/pause:1",
            })),
            check(json!({"gc": {"image_delay": "soon"}, "allow_runtimes": [], "volumes": {"enabled": "true"}})),
        ];
        expect_test::expect![[r#"
            volumes false, images true after 180s, dangling true each 300s, runtimes ["runc", "nvidia"], infra registry.k8s.io/pause-amd64:3.3, label ""
            volumes true, images false after 600s, dangling false each 3600s, runtimes ["runc", "nvidia"], infra local/pause:1, label "z"
            volumes true, images true after 180s, dangling true each 300s, runtimes [], infra registry.k8s.io/pause-amd64:3.3, label """#]]
        .assert_eq(&story.join("\n"));
    }
}
