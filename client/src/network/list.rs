//! Network configurations of CNI: the list of plugins of the bridge, and the files of `cni_config_dir`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::settings::NetworkSettings;

/// Version of the plugins' protocol in which the bridge is configured: the newest that old packages know.
const VERSION: &str = "0.4.0";
/// Chain of the packet filter that operators may write rules into.
pub(super) const ADMIN_CHAIN: &str = "NOMAD-ADMIN";
/// Plugins that the bridge needs.
pub(super) const BRIDGE_PLUGINS: &[&str] = &["bridge", "firewall", "host-local", "portmap"];

/// A named list of plugins, which run one after another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NetworkList {
    /// Name of the network.
    pub name: String,
    /// Version of the protocol.
    pub version: String,
    /// Configurations of the plugins.
    pub plugins: Vec<Map<String, Value>>,
}

impl NetworkList {
    /// The list of the agent's own bridge.
    pub fn bridge(settings: &NetworkSettings) -> Self {
        let plugins = json!([
            {
                "type": "bridge",
                "bridge": settings.bridge_name.as_str(),
                "ipMasq": true,
                "isGateway": true,
                "forceAddress": true,
                "hairpinMode": settings.bridge_hairpin,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": settings.bridge_subnet.as_str() }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "firewall", "backend": "iptables", "iptablesAdminChainName": ADMIN_CHAIN },
            { "type": "portmap", "capabilities": { "portMappings": true }, "snat": true },
        ]);
        let plugins = plugins.as_array().into_iter().flatten().filter_map(|plugin| plugin.as_object().cloned());
        // Leases of addresses are kept by network, and two bridges of one machine must not share them.
        Self { name: settings.bridge_name.to_string(), version: VERSION.to_owned(), plugins: plugins.collect() }
    }

    /// Reads the text of a file: a list, or the configuration of a single plugin.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let word = |key: &str| file.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, version) = (word("name"), word("cniVersion"));
        if name.is_empty() || name.contains('/') {
            return Err("the network has no name".to_owned());
        }
        let plugins = match file.get("plugins") {
            Some(Value::Array(plugins)) => {
                let plugin = |plugin: &Value| plugin.as_object().cloned().ok_or("a plugin is no object".to_owned());
                plugins.iter().map(plugin).collect::<Result<Vec<_>, _>>()?
            }
            Some(_) => return Err("`plugins` is no list".to_owned()),
            None => vec![file],
        };
        let typed = |plugin: &Map<String, Value>| plugin.get("type").is_some_and(Value::is_string);
        if plugins.is_empty() || !plugins.iter().all(typed) {
            return Err("a plugin without a type, or no plugin".to_owned());
        }
        Ok(Self { name, version: if version.is_empty() { "0.1.0".to_owned() } else { version }, plugins })
    }
}

/// Networks that the directory configures, by name. Of files with the same name of a network the first counts, in the
/// order of their names. A file that cannot be read is logged and left out. Blocks.
pub(super) fn configured(dir: &Path) -> BTreeMap<String, NetworkList> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_config = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|kind| ["conf", "conflist", "json"].iter().any(|known| kind == *known))
    };
    let mut files: Vec<_> = entries.filter(is_config).collect();
    files.sort();
    let mut lists = BTreeMap::new();
    for file in files {
        let parsed = fs::read_to_string(&file).map_err(|error| error.to_string());
        match parsed.and_then(|text| NetworkList::parse(&text)) {
            Ok(list) => drop(lists.entry(list.name.clone()).or_insert(list)),
            Err(error) => tracing::warn!(file = %file.display(), error, "reading the configuration of a network"),
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match NetworkList::parse(text) {
            Ok(list) => {
                let types = list.plugins.iter().map(|plugin| plugin["type"].to_string()).collect::<Vec<_>>();
                format!("{} {} {}", list.name, list.version, types.join(" "))
            }
            Err(error) => error,
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn files_are_lists_or_single_plugins() {
        check(
            r#"{"name": "lan", "cniVersion": "1.0.0", "plugins": [{"type": "macvlan"}, {"type": "portmap"}]}"#,
            expect![[r#"lan 1.0.0 "macvlan" "portmap""#]],
        );
        check(r#"{"name": "one", "type": "ptp"}"#, expect![[r#"one 0.1.0 "ptp""#]]);
        check(r#"{"type": "ptp"}"#, expect!["the network has no name"]);
        check(r#"{"name": "../x", "type": "ptp"}"#, expect!["the network has no name"]);
        check(r#"{"name": "x", "plugins": []}"#, expect!["a plugin without a type, or no plugin"]);
        check(r#"{"name": "x", "plugins": [{}]}"#, expect!["a plugin without a type, or no plugin"]);
        check(r#"{"name": "x", "plugins": {}}"#, expect!["`plugins` is no list"]);
    }

    #[test]
    fn bridge_follows_the_configuration_of_the_node() {
        let settings = NetworkSettings {
            bridge_name: "lab".into(),
            bridge_subnet: "10.9.0.0/24".into(),
            bridge_hairpin: true,
            ..NetworkSettings::default()
        };
        let list = NetworkList::bridge(&settings);
        assert_eq!(list.name, "lab");
        let shown = list.plugins.iter().map(|plugin| Value::Object(plugin.clone()).to_string());
        expect![[r#"
            {"type":"bridge","bridge":"lab","ipMasq":true,"isGateway":true,"forceAddress":true,"hairpinMode":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.9.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}
            {"type":"firewall","backend":"iptables","iptablesAdminChainName":"NOMAD-ADMIN"}
            {"type":"portmap","capabilities":{"portMappings":true},"snat":true}"#]]
        .assert_eq(&shown.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn first_file_of_a_network_counts_and_broken_files_are_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = [
            ("20-second.conf", r#"{"name": "lan", "type": "ptp"}"#),
            ("10-first.conflist", r#"{"name": "lan", "plugins": [{"type": "macvlan"}]}"#),
            ("30-other.json", r#"{"name": "dmz", "type": "vlan"}"#),
            ("40-broken.conf", "{"),
            ("50-text.txt", r#"{"name": "text", "type": "ptp"}"#),
        ];
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("writes");
        }
        let all = configured(dir.path());
        let shown: Vec<_> = all.iter().map(|(name, list)| format!("{name} {}", list.plugins[0]["type"])).collect();
        assert_eq!(shown, [r#"dmz "vlan""#, r#"lan "macvlan""#]);
        assert!(configured(&dir.path().join("none")).is_empty());
    }
}
