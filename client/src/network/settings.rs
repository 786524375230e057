//! The part of the block `client` about networks of allocations: the bridge, CNI plugins, host networks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use songline_model::Str;

/// Settings of the networks of allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Directories of CNI plugins, separated by `:`.
    pub cni_path: String,
    /// Directory of the configurations of networks `cni/NAME`.
    pub cni_config_dir: PathBuf,
    /// Name of the bridge, and of the network that the plugins know.
    pub bridge_name: Str,
    /// Network of the bridge's addresses, in CIDR notation.
    pub bridge_subnet: Str,
    /// Whether allocations reach themselves through their mapped ports.
    pub bridge_hairpin: bool,
    /// Whether ports of the default network are mapped on every address of the host, where no host network is
    /// configured.
    pub wildcard_ports: bool,
    /// Host networks by name.
    pub host_networks: BTreeMap<Str, HostNetwork>,
}

/// One `host_network`: addresses of this host that ports of jobs may ask for by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostNetwork {
    /// Addresses in this range; empty means all.
    pub cidr: Str,
    /// Addresses of this interface; empty means of all.
    pub interface: Str,
    /// Ports that jobs do not get on these addresses, such as `22,8000-8010`.
    pub reserved_ports: Str,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            cni_path: "/opt/cni/bin".to_owned(),
            cni_config_dir: "/opt/cni/config".into(),
            bridge_name: "nomad".into(),
            bridge_subnet: "172.26.64.0/20".into(),
            bridge_hairpin: false,
            wildcard_ports: true,
            host_networks: BTreeMap::new(),
        }
    }
}

impl NetworkSettings {
    /// Path of a plugin's program, if there is one.
    pub(crate) fn plugin(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        self.plugin_dirs().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// The directories of plugins.
    pub(crate) fn plugin_dirs(&self) -> impl Iterator<Item = PathBuf> {
        self.cni_path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from)
    }
}
